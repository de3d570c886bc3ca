"""What the tiny base model can do: success by skill condition, and whether it can already analyse.

A right skill is a workflow of the task's own kind, a wrong one of another kind; the empty skill is an empty slot.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.config import load_config
from seedbed.envs.base import make_environment
from seedbed.envs.panels import load_panel
from seedbed.evaluate.run import episode_line, summarise
from seedbed.rollout import collect_groups
from seedbed.skills import rules
from seedbed.skills.analyze import analyze, coverage
from seedbed.train.model import load_engine

CONDITIONS = ("none", "empty", "right", "wrong", "avoidance")
PANEL = "household-300"


def measure(folder: Path, device: str = "auto", attempts: int = 2, seed: int = 0) -> dict[str, Any]:
    """Success on ``household-300`` by condition at temperature 1, without a skill at 0.4 too, and the parse rate."""
    config = load_config("tiny", [f"model.path={folder}", f"model.device={device}"])
    engine, renderer = load_engine(config.model)
    environment, tasks = make_environment(config.env.name), load_panel(PANEL).tasks
    rng = random.Random(seed)
    report: dict[str, Any] = {"panel": PANEL, "attempts": attempts, "seed": seed}
    for condition, temperature in [*((c, 1.0) for c in CONDITIONS), ("none", 0.4)]:
        settings = config.rollout.model_copy(update={"temperature": temperature})
        skills = None if condition == "none" else [_skill(condition, t.kind, rng) for t in tasks]
        groups = collect_groups(engine, environment, renderer, settings, tasks, attempts, seed=seed, skills=skills)
        played = [t for g in groups for t in g.attempts_G]
        result = summarise([episode_line(t) for t in played])
        name = condition if temperature == 1 else f"{condition} T={temperature}"
        report[name] = {key: result[key] for key in ("n_episodes", "micro", "mean_turns", "valid_action_rate")}
        report[name]["by_kind"] = {kind: value["value"] for kind, value in result["by_kind"].items()}
        low, high = result["micro"]["low"], result["micro"]["high"]
        print(
            f"{name:>12}: {result['micro']['value']:6.1%} [{low:.1%}, {high:.1%}] of {result['n_episodes']} episodes",
            flush=True,
        )
        if name == "none":
            lengths = [len(t.turns_K[-1].prompt_ids_T) + len(t.turns_K[-1].response_ids_T) for t in played]
            report["tokens"] = {"mean": float(np.mean(lengths)), "longest": max(lengths)}
            written = analyze(engine, renderer, played, config.analyzer)
            report["parse_rate"] = coverage(written, played)["parse_rate"]
            print(f"  analyzer parse rate: {report['parse_rate']:.1%}", flush=True)
        engine.release()
    return report


def _skill(condition: str, kind: str, rng: random.Random) -> str:
    if condition == "empty":
        return ""
    if condition == "right":
        return rules.right_skill(kind, rng)
    if condition == "wrong":
        return rules.wrong_skill(kind, rng)
    return rules.phrase(rules.lessons(kind)[1], rng.randrange(2))  # how the key step of this kind is usually missed
