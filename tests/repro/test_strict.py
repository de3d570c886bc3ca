"""The strict track on a machine without models: what can be checked is, the rest is open with its command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from folders import score, stage1, train_run

from seedbed.repro import here
from seedbed.repro.counts import counts
from seedbed.repro.plan import load_plan
from seedbed.tracks.base import states
from seedbed.tracks.strict import STEPS, begin
from seedbed.types import UserError

BY_NAME = {step.name: step for step in STEPS}
HERE = ("freeze", "data", "config", "report")


@pytest.fixture(scope="module")
def made(tmp_path_factory, data: Path) -> Path:
    """Frozen, counted, compared and reported."""
    made = tmp_path_factory.mktemp("made") / "strict"
    begin(made, ["alfworld", "qwen2.5-3b"])
    for name in HERE:
        BY_NAME[name].run(made)
    return made


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """The same somewhere else: nothing in it depends on its place."""
    return Path(shutil.copytree(made, tmp_path / "strict"))


def found(folder: Path) -> dict[str, str]:
    return {name: finding.state for name, finding in states(STEPS, folder).items()}


def test_what_needs_no_model_is_done_and_the_rest_has_a_command(folder: Path) -> None:
    judged = states(STEPS, folder)
    assert {name for name, finding in judged.items() if finding.state == "done"} == set(HERE)
    assert {finding.state for finding in judged.values()} == {"done", "open"}
    assert BY_NAME["grpo"].command(folder) == (
        f"seedbed train -c alfworld -c qwen2.5-3b algo.name=grpo --out {folder / 'grpo'}"
    )
    seed = BY_NAME["seed"].command(folder).split(" && ")
    assert [line.split()[1] for line in seed] == ["collect", "annotate", "sft", "train"]
    assert f"model.path={folder}/seed/sft/checkpoints/u0003" in seed[-1]
    with pytest.raises(UserError, match=r"needs the model.*seedbed eval models/Qwen2\.5-3B-Instruct"):
        BY_NAME["vanilla"].run(folder)
    assert all(BY_NAME[name].command(folder) == "" for name in HERE)


def test_counts_are_those_of_table_3_on_the_real_games(folder: Path) -> None:
    rows = {(r["benchmark"], r["what"]): r for r in json.loads((folder / "data.json").read_text())}
    alfworld = {what: row["here"] for (name, what), row in rows.items() if name == "alfworld"}
    assert alfworld == {
        "Stage-1 tasks": 180,
        "Stage-1 trajectories": 1440,
        "RL task draws": 2400,
        "panel alfworld-seen-140": 140,
        "panel alfworld-unseen-134": 134,
        "train tasks": 3553,
    }
    assert {row["what"] for (name, _), row in rows.items() if name == "alfworld" and not row["hash"]} == {
        *("Stage-1 trajectories", "RL task draws"),  # numbers of the settings; all that is data has a hash
    }
    assert rows["search", "RL task draws"]["paper"] == 19200 and rows["search", "test questions"]["paper"] == 51713
    assert rows["search", "test questions"]["state"] in ("same", "not here")  # a part of it is not a wrong count


def test_nothing_it_writes_names_this_machine(folder: Path, made: Path) -> None:
    texts = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert len(texts) == 10
    assert [name for name, text in texts.items() if str(made) in text or str(here.PACKAGE) in text] == []


def test_an_edited_artefact_turns_its_step_and_what_stands_on_it(folder: Path) -> None:
    path = folder / "data.json"
    whole = path.read_text()
    path.write_text(whole.replace('"here": 140', '"here": 139'))
    now = found(folder)
    assert now["data"] == now["report"] == "failed" and now["config"] == "done"
    path.write_text(whole)
    (folder / "record.json").write_text((folder / "record.json").read_text().replace("not attempted", "reproduced"))
    assert BY_NAME["report"].check(folder).state == "failed"
    BY_NAME["report"].run(folder)
    assert BY_NAME["report"].check(folder).state == "done"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["code"]["tree"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert {name for name, state in found(folder).items() if state == "failed"} == set(HERE)


def test_a_setting_of_the_users_needs_a_reason(tmp_path: Path, data: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("train: {lr: 1.0e-5}\n")
    folder = tmp_path / "strict"
    begin(folder, ["alfworld", "qwen2.5-3b", str(own)])
    for name in ("freeze", "config"):
        BY_NAME[name].run(folder)
    finding = BY_NAME["config"].check(folder)
    assert finding.state == "failed" and finding.evidence["unexplained"] == ["train.lr"]
    text = (folder / "strict.yaml").read_text()
    (folder / "strict.yaml").write_text(text.replace("reasons: {}", "reasons: {train.lr: a smaller model}"))
    assert BY_NAME["config"].check(folder).state == "failed"  # what was written before the reason
    BY_NAME["config"].run(folder)
    assert BY_NAME["config"].check(folder).state == "done"


def test_runs_are_judged_and_the_report_follows_them(folder: Path) -> None:
    plan = load_plan(folder)
    stage1(plan)
    train_run(plan, "seed", lambda i, t: i % 12 != 0)
    train_run(plan, "grpo", lambda i, t: i % 3 != 0, done=40)
    (folder / "vanilla.json").write_text(json.dumps(score(plan.config, lambda i, t: False)))
    judged = states(STEPS, folder)
    assert judged["seed"].state == judged["vanilla"].state == "done" and judged["seed"].evidence["unaligned"] == []
    assert "model" in judged["vanilla"].evidence["unaligned"][0]
    assert judged["grpo"].state == "open" and judged["grpo"].evidence == {"updates": 40}
    assert BY_NAME["grpo"].command(folder) == f"seedbed train --resume {folder / 'grpo'}"
    assert judged["report"].state == "failed"  # written before there was anything to report
    BY_NAME["report"].run(folder)
    assert BY_NAME["report"].check(folder).state == "done" and "| reproduced |" in (folder / "report.md").read_text()


def test_a_folder_is_about_one_thing(tmp_path: Path) -> None:
    begin(tmp_path, ["webshop", "qwen3-1.7b"])
    begin(tmp_path, ["webshop", "qwen3-1.7b"])
    with pytest.raises(UserError, match="is about webshop, qwen3-1.7b"):
        begin(tmp_path, ["alfworld", "qwen3-1.7b"])
    with pytest.raises(UserError, match="did you mean the preset 'qwen3-1.7b'"):
        begin(tmp_path / "other", ["alfworld", "qwen3-1.7"])
    assert not (tmp_path / "other").exists()
    (tmp_path / "strict.yaml").write_text("preset: alfworld\n")
    with pytest.raises(UserError, match="must hold 'presets"):
        load_plan(tmp_path)


def test_data_that_is_not_here_is_open_with_what_brings_it(tmp_path: Path, monkeypatch) -> None:
    for name in ("SEEDBED_DATA", "ALFWORLD_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    begin(tmp_path / "strict")
    for name in ("freeze", "data"):
        BY_NAME[name].run(tmp_path / "strict")
    finding = states(STEPS, tmp_path / "strict")["data"]
    assert finding.state == "open" and "panel alfworld-seen-140" in finding.why
    assert "alfworld-download" in BY_NAME["data"].command(tmp_path / "strict")


def test_a_split_with_games_missing_is_a_wrong_count(tmp_path: Path, monkeypatch) -> None:
    game = tmp_path / "json_2.1.1" / "valid_seen" / "pick_and_place_simple-Mug" / "trial_1"
    game.mkdir(parents=True)
    (game / "game.tw-pddl").write_text('{"solvable": true}')
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    rows = {row.what: row for row in counts("alfworld")}
    assert (rows["panel alfworld-seen-140"].here, rows["panel alfworld-seen-140"].state) == (1, "differs")
    assert rows["train tasks"].state == "not here"
