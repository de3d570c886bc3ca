"""Stage 1, first step: the base policy plays a balanced draw of training tasks; nothing is trained."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from seedbed.config import Config
from seedbed.envs.base import Environment, environment_from
from seedbed.rollout import check_faults, collect_groups
from seedbed.track.run import Run
from seedbed.track.store import parts, read_part, write_part
from seedbed.train.actor import load_actor
from seedbed.train.interrupt import Interrupt, Stopped
from seedbed.types import Task, Trajectory, UserError, as_dict

_TASKS_A_PART = 20


def collect(
    run: Run, config: Config, report: Callable[[int, int, float | None], None] = lambda done, total, success: None
) -> None:
    """Play ``collect.tasks`` tasks ``collect.attempts`` times into ``trajectories/c*.jsonl``.

    ``tasks.jsonl`` lists the tasks drawn, with the rule and the file each comes from. On resume every stored
    (task, attempt) is kept, and what is missing, or was a fault, is played: as it would have been the first time.
    ``report(done, total, success)`` counts episodes; success is of the finished parts. Raises ``Stopped`` after a
    Ctrl-C, and ``UserError`` at a part with more faults than ``train.max_fault_share``, which is then not stored.
    """
    environment = environment_from(config.env)
    actor = load_actor(config, environment)
    tasks = draw_balanced(environment.tasks(config.env.train_split), config.collect.tasks, config.seed)
    if run.begun and run.manifest["model"] != actor.facts["model"]:
        raise UserError(
            f"the model at model.path={config.model.path!r} is not the one that {run.path} was begun with: "
            "put it back, or start a new run with --out"
        )
    run.begin(config, "collect", **actor.facts, env_facts=environment.facts(tasks[0]))
    _write_tasks(run, environment, tasks, config)
    settings = actor.rollout.model_copy(update={"temperature": config.collect.temperature})
    attempts = config.collect.attempts
    total, done, won = len(tasks) * attempts, 0, 0
    with Interrupt() as interrupt:
        for start in range(0, len(tasks), _TASKS_A_PART):
            part, name = tasks[start : start + _TASKS_A_PART], f"c{start // _TASKS_A_PART:04d}"
            have = _stored(run, name)
            pairs = [(task.id, attempt) for task in part for attempt in range(attempts)]
            missing = set(pairs) - have.keys()
            if missing:
                groups = collect_groups(
                    actor.engine,
                    environment,
                    actor.renderer,
                    settings,
                    part,
                    attempts,
                    seed=config.seed,
                    only=missing,
                    progress=_after(report, done + len(have), total, won / done if done else None),
                )
                played = [t for group in groups for t in group.attempts_G]
                have |= {(t.task.id, t.attempt): t for t in played}
                check_faults([have[pair] for pair in pairs], config.train)
                write_part(run.trajectories, name, [have[pair] for pair in pairs])
                actor.release()
            done, won = done + len(have), won + sum(t.won for t in have.values())
            report(done, total, won / done)
            if interrupt.requested and start + _TASKS_A_PART < len(tasks):
                raise Stopped(f"stopped after {done} episodes; go on with: seedbed collect --resume {run.path}")


def _after(
    report: Callable[[int, int, float | None], None], before: int, total: int, success: float | None
) -> Callable[[int, int], None]:
    return lambda finished, _: report(before + finished, total, success)


def _stored(run: Run, name: str) -> dict[tuple[str, int], Trajectory]:
    """Episodes of a part by (task, attempt), without faults: a broken game may be whole again.

    A part that was cut short while it was written anew counts as not there: its episodes come out the same again.
    """
    if not (run.trajectories / f"{name}.jsonl").is_file():
        return {}
    try:
        return {(t.task.id, t.attempt): t for t, _ in read_part(run.trajectories, name) if not t.faulty}
    except UserError:
        return {}


def _write_tasks(run: Run, environment: Environment, tasks: Sequence[Task], config: Config) -> None:
    if (run.path / "tasks.jsonl").is_file():
        return
    kinds = Counter(task.kind for task in tasks)
    shares = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    rule = f"balanced over kinds ({shares}), seed {config.seed}, from split {config.env.train_split}"
    lines = [{**as_dict(task), "rule": rule, **environment.source(task)} for task in tasks]
    run.write("tasks.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


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
