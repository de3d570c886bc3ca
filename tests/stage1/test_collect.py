"""A collection that was cut short or met broken games ends as if nothing had been: by (task, attempt), to the bit."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from seedbed.config import Config, load_config
from seedbed.engines.scripted import ScriptedEngine
from seedbed.track.run import Run
from seedbed.track.store import parts, read_jsonl, read_part, write_part
from seedbed.train.collect import collect, draw_balanced, read_collected
from seedbed.types import StopReason, Task, UserError, replace


def settings(*more: str) -> Config:
    some = ["env.train_split=generated_train", "collect.tasks=24", "collect.attempts=2", "rollout.max_turns=6"]
    return load_config("alfworld", ["model.path=scripted", *some, *more])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    run = Run.new(tmp_path_factory.mktemp("collected") / "run")
    collect(run, settings())
    return run


def files(run: Run) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(run.trajectories.iterdir())}


def copy(run: Run, to: Path) -> Run:
    shutil.copytree(run.path, to)
    return Run.open(to, "collect")


def test_every_pair_is_there_once_and_the_draw_is_recorded(whole):
    config = whole.config
    trajectories = read_collected(whole)
    assert len({t.id for t in trajectories}) == len(trajectories) == 48
    lines = list(read_jsonl(whole.path / "tasks.jsonl"))
    assert [line["id"] for line in lines] == list(dict.fromkeys(t.task.id for t in trajectories))
    assert {line["kind"] for line in lines} == {"pick", "look", "clean", "heat", "cool", "two"}
    assert len({line["rule"] for line in lines}) == 1 and "seed 0, from split generated_train" in lines[0]["rule"]
    assert config.model.path == "scripted" and whole.manifest["policy"] == "scripted"
    assert sum(t.won for t in trajectories) > 0


def test_a_missing_part_and_broken_games_are_played_again_to_the_bit(whole, tmp_path):
    run = copy(whole, tmp_path / "cut")
    first, last = parts(run.trajectories)
    for file in run.trajectories.glob(f"{last}.*"):
        file.unlink()
    stored = [t for t, _ in read_part(run.trajectories, first)]
    broken = {3, 17}
    cut = [replace(t, stop=StopReason.FAULT, cause="lost") if i in broken else t for i, t in enumerate(stored)]
    write_part(run.trajectories, first, cut)
    counts: list[int] = []
    collect(run, run.config, lambda done, total, success: counts.append(done))
    assert files(run) == files(whole)
    assert counts == sorted(counts) and counts[0] >= len(stored) - len(broken) and counts[-1] == 48


def test_nothing_is_played_twice(whole, tmp_path, monkeypatch):
    from seedbed.train import collect as module

    run = copy(whole, tmp_path / "done")
    monkeypatch.setattr(module, "collect_groups", lambda *_, **__: pytest.fail("played again"))
    collect(run, run.config)
    assert files(run) == files(whole)


def test_tasks_of_files_carry_their_hash(data, tmp_path):
    from seedbed.envs.alfworld.data import find_games

    run = Run.new(tmp_path / "real")
    collect(run, settings("env.train_split=train", "collect.tasks=6", "collect.attempts=1"))
    for line in read_jsonl(run.path / "tasks.jsonl"):
        assert line["file"] == f"{line['id']}/game.tw-pddl"
        assert line["sha256"] == hashlib.sha256(find_games().read(line["id"])).hexdigest()


def test_the_draw_is_balanced_and_says_what_it_lacks():
    tasks = [Task(f"{kind}{i}", "e", "train", kind) for kind, n in (("a", 2), ("b", 50), ("c", 50)) for i in range(n)]
    drawn = draw_balanced(tasks, 20, seed=0)
    kinds = [t.kind for t in drawn]
    assert (kinds.count("a"), kinds.count("b"), kinds.count("c")) == (2, 9, 9)
    assert drawn == draw_balanced(tasks[::1], 20, seed=0) != draw_balanced(tasks, 20, seed=1)
    with pytest.raises(UserError, match=r"collect\.tasks=103"):
        draw_balanced(tasks, 103, seed=0)


def test_a_line_of_the_task_list_is_json_with_the_task(whole):
    line = json.loads((whole.path / "tasks.jsonl").read_text().splitlines()[0])
    assert {"id", "env", "split", "kind", "rule"} <= line.keys()


def test_a_part_torn_between_its_two_files_is_played_again(whole, tmp_path):
    run = copy(whole, tmp_path / "torn")
    first, last = parts(run.trajectories)
    tokens = (run.trajectories / f"{last}.safetensors").read_bytes()
    (run.trajectories / f"{first}.safetensors").write_bytes(tokens)  # new tokens beside old lines
    with pytest.raises(UserError):
        read_collected(run)
    collect(run, run.config)
    assert files(run) == files(whole)


def test_a_tolerated_fault_does_not_block_the_next_resume(whole, tmp_path, monkeypatch):
    from seedbed.train import collect as module

    run = copy(whole, tmp_path / "broken")
    first = parts(run.trajectories)[0]
    stored = [t for t, _ in read_part(run.trajectories, first)]
    write_part(run.trajectories, first, [replace(stored[0], stop=StopReason.FAULT, cause="lost"), *stored[1:]])
    played = module.collect_groups

    def still_broken(*args, **kwargs):
        groups = played(*args, **kwargs)
        bad = [replace(t, stop=StopReason.FAULT, cause="lost") for group in groups for t in group.attempts_G]
        return [replace(groups[0], attempts_G=tuple(bad))]

    monkeypatch.setattr(module, "collect_groups", still_broken)
    collect(run, run.config)
    assert sum(t.faulty for t in read_collected(run)) == 1


def test_another_model_is_not_mixed_into_a_collection(whole, tmp_path):
    run = copy(whole, tmp_path / "mixed")
    manifest = json.loads((run.path / "manifest.json").read_text())
    manifest["model"]["model.safetensors"] = "0" * 64
    run.write_json("manifest.json", manifest)
    with pytest.raises(UserError, match=r"model\.path='scripted' is not the one"):
        collect(run, run.config)


@pytest.mark.parametrize(("broken", "stored"), [(4, True), (5, False)])
def test_a_part_in_which_more_than_a_fifth_of_the_games_broke_is_not_stored(tmp_path, monkeypatch, broken, stored):
    """20 tasks, one attempt each: 4 faults are 20 % and stay; 5 stop the collection, and the part leaves no file."""
    from seedbed.envs.alfworld.env import AlfWorld

    config = settings("collect.tasks=20", "collect.attempts=1")
    drawn = draw_balanced(AlfWorld().tasks("generated_train"), 20, seed=0)
    dead, open_ = {task.id for task in drawn[7 : 7 + broken]}, AlfWorld.open

    def fragile(self, task):
        if task.id in dead:
            raise ConnectionError("the house burnt down")
        return open_(self, task)

    monkeypatch.setattr(AlfWorld, "open", fragile)
    run = Run.new(tmp_path / "run")
    if stored:
        collect(run, config)
        assert {t.task.id for t in read_collected(run) if t.faulty} == dead
        return
    with pytest.raises(
        UserError, match=r"5 of 20 episodes broke \(first cause: ConnectionError: the house burnt down\)"
    ):
        collect(run, config)
    assert not run.trajectories.is_dir() or not list(run.trajectories.iterdir())


def test_the_engine_is_asked_at_the_temperature_of_collect(tmp_path, monkeypatch):
    seen, generate = [], ScriptedEngine.generate

    def spy(self, requests, sampling):
        seen.append(sampling.temperature)
        return generate(self, requests, sampling)

    monkeypatch.setattr(ScriptedEngine, "generate", spy)
    few = ["collect.tasks=6", "collect.attempts=1", "rollout.max_turns=2", "rollout.temperature=0.9"]
    collect(Run.new(tmp_path / "run"), settings(*few, "collect.temperature=0.4"))
    assert set(seen) == {0.4} and len(seen) == 2
