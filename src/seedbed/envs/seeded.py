"""What do environments share whose task is a seed, and which show a state as text, as an image, or both?

Seeds and their split are the official code's (Sokoban and EZPoints): it trains on seeds drawn from 0 to 65,534 and
validates on seeds from 65,536 on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from seedbed.envs.base import Environment
from seedbed.types import Observation, Task, UserError

#: split -> its seeds. The official code never draws 65,535, and validates on all from 65,536 to 2^32 - 2; ours stops at
#: 131,071, so that the split can be listed.
SPLITS = {"train": range(65_535), "validation": range(65_536, 131_072)}
MODES = ("text", "image", "both")


class SeededEnvironment(Environment):
    """Tasks are ``<name>/<split>/<seed>``. ``observation`` says what the policy is shown: text, image or both."""

    def __init__(self, observation: str = "text") -> None:
        if observation not in MODES:
            raise UserError(f"env.options.observation={observation!r} is unknown: use one of {', '.join(MODES)}")
        self.observation = observation

    def kind(self, seed: int) -> str:
        """The kind of a task. Cheap: listing a split asks for all."""
        raise NotImplementedError

    def tasks(self, split: str) -> Sequence[Task]:
        """The seeds of a split in order, made into tasks when asked for."""
        if split not in SPLITS:
            raise UserError(f"environment {self.name!r} has no split {split!r}; use one of {', '.join(SPLITS)}")
        return _Tasks(self.name, split, SPLITS[split], self.kind)

    def seed(self, task: Task) -> int:
        """Raises ``UserError`` for an id that is in no split: only the very ids that ``tasks`` lists are."""
        _, split, number = (task.id.split("/") + ["", ""])[:3]
        plain = re.fullmatch("0|[1-9][0-9]{0,5}", number) and task.id == f"{self.name}/{split}/{number}"
        if not plain or split not in SPLITS or int(number) not in SPLITS[split]:
            known = ", ".join(f"{name}/{seeds[0]} to {seeds[-1]}" for name, seeds in SPLITS.items())
            raise UserError(f"environment {self.name!r} has no task {task.id[:80]!r}; its tasks are {known}")
        return int(number)

    def show(
        self, text: str, image: Callable[[], np.ndarray], admissible: tuple[str, ...] = (), **outcome: float
    ) -> Observation:
        """An observation in the mode that was chosen; the image is only drawn where it is asked for."""
        return Observation(
            text=text if self.observation != "image" else "",
            image=image() if self.observation != "text" else None,
            admissible=admissible,
            **outcome,
        )


@dataclass(frozen=True, slots=True)
class _Tasks(Sequence[Task]):
    env: str
    split: str
    seeds: range
    kind: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, place: int | slice) -> Task | Sequence[Task]:
        if isinstance(place, slice):
            return _Tasks(self.env, self.split, self.seeds[place], self.kind)
        seed = self.seeds[place]
        return Task(f"{self.env}/{self.split}/{seed}", self.env, self.split, self.kind(seed))


class Dice:
    """The draws of Python's ``random`` under a seed, from its bit stream, so that a new Python cannot change a task."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def share(self) -> float:
        """Uniform over [0, 1)."""
        return self._random.random()

    def below(self, count: int) -> int:
        """Uniform over 0 .. ``count`` - 1: what ``choice``, ``randint`` and ``sample`` of one draw."""
        while (number := self._random.getrandbits(count.bit_length())) >= count:
            pass
        return number
