"""Stage 1, first step: the base policy plays a balanced draw of training tasks; nothing is trained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from seedbed.config import Config
from seedbed.envs.base import make_environment
from seedbed.rollout import collect_groups
from seedbed.track.run import Run
from seedbed.track.store import parts, read_part, write_part
from seedbed.train.interrupt import Interrupt, Stopped
from seedbed.train.model import load_engine, model_facts
from seedbed.types import Task, Trajectory, UserError

_TASKS_A_PART = 20


def collect(
    run: Run, config: Config, report: Callable[[int, int, float], None] = lambda done, total, success: None
) -> None:
    """Play ``collect.tasks`` tasks ``collect.attempts`` times into ``trajectories/c*.jsonl``.

    Finished parts are kept on resume. ``report(done, total, success)`` counts episodes. Raises ``Stopped`` after a
    Ctrl-C.
    """
    environment = make_environment(config.env.name, **config.env.options)
    engine, renderer = load_engine(config.model)
    tasks = draw_balanced(environment.tasks(config.env.train_split), config.collect.tasks, config.seed)
    run.begin(config, "collect", **model_facts(config.model, renderer))
    settings = config.rollout.model_copy(update={"temperature": config.collect.temperature})
    have = set(parts(run.trajectories)) if run.trajectories.is_dir() else set()
    done, won = 0, 0
    with Interrupt() as interrupt:
        for start in range(0, len(tasks), _TASKS_A_PART):
            name = f"c{start // _TASKS_A_PART:04d}"
            if name in have:
                trajectories = [t for t, _ in read_part(run.trajectories, name)]
            else:
                groups = collect_groups(
                    engine,
                    environment,
                    renderer,
                    settings,
                    tasks[start : start + _TASKS_A_PART],
                    config.collect.attempts,
                    seed=config.seed,
                )
                trajectories = [t for group in groups for t in group.attempts_G]
                write_part(run.trajectories, name, trajectories)
                engine.release()
            done, won = done + len(trajectories), won + sum(t.won for t in trajectories)
            report(done, len(tasks) * config.collect.attempts, won / done)
            if interrupt.requested and start + _TASKS_A_PART < len(tasks):
                raise Stopped(f"stopped after {done} episodes; go on with: seedbed collect --resume {run.path}")


def draw_balanced(tasks: Sequence[Task], count: int, seed: int) -> list[Task]:
    """``count`` tasks, equally many of each kind as far as they go (paper: 30 of each of ALFWorld's six types)."""
    if len(tasks) < count:
        raise UserError(f"collect.tasks={count}, but the split has only {len(tasks)} tasks")
    by_kind: dict[str, list[Task]] = defaultdict(list)
    for index in np.random.default_rng([seed, 2]).permutation(len(tasks)):
        by_kind[tasks[int(index)].kind].append(tasks[int(index)])
    picked: list[Task] = []
    while len(picked) < count:  # round robin: a kind that runs out leaves its share to the others
        picked += [by_kind[kind].pop(0) for kind in sorted(by_kind) if by_kind[kind]][: count - len(picked)]
    return picked


def read_collected(run: Run) -> list[Trajectory]:
    """All trajectories of a collect run. Raises ``UserError`` if there is none."""
    found = (
        [t for name in parts(run.trajectories) for t, _ in read_part(run.trajectories, name)]
        if run.trajectories.is_dir()
        else []
    )
    if not found:
        raise UserError(f"{run.path} holds no trajectories: run seedbed collect first")
    return found
