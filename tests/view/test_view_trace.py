"""A Stage-1 row leads back to its episode; every removed or edited link is named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from rundirs import EVIL, episode, skill_of
from safetensors.numpy import load_file, save_file

from seedbed.prompts.analyzer import answer_text
from seedbed.skills.sft_data import row_hash, trajectory_hashes
from seedbed.track.store import append_jsonl, skill_hash, skill_line, write_part
from seedbed.types import UserError
from seedbed.view.trace import Lineage, chain_text, check_traces

ROW = (np.arange(9, dtype=np.int32), np.arange(9) > 5, np.zeros(9, bool))


@pytest.fixture
def made(tmp_path) -> tuple[Path, Path]:
    """(sft run, collect run) with two episodes; row 0 trains on the second one's skill, row 1 on the first one's."""
    collected, run = tmp_path / "collect", tmp_path / "sft"
    first, second = episode(0), episode(1, won=False, text=EVIL)
    write_part(collected / "trajectories", "p0001", [first, second])
    skills = [
        skill_of(first, "workflow text"),
        skill_of(
            second, "avoid text", source="rules", status="ok_repaired", repairs=("fence", "nested"), raw="```{}```"
        ),
    ]
    append_jsonl(collected / "skills.jsonl", [skill_line(s) for s in skills])
    hashes = trajectory_hashes(collected)
    append_jsonl(
        run / "sft_data.jsonl",
        [
            {
                "index": i,
                "split": split,
                "trajectory": t.id,
                "task": t.task.id,
                "skill_source": s.source,
                "sha256": hashes[t.id],
                "skill_sha256": skill_hash(s),
                "row_sha256": row_hash(*ROW),
                "response": answer_text(s),
                "tokens": 9,
                "collect_dir": "../collect",
            }
            for i, (t, s, split) in enumerate([(second, skills[1], "validation"), (first, skills[0], "train")])
        ],
    )
    store_rows(run, 2)
    return run, collected


def store_rows(run: Path, count: int) -> None:
    names = ("ids", "answer", "action")
    save_file({n: np.tile(part, count) for n, part in zip(names, ROW, strict=True)}, run / "sft_data.safetensors")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_chain_leads_from_row_to_task(made):
    run, _ = made
    chain = Lineage(run).chain(0)
    assert (chain.skill.text, chain.trajectory.id, chain.trajectory.task.id) == ("avoid text", "v0/mug-1/1", "mug-1")
    text = chain_text(chain).plain
    order = [
        "row 0",
        "split: validation",
        "kind: avoidance",
        "status: ok_repaired",
        "source: rules",
        "repairs: fence, nested",
        "raw answer: ```{}```",
        "outcome: lost",
        "turn 0",
        "did: go",
        "turn 1",
        "did: take  (invalid)",
        "task mug-1",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "\x1b" not in text and "⟨U+001B⟩" in text
    assert Lineage(run).chain(1).skill.text == "workflow text"


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("collect/trajectories/p0001.jsonl", '"stop": "lost"', '"stop": "won"', "v0/mug-1/1' in .* was edited"),
        (
            "collect/trajectories/p0001.jsonl",
            '"id": "v0/mug-1/1"',
            '"id": "v0/mug-1/9"',
            "v0/mug-1/1' of row 0 is missing",
        ),
        ("collect/skills.jsonl", "avoid text", "other text", "skill of 'v0/mug-1/1' in .* was edited"),
        ("collect/skills.jsonl", "```{}```", "{}", "skill of 'v0/mug-1/1' in .* was edited"),
        ("collect/skills.jsonl", '"nested"', '"fence"', "skill of 'v0/mug-1/1' in .* was edited"),
        ("collect/skills.jsonl", '"source": "rules"', '"source": "policy"', "by 'rules' is missing"),
        ("sft/sft_data.jsonl", '"task": "mug-1"', '"task": "mug-2"', "names task 'mug-2'"),
        ("sft/sft_data.jsonl", "../collect", "../gone", "'?../gone'? .* is missing"),
    ],
)
def test_a_changed_link_is_named(made, file, old, new, says):
    run, _ = made
    edit(run.parent / file, old, new)
    with pytest.raises(UserError, match=says):
        Lineage(run).chain(0)


def test_removed_files_and_unknown_rows_are_named(made):
    run, collected = made
    with pytest.raises(UserError, match=r"no row 7: its rows are 0 to 1"):
        Lineage(run).chain(7)
    (collected / "skills.jsonl").unlink()
    with pytest.raises(UserError, match=r"skills\.jsonl cannot be read"):
        Lineage(run).chain(0)
    with pytest.raises(UserError, match="give the folder of an sft run"):
        Lineage(collected)


def test_rows_of_a_line_with_other_line_separators_inside(tmp_path, made):
    """A text may hold U+2028, which ``splitlines`` would cut at if it were stored raw."""
    run, collected = made
    odd = episode(0, text="a\u2028b", task="odd")
    write_part(collected / "trajectories", "p0002", [odd])
    skill = skill_of(odd, "s")
    append_jsonl(collected / "skills.jsonl", [skill_line(skill)])
    append_jsonl(
        run / "sft_data.jsonl",
        [
            json.loads(
                json.dumps(
                    {
                        "index": 2,
                        "split": "train",
                        "trajectory": odd.id,
                        "task": "odd",
                        "skill_source": "policy",
                        "skill_sha256": skill_hash(skill),
                        "row_sha256": row_hash(*ROW),
                        "tokens": 9,
                        "response": answer_text(skill),
                        "sha256": trajectory_hashes(collected)[odd.id],
                        "collect_dir": "../collect",
                    }
                )
            )
        ],
    )
    store_rows(run, 3)
    assert Lineage(run).chain(2).trajectory.turns_K[0].observation == "a\u2028b"


def test_the_way_back_and_the_check_of_many(made):
    run, collected = made
    assert Lineage(run).rows_of("v0/mug-1/1") == [0] and Lineage(run).rows_of("mug-1") == [0, 1]
    with pytest.raises(UserError, match="comes from 'nobody'"):
        Lineage(run).rows_of("nobody")
    assert check_traces(run, 50) == 2
    edit(collected / "trajectories" / "p0001.jsonl", '"attempt": 0', '"attempt": 5')
    with pytest.raises(UserError, match=r"v0/mug-1/0' in .* was edited"):
        check_traces(run, 50)


@pytest.mark.parametrize("name", ["ids", "answer", "action"])
def test_edited_tokens_of_a_row_are_found(made, name):
    run, _ = made
    arrays = load_file(run / "sft_data.safetensors")
    arrays[name][3] = 1 - arrays[name][3]
    save_file(arrays, run / "sft_data.safetensors")
    with pytest.raises(UserError, match=r"tokens of row 0 in .*sft_data\.safetensors were edited"):
        Lineage(run).chain(0)
    assert Lineage(run).chain(1).skill.text == "workflow text"


@pytest.mark.parametrize("name", ["prompt_ids", "response_ids", "logprobs"])
def test_edited_tokens_of_an_episode_are_found(made, name):
    run, collected = made
    path = collected / "trajectories" / "p0001.safetensors"
    arrays = load_file(path)
    arrays[name][-1] += 1  # of the second episode, which row 0 is about
    save_file(arrays, path)
    with pytest.raises(UserError, match=r"tokens of 'v0/mug-1/1' in .*p0001\.safetensors are not those"):
        Lineage(run).chain(0)
    assert Lineage(run).chain(1).skill.text == "workflow text"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"response": "{', '"response": "', "response of row 0 in .* is no skill"),
        ('"skill_sha256"', '"other"', "a row of .* lacks skill_sha256"),
    ],
)
def test_a_damaged_row_is_a_sentence(made, old, new, says):
    run, _ = made
    edit(run / "sft_data.jsonl", old, new)
    with pytest.raises(UserError, match=says):
        Lineage(run).chain(0)


def test_rows_are_held_to_the_digest_of_the_set(made):
    run, _ = made
    (run / "sft_set.json").write_text(json.dumps({"sft_data_sha256": hashlib.sha256(b"another").hexdigest()}))
    with pytest.raises(UserError, match=r"sft_data\.jsonl was edited: .* sft_set\.json names"):
        Lineage(run)
