"""``seedbed bench memory``: does memory grow over thousands of episodes?"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle, islice
from random import Random
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from seedbed.commands.alone import alone
from seedbed.commands.alone import memory as measured
from seedbed.envs.base import Environment, make_environment
from seedbed.envs.project import normalise
from seedbed.evaluate.players import player
from seedbed.prompts.base import windowed
from seedbed.types import Task

_out = Console(highlight=False, soft_wrap=True)


def memory(
    name: Annotated[str, typer.Argument(help="registered environment, or module:Class")] = "alfworld",
    split: Annotated[str, typer.Option(help="split that the episodes go through, again and again")] = "generated_train",
    episodes: Annotated[int, typer.Option(min=1)] = 10_000,
    warmup: Annotated[int, typer.Option(min=1, help="episodes before the first reading")] = 500,
    steps: Annotated[int, typer.Option(min=1, help="turn limit of an episode")] = 30,
    limit: Annotated[float, typer.Option(help="greatest growth allowed, in per cent")] = 5.0,
) -> None:
    """Resident memory before and after many random episodes. Exits with status 1 if it grew by more than the limit.

    They are played in a process that holds nothing else, so that growth is not measured against what torch takes.
    Example: seedbed bench memory alfworld --split train --episodes 10000
    """
    arguments = {"name": name, "split": split, "episodes": episodes, "warmup": warmup, "steps": steps}
    before, after = alone("seedbed.commands.bench_memory:grown", arguments)
    growth = 100 * (after / before - 1)
    first, last = f"{before / 2**20:.1f} MiB", f"{after / 2**20:.1f} MiB"
    _out.print(f"{first} after {warmup} episodes, {last} after {episodes} more: {growth:+.2f} %")
    if growth > limit:
        raise typer.Exit(1)


def grown(name: str, split: str, episodes: int, warmup: int, steps: int) -> tuple[int, int]:
    """Bytes of this process after the first ``warmup`` episodes, and after all."""
    environment = make_environment(name)
    plays, rng = player("random", environment, name), Random(0)
    tasks = list(environment.tasks(split))
    rng.shuffle(tasks)
    queue = cycle(tasks)
    readings = []
    for count in (warmup, episodes):
        for task in islice(queue, count):
            random_episode(environment, task, plays, steps, rng)
        readings.append(measured()["resident"])
    before, after = readings
    return before, after


class Played(NamedTuple):
    """A finished episode."""

    turns: int
    cpu_s: float  #: seconds in the game alone, its opening included


def random_episode(
    environment: Environment, task: Task, plays: Callable[[str, int], str], steps: int, rng: Random
) -> Played:
    """``plays`` is the player of policy ``random``; it reads prompts of a windowed layout, as a policy would."""
    history: list[tuple[str, str]] = []
    clock = time.thread_time()
    game = environment.open(task)
    seen = game.start()
    cpu = time.thread_time() - clock
    while not seen.done and len(history) < steps:
        shown = {"goal": game.goal, "observation": seen.text, "admissible": seen.admissible}
        prompt = windowed(environment.wording, **shown, think=True, history=history, turn=len(history), keep=2)
        said = environment.project(plays(prompt.text, rng.getrandbits(32)), True)
        action = normalise(said.text, seen.admissible)
        history.append((seen.text, action))
        clock = time.thread_time()
        seen = game.step(action)
        cpu += time.thread_time() - clock
    return Played(len(history), cpu)
