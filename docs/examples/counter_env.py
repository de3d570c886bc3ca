"""Count to a goal by saying "add 1" or "add 2", never above it: a whole environment for seedbed."""

from __future__ import annotations

from collections.abc import Sequence

from seedbed.envs.base import Environment, Game
from seedbed.prompts.base import Wording
from seedbed.types import Observation, Task, UserError

GOALS = {"train": range(3, 9), "test": range(9, 12)}
ACTIONS = ("add 1", "add 2")


class CounterGame(Game):
    """One episode: won at the goal, lost above it."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.count = 0
        self.goal = f"count to {target}"

    def start(self) -> Observation:
        return Observation(f"The count is {self.count}.", ACTIONS)

    def step(self, action: str) -> Observation:
        if action not in ACTIONS:  # the policy's mistake, not a fault: say so and go on
            return Observation(f"Nothing happens. The count is {self.count}.", ACTIONS)
        self.count += int(action.removeprefix("add "))
        won, done = self.count == self.target, self.count >= self.target
        return Observation(f"The count is {self.count}.", ACTIONS, reward=float(won), done=done, won=won)


class Counter(Environment):
    """Small goals to train on, larger ones to test on."""

    name = "counter"
    wording = Wording(role="You are counting.")

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in GOALS:
            raise UserError(f"counter has no split {split!r}: use one of {', '.join(GOALS)}")
        return [
            Task(id=f"to-{goal}", env=self.name, split=split, kind="odd" if goal % 2 else "even")
            for goal in GOALS[split]
        ]

    def open(self, task: Task) -> CounterGame:
        return CounterGame(int(task.id.removeprefix("to-")))
