"""What does a policy score on a fixed list of tasks? Every task exactly as often as asked, at any batch size.

Deployment is the policy alone: nothing of skills or the analyzer is imported here, and a test holds that. Sampling
depends on (seed, task, attempt, turn) only (``rollout``), so batch size and task order do not change an episode.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedbed.config import RolloutSettings
from seedbed.engines.base import Engine
from seedbed.envs.base import Environment
from seedbed.evaluate.stats import macro, micro, wilson, won_by_task
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.track.store import parts, write_part
from seedbed.types import Trajectory, UserError

if TYPE_CHECKING:
    from seedbed.envs.panels import Panel


def evaluate(
    engine: Engine,
    environment: Environment,
    renderer: Renderer,
    rollout_settings: RolloutSettings,
    panel: Panel,
    *,
    attempts: int,
    temperature: float,
    seed: int,
    at_once: int = 256,
    progress: Callable[[int, int], None] | None = None,
    keep: Callable[[Sequence[Trajectory]], None] | None = None,
) -> dict[str, Any]:
    """Play a panel and return a JSON-able result: the protocol, one entry an episode, and ``summary``.

    ``transcripts_hash`` is over every response and every answer to it: two evaluations that agree in it went alike word
    for word.

    ``at_once`` bounds the episodes played together: memory, never the result. ``progress`` is called with (finished,
    all) episodes, ``keep`` with all episodes of a portion once they are over (see ``keeper``). Raises ``UserError`` for
    an empty panel, a task listed twice, or a panel whose every episode broke.
    """
    if not panel.tasks:
        raise UserError(f"panel {panel.name!r} is empty: there is nothing to evaluate")
    twice = [task for task, count in Counter(t.id for t in panel.tasks).items() if count > 1]
    if twice:
        raise UserError(f"panel {panel.name!r} lists task {twice[0]!r} twice: remove one of the two")
    settings = rollout_settings.model_copy(update={"temperature": temperature})
    step, total, played = max(1, at_once // attempts), len(panel.tasks) * attempts, []
    for first in range(0, len(panel.tasks), step):
        tasks = panel.tasks[first : first + step]
        report = _shifted(progress, len(played), total) if progress else None
        groups = collect_groups(engine, environment, renderer, settings, tasks, attempts, seed=seed, progress=report)
        portion = [t for group in groups for t in group.attempts_G]
        if keep:
            keep(portion)
        played += portion
    if all(t.faulty for t in played):
        raise UserError(
            f"every episode of panel {panel.name!r} broke, the first with {played[0].cause!r}: "
            f"check the environment's data"
        )
    episodes = [episode_line(t) | _measures(environment, t) for t in played]
    return {
        "panel": panel.name,
        "panel_hash": panel.hash,
        "env": panel.env,
        "env_facts": environment.facts(panel.tasks[0]),
        "temperature": temperature,
        "attempts": attempts,
        "seed": seed,
        "policy_version": engine.version,
        "template_hash": renderer.hash,
        "rollout": settings.model_dump(mode="json"),
        "transcripts_hash": transcripts_hash(played),
        "episodes": episodes,
        "summary": {**summarise(episodes), "entropy": _entropy(played) if temperature > 0 else None},
    }


def episode_line(trajectory: Trajectory) -> dict[str, Any]:
    """The facts of one episode that a score is made of."""
    line = {
        "task": trajectory.task.id,
        "kind": trajectory.task.kind,
        "attempt": trajectory.attempt,
        "won": trajectory.won,
        "turns": len(trajectory.turns_K),
        "invalid": trajectory.invalid_turns,
        "stop": trajectory.stop.value,
    }
    return line | ({"cause": trajectory.cause} if trajectory.faulty else {})


def summarise(episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rates with intervals from episode lines alone, so that anyone can recompute a stored result.

    Faults leave every rate; ``errors_as_failures`` is the conservative success that counts them as lost.
    """
    won = won_by_task(episodes)
    kinds = {e["task"]: e["kind"] for e in episodes}
    whole = [e for e in episodes if e["stop"] != "fault"]
    turns = sum(e["turns"] for e in whole)
    wins = sum(e["won"] for e in whole)
    by_kind = {}
    for kind in sorted(set(kinds.values())):
        of_kind = {task: outcomes for task, outcomes in won.items() if kinds[task] == kind}
        n = sum(map(len, of_kind.values()))
        by_kind[kind] = {"k": sum(map(sum, of_kind.values())), "n": n, **asdict(micro(of_kind))}
    low, high = wilson(wins, len(episodes))
    names = sorted({name for e in whole for name in e.get("measures", {})})
    return {
        "n_tasks": len(won),
        "n_episodes": len(episodes),
        "won": wins,
        "micro": asdict(micro(won)),
        "macro": asdict(macro(won, kinds)),
        "by_kind": by_kind,
        "mean_turns": turns / len(whole) if whole else None,
        "valid_action_rate": 1 - sum(e["invalid"] for e in whole) / turns if turns else None,
        "stops": dict(sorted(Counter(e["stop"] for e in episodes).items())),
        "faults": len(episodes) - len(whole),
        "measures": {name: float(np.mean([e["measures"][name] for e in whole if "measures" in e])) for name in names},
        "errors_as_failures": {"k": wins, "n": len(episodes), "value": wins / len(episodes), "low": low, "high": high},
    }


def _measures(environment: Environment, trajectory: Trajectory) -> dict[str, Any]:
    values = {} if trajectory.faulty else environment.measures(trajectory)
    return {"measures": values} if values else {}


def keeper(folder: Path) -> Callable[[Sequence[Trajectory]], None]:
    """A ``keep`` for ``evaluate``: every portion becomes a part ``e0000``, ``e0001``, ... with all prompts and tokens.

    Raises ``UserError`` if the folder holds parts already.
    """
    if parts(folder):
        raise UserError(f"{folder} holds episodes already: keep these in a new folder")
    count = itertools.count()
    return lambda portion: write_part(folder, f"e{next(count):04d}", portion)


def transcripts_hash(played: Sequence[Trajectory]) -> str:
    """sha256 over tasks, attempts, goals, responses and the answers to them."""
    digest = sha256()
    for t in played:
        digest.update(json.dumps([t.task.id, t.attempt, t.goal, [[k.text, k.observation] for k in t.turns_K]]).encode())
    return digest.hexdigest()


def _entropy(played: Sequence[Trajectory]) -> float | None:
    """Mean of -log p over the sampled tokens, in nats: at temperature 1 an unbiased estimate of the token entropy."""
    values = [turn.logprobs_T for t in played if not t.faulty for turn in t.turns_K]
    joined = np.concatenate(values) if values else np.zeros(0)
    return float(-joined.mean(dtype=np.float64)) if len(joined) else None


def _shifted(progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: progress(before + done, total)
