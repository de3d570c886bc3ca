"""A stranger with nothing but a run directory: five questions, one command each."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from small import Made

from seedbed.track.store import read_part
from seedbed.types import UserError
from seedbed.view.facts import TOPICS, facts


@pytest.fixture
def run(smoke: Made, tmp_path: Path) -> Path:
    """The SEED run alone, away from everything it was made from."""
    shutil.copytree(smoke.folder / "seed", tmp_path / "found")
    return tmp_path / "found"


def test_the_tasks_are_those_of_the_stored_episodes(run: Path) -> None:
    text = "\n".join(facts(run, "tasks"))
    played = [t for t, _ in read_part(run / "trajectories", "u0001")]
    assert {t.task.id for t in played} == {line.split(":")[0].split()[-1] for line in facts(run, "tasks")[4:]}
    assert "household-120, 120 tasks" in text and "generated_train" in text


def test_the_prompts_are_the_words_that_were_sent_and_the_skill_stands_apart(run: Path) -> None:
    lines = facts(run, "prompts")
    trajectory = next(t for t, _ in read_part(run / "trajectories", "u0001"))
    sent, _, rest = "\n".join(lines).partition("as it stands in the first prompt when tokens are scored")
    for turn in trajectory.turns_K:
        assert dict(turn.prompt.slots)["observation"] in sent
    assert "Skill from an earlier episode" not in sent and "Skill from an earlier episode" in rest
    assert "episode_skill" in rest


def test_the_weights_are_hashed_as_they_are_now(run: Path) -> None:
    path = run / "checkpoints" / "u0001" / "policy" / "model.safetensors"
    assert f"  model.safetensors sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}" in facts(run, "weights")
    path.write_bytes(path.read_bytes() + b" ")
    assert f"  model.safetensors sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}" in facts(run, "weights")


def test_the_settings_named_are_those_that_differ_from_the_paper(run: Path) -> None:
    lines = facts(run, "settings")
    assert any(line.startswith("  train.updates: 1 (paper 150, launcher 160)") for line in lines)
    assert not any("train.clip" in line or "algo.coefficient" in line for line in lines)
    stated = int(lines[0].partition("): ")[2].split()[0])
    assert stated == len(lines) - 1 > 10


def test_a_claim_has_its_interval_its_tasks_and_its_file(run: Path) -> None:
    result = json.loads((run / "eval" / "u0001.json").read_text("utf-8"))
    text = "\n".join(facts(run, "claims"))
    assert f"success {result['summary']['micro']['value']:.1%} [" in text and "120 tasks x 1, seed 0" in text
    assert "evidence: eval/u0001.json" in text
    shutil.rmtree(run / "eval")
    assert facts(run, "claims")[0].startswith("no score is claimed")


@pytest.mark.parametrize("kind", ["collect", "sft", "grpo", "seed"])
@pytest.mark.parametrize("topic", TOPICS)
def test_every_kind_of_run_answers_every_question(smoke: Made, kind: str, topic: str) -> None:
    assert any(line.strip() for line in facts(smoke.folder / kind, topic))


def test_other_questions_and_other_folders_are_one_sentence(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tasks, prompts, weights, settings, claims"):
        facts(run, "price")
    with pytest.raises(UserError, match="not a run directory"):
        facts(tmp_path, "tasks")
    (run / "paper_diff.md").unlink()
    with pytest.raises(UserError, match="paper_diff.md"):
        facts(run, "settings")
