"""Does a skill help? The execution check: the same tasks played with and without it, by the policy that collected.

The paper's released scripts can keep only skills that gain; the paper's own filter is the format alone, so this only
records. Both sides share their random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from seedbed.config import RolloutSettings
from seedbed.engines.base import Engine
from seedbed.envs.base import Environment
from seedbed.evaluate.stats import paired_difference
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.types import Skill, Task, Trajectory, UserError


def draw_skills(
    trajectories: Sequence[Trajectory], skills: Mapping[str, Skill], count: int, seed: int
) -> list[tuple[Task, Skill]]:
    """Up to ``count`` valid skills of different tasks, a pure function of the ids and the seed."""
    pairs = sorted(
        ((t.task, skills[t.id]) for t in trajectories if t.id in skills and skills[t.id].valid),
        key=lambda pair: pair[1].trajectory,
    )
    drawn: dict[str, tuple[Task, Skill]] = {}
    for index in np.random.default_rng([seed, 7]).permutation(len(pairs)):
        task, skill = pairs[int(index)]
        drawn.setdefault(task.id, (task, skill))
    return list(drawn.values())[:count]


def execution_check(
    engine: Engine,
    environment: Environment,
    renderer: Renderer,
    settings: RolloutSettings,
    drawn: Sequence[tuple[Task, Skill]],
    attempts: int,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Play each task ``attempts`` times without and with its skill; gains by skill, by kind and in all.

    ``gain`` is the success rate with the skill less the one without, paired by task, with a bootstrap interval over
    tasks. ``progress`` is called with (finished, all) episodes.
    """
    tasks = [task for task, _ in drawn]
    both, faults, total = [], 0, 2 * attempts * len(tasks)
    for side, texts in enumerate(([""] * len(tasks), [skill.text for _, skill in drawn])):
        shift = side * attempts * len(tasks)
        report = (lambda done, _, shift=shift: progress(shift + done, total)) if progress else None
        groups = collect_groups(
            engine, environment, renderer, settings, tasks, attempts, seed=seed, skills=texts, progress=report
        )
        played = [t for group in groups for t in group.attempts_G]
        if all(t.faulty for t in played):
            raise UserError(f"every episode of the execution check broke, the first with {played[0].cause!r}")
        faults += sum(t.faulty for t in played)
        both.append([[t.won for t in group.survivors_G] for group in groups])
    without, given = both
    lines = [
        {"trajectory": skill.trajectory, "task": task.id, "kind": skill.kind, "with": sum(a), "of": len(a)}
        | {"without": sum(b), "of_without": len(b)}
        for (task, skill), a, b in zip(drawn, given, without, strict=True)
    ]
    summary = {"all": _gain(tasks, given, without)}
    for kind in sorted({skill.kind for _, skill in drawn}):
        chosen = [i for i, (_, skill) in enumerate(drawn) if skill.kind == kind]
        summary[kind] = _gain(*([side[i] for i in chosen] for side in (tasks, given, without)))
    protocol = {"attempts": attempts, "seed": seed, "temperature": settings.temperature, "faults": faults}
    return {**protocol, "gain": summary, "skills": lines}


def _gain(tasks: Sequence[Task], given: Sequence[list[bool]], without: Sequence[list[bool]]) -> dict[str, Any]:
    a = {task.id: won for task, won in zip(tasks, given, strict=True)}
    b = {task.id: won for task, won in zip(tasks, without, strict=True)}
    return paired_difference(a, b, seed=0).as_json()
