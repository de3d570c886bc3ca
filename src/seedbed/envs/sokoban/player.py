"""A plain Sokoban player: it reads the board as text and takes the shortest way that solves it."""

from __future__ import annotations

from collections import deque

from seedbed.envs.sokoban.game import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET, WALL, moved
from seedbed.envs.sokoban.levels import DIRECTIONS, Level
from seedbed.prompts.read import Shown


def scripted(shown: Shown, seed: int) -> str:
    """The first step of the way; where there is none any more, any step. ``seed`` plays no part."""
    way = shortest(board(shown.observation))
    return f"<think>By rule.</think><action>{way[0] if way else next(iter(DIRECTIONS))}</action>"


def board(text: str) -> Level:
    """The state that a board shows, the inverse of ``game.cells``."""
    at = {(i, j): cell for i, row in enumerate(text.splitlines()) for j, cell in enumerate(row.split())}
    (target,) = (place for place, cell in at.items() if cell in (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET))
    (box,) = (place for place, cell in at.items() if cell in (BOX, BOX_ON_TARGET))
    (player,) = (place for place, cell in at.items() if cell in (PLAYER, PLAYER_ON_TARGET))
    return Level(frozenset(place for place, cell in at.items() if cell != WALL), target, box, player)


def shortest(level: Level) -> list[str]:
    """The fewest steps that put the box onto the target; none if it cannot be done."""
    ways: dict[Level, list[str]] = {level: []}
    queue = deque([level])
    while queue:
        state = queue.popleft()
        if state.box == state.target:
            return ways[state]
        for direction in DIRECTIONS:
            after = moved(state, direction)
            if after not in ways:
                ways[after] = [*ways[state], direction]
                queue.append(after)
    return []
