"""Folders of the strict track as its commands would leave them, without any model: scores of made-up episodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seedbed.config import Config
from seedbed.envs.panels import load_panel
from seedbed.evaluate.run import summarise
from seedbed.repro.legs import TRAINED
from seedbed.repro.plan import Plan
from seedbed.track.run import Run
from seedbed.types import Task

Wins = Callable[[int, Task], bool]  #: place in the panel and task -> won


def score(config: Config, wins: Wins, panel: str | None = None, **more: Any) -> dict[str, Any]:
    """What ``seedbed eval`` writes."""
    listed = load_panel(panel or config.env.panel)
    episodes = [
        {"task": t.id, "kind": t.kind, "attempt": 0, "won": wins(i, t), "turns": 10, "invalid": 1, "stop": "won"}
        for i, t in enumerate(listed.tasks)
    ]
    rollout = config.rollout.model_copy(update={"temperature": config.eval.temperature})
    return {
        "panel": listed.name,
        "panel_hash": listed.hash,
        "env": listed.env,
        "env_facts": {},
        "temperature": config.eval.temperature,
        "attempts": 1,
        "seed": 0,
        "template_hash": "t",
        "rollout": rollout.model_dump(mode="json"),
        "episodes": episodes,
        "summary": {**summarise(episodes), "entropy": None},
        "model": {"model.safetensors": "0" * 64},
        **more,
    }


def train_run(plan: Plan, name: str, wins: Wins, *overrides: str, done: int = 150, length: float = 13.0) -> Path:
    """A train run of a leg with an evaluation at every fifth of the paper's training."""
    place, own = TRAINED[name]
    start = []
    if name in ("seed", "without-opd"):
        start = [f"model.path={plan.folder / 'seed' / 'sft' / 'checkpoints' / 'u0003'}"]
    config = plan.expected(*own, *start, *overrides)
    run = Run.new(plan.folder / place)
    run.begin(config, "train")
    result = score(config, wins)
    for update in range(1, done + 1):
        run.log(
            {"update": update, "success": update / 200, "episode_length": length + 0.1 * (update % 3), "seconds": {}}
        )
        if update % 30 == 0:
            run.write_json(f"eval/u{update:04d}.json", result)
    return run.path


def stage1(plan: Plan, *overrides: str, by: str = "openai") -> None:
    """Collect and sft runs, and who wrote the skills."""
    for kind in ("collect", "sft"):
        run = Run.new(plan.folder / "seed" / kind)
        run.begin(plan.expected(*overrides), kind)
    told = {"by": by, "author": "glm-5.2" if by == "openai" else by}
    (plan.folder / "seed" / "collect" / "annotate.json").write_text(json.dumps(told))
