"""The loop on the shipped tiny model: equal reruns, equal resume, SEED at coefficient 0, loud no-ops (T6, T13), and an
end when too many games break (T10).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from seedbed.config import Config, load_config
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.base import Game
from seedbed.track.run import Run
from seedbed.track.store import parts
from seedbed.train.collect import collect
from seedbed.train.rl import Trainer, draw_tasks
from seedbed.train.state import latest_checkpoint
from seedbed.types import Task, UserError

SMALL = [
    "train.updates=3",
    "train.tasks=3",
    "train.attempts=4",
    "train.minibatch_rows=40",
    "train.rehearsal_rows=0",
    "rollout.max_turns=6",
    "train.checkpoint_every=1",
]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def config(*overrides: str) -> Config:
    return load_config("tiny", [*SMALL, *overrides])


def run(path: Path, settings: Config, updates: int | None = None) -> Trainer:
    trainer = Trainer(Run.new(path), settings)
    if updates is None:
        trainer.train()
    else:  # killed after some updates: no clean end, only what was on disk
        trainer.run.begin(settings, "train")
        for _ in range(updates):
            trainer.run.log(trainer.update())
            trainer.save()
    return trainer


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(latest_checkpoint(path / "checkpoints") / "policy" / "model.safetensors")


def metrics(path: Path) -> list[dict]:
    return [
        {k: v for k, v in json.loads(line).items() if k != "seconds"}
        for line in (path / "metrics.jsonl").read_text().splitlines()
    ]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_same_seed_same_metrics_and_a_killed_run_goes_on_to_the_bit(tmp_path: Path) -> None:
    settings = config("algo.coefficient=0.5")
    run(tmp_path / "a", settings)
    run(tmp_path / "b", settings)
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b") and same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    run(tmp_path / "killed", settings, updates=2)
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as log:
        log.write('{"update": 3, "success": 0.1}\n{"upd')  # logged but not saved, and cut off
    resumed = Trainer(Run.open(tmp_path / "killed"), Run.open(tmp_path / "killed").config)
    resumed.resume()
    assert (resumed.done, resumed.engine.version) == (2, 2)
    resumed.train()
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "a")
    assert same(weights(tmp_path / "killed"), weights(tmp_path / "a"))
    for name in ("skills.jsonl", "trajectories/u0003.jsonl", "trajectories/u0003.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "a" / name).read_bytes()
    assert not same(
        weights(tmp_path / "a"), load_file(tmp_path / "a" / "checkpoints" / "u0001" / "policy" / "model.safetensors")
    )


def test_seed_with_coefficient_0_is_grpo_to_the_bit(tmp_path: Path) -> None:
    run(tmp_path / "seed", config("algo.coefficient=0"))
    run(tmp_path / "grpo", config("algo=grpo"))
    assert same(weights(tmp_path / "seed"), weights(tmp_path / "grpo"))
    for a, b in zip(metrics(tmp_path / "seed"), metrics(tmp_path / "grpo"), strict=True):
        assert {k: a[k] for k in b if k != "warnings"} == {k: v for k, v in b.items() if k != "warnings"}


def test_no_valid_skill_is_loud_and_grpo_goes_on(tmp_path: Path) -> None:
    run(tmp_path / "cut", config("algo.coefficient=0.5", "analyzer.max_new_tokens=1", "train.updates=1"))
    run(tmp_path / "grpo", config("algo=grpo", "train.updates=1"))
    (row,) = metrics(tmp_path / "cut")
    assert row["opd_active"] == 0 and row["skill_parse_rate"] == 0 and row["loss_opd"] == 0
    assert any("no token distils" in warning for warning in row["warnings"])
    assert same(weights(tmp_path / "cut"), weights(tmp_path / "grpo"))


def test_a_changed_start_is_refused_on_resume(tmp_path: Path) -> None:
    import shutil

    from seedbed.train.model import resolve

    shutil.copytree(resolve("tiny"), tmp_path / "model")
    settings = config(f"model.path={tmp_path / 'model'}")
    run(tmp_path / "run", settings, updates=1)
    shutil.copytree(tmp_path / "run" / "checkpoints" / "u0001" / "policy", tmp_path / "model", dirs_exist_ok=True)
    with pytest.raises(UserError, match="not those this run started from"):
        Trainer(Run.open(tmp_path / "run"), settings).resume()


class Crumbling(AlfWorld):
    """One in three games (the first of each three opened) cannot be opened."""

    threads = 1
    opened = 0

    def open(self, task: Task) -> Game:
        Crumbling.opened += 1
        if Crumbling.opened % 3 == 1:
            raise ConnectionError("the wall fell")
        return super().open(task)


def test_too_many_faults_stop_the_run_and_few_do_not(tmp_path: Path) -> None:
    Crumbling.opened = 0
    crumbling = ["env.name=test_rl:Crumbling", "train.updates=1", "algo=grpo"]
    with pytest.raises(UserError, match=r"4 of 12 episodes broke \(first cause: ConnectionError: the wall fell\)"):
        run(tmp_path / "stops", config(*crumbling))
    trainer = run(tmp_path / "goes_on", config(*crumbling, "train.max_fault_share=0.34"))
    assert trainer.done == 1 and metrics(tmp_path / "goes_on")[0]["faults"] == 4


def test_collecting_stops_at_the_first_part_with_too_many_faults_and_plays_it_anew(tmp_path: Path) -> None:
    settings = config("env.name=test_rl:Crumbling", "collect.tasks=42", "collect.attempts=1", "rollout.max_turns=2")
    Crumbling.opened = 0
    with pytest.raises(UserError, match="7 of 20 episodes broke .* over train.max_fault_share=0.2"):
        collect(Run.new(tmp_path / "run"), settings)
    assert Crumbling.opened == 20 and parts(tmp_path / "run" / "trajectories") == []
    mended = config("collect.tasks=42", "collect.attempts=1", "rollout.max_turns=2")
    collect(Run.open(tmp_path / "run"), mended)
    assert len(parts(tmp_path / "run" / "trajectories")) == 3


def test_a_run_directory_is_not_overwritten(tmp_path: Path) -> None:
    Run.new(tmp_path).begin(config(), "train")
    with pytest.raises(UserError, match="already holds a run"):
        Run.new(tmp_path)


def test_what_fails_before_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a folder"):
        run(tmp_path / "run", config("model.path=nowhere"))
    assert not (tmp_path / "run").exists()


def test_tasks_are_a_pure_function_of_seed_and_update() -> None:
    tasks = [Task(str(i), "e", "train", "k") for i in range(10)]
    first = [draw_tasks(tasks, 3, 7, u) for u in range(6)]
    assert first == [draw_tasks(tasks, 3, 7, u) for u in range(6)] and first != [
        draw_tasks(tasks, 3, 8, u) for u in range(6)
    ]
    assert all(len({t.id for t in drawn}) == 3 for drawn in first)
    assert len({t.id for drawn in first[:3] for t in drawn}) == 9  # one pass repeats nothing
