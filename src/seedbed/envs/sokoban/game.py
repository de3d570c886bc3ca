"""What does a move do, and what does it earn? The dynamics and rewards of gym-sokoban for one box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from seedbed.envs.base import Game
from seedbed.envs.sokoban.levels import DIRECTIONS, SIZE, Level
from seedbed.envs.sokoban.picture import picture
from seedbed.types import Observation

STEP_REWARD, BOX_REWARD, WIN_REWARD = -0.1, 1.0, 10.0
WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = SYMBOLS = "#_O√XPS"  #: official code, text mode


class SokobanGame(Game):
    """One level. Ends when the box is on the target; the turn limit is the rollout's.

    ``show`` makes the observation from text, image, admissible actions and outcome.
    """

    goal = "push the box onto the target"

    def __init__(self, level: Level, show: Callable[..., Observation]) -> None:
        self.state = level
        self._show = show

    def start(self) -> Observation:
        return self._seen(0.0)

    def step(self, action: str) -> Observation:
        """Move, or push if the box is ahead. Whatever else ``action`` says: a step that changes nothing, and costs."""
        before = self.solved
        if action in DIRECTIONS:
            self.state = moved(self.state, action)
        reward = STEP_REWARD + BOX_REWARD * (self.solved - before)
        return self._seen(reward + WIN_REWARD * self.solved)

    @property
    def solved(self) -> bool:
        return self.state.box == self.state.target

    def _seen(self, reward: float) -> Observation:
        grid = cells(self.state)
        text = "\n".join(" ".join(row) for row in grid)
        return self._show(
            text, lambda: picture(grid), tuple(DIRECTIONS), reward=reward, done=self.solved, won=self.solved
        )


def moved(state: Level, direction: str) -> Level:
    """The state after a step in ``direction``: the same if wall, or a box that cannot be pushed, is ahead."""
    down, right = DIRECTIONS[direction]
    ahead = (state.player[0] + down, state.player[1] + right)
    beyond = (ahead[0] + down, ahead[1] + right)
    if ahead not in state.floor or (ahead == state.box and beyond not in state.floor):
        return state
    return replace(state, player=ahead, box=beyond if ahead == state.box else state.box)


def cells(state: Level) -> np.ndarray:
    """The board as one of ``SYMBOLS`` a cell."""
    grid = np.full((SIZE, SIZE), WALL)
    for cell in state.floor:
        grid[cell] = FLOOR
    grid[state.target] = TARGET
    grid[state.box] = BOX_ON_TARGET if state.box == state.target else BOX
    grid[state.player] = PLAYER_ON_TARGET if state.player == state.target else PLAYER
    return grid
