"""Which level has a seed? One box, one target, a board of 6 x 6.

For a seed this is the level of the official code (which took its generator from gym-sokoban and RAGEN): the random
draws and their order are the same, the code is ours. Where the official code finds no level in four rooms it goes on
with a seed from a salted hash, which is another in each process; ours draws further rooms from the same stream.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from seedbed.envs.seeded import Dice

Cell = tuple[int, int]

SIZE = 6  #: cells a side, the wall around included
STROKES = 20  #: of the walk that carves the room
TURN_SHARE = 0.35  #: of the strokes that draw a new direction
DEPTH = 30  #: moves that the search for a start looks back from the solved room
STROLL = 3  #: moves at most that the player then takes away from the box
ROOMS = 1000  #: tried for a level; the official code stops at 4
DIRECTIONS: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

_TURNS = ((1, 0), (0, 1), (-1, 0), (0, -1))
_BRUSHES = (  # the cells around the walker that a stroke makes floor
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)


@dataclass(frozen=True, slots=True)
class Level:
    """The state at the start. Every cell that is not floor is wall; the target is floor."""

    floor: frozenset[Cell]
    target: Cell
    box: Cell
    player: Cell


def make_level(seed: int) -> Level:
    """A pure function of ``seed`` (0 <= seed < 2^32), the same on every platform. It can be solved: it was reached
    from the solved room by pulling. The box is not on the target.
    """
    dice, places = Dice(seed), np.random.RandomState(seed)  # both streams are frozen
    for _ in range(ROOMS):
        floor = _carve(dice)
        if len(floor) <= 2:
            continue
        free = sorted(floor)
        player = free.pop(places.randint(len(free)))
        target = free[places.randint(len(free))]
        box, player = _pull_away(floor, target, player)
        if distance := _distance(box, target):
            player = _stroll(dice, floor - {box}, player, leave_share=0.8 if distance == 1 else 0.5)
            return Level(floor, target, box, player)
    raise RuntimeError(f"no level in {ROOMS} rooms of seed {seed}")


def _carve(dice: Dice) -> frozenset[Cell]:
    """The floor: what a random walk with a brush leaves, inside the wall."""
    turn = _TURNS[dice.below(4)]
    row, column = 1 + dice.below(SIZE - 1), 1 + dice.below(SIZE - 1)
    floor = set()
    for _ in range(STROKES):
        if dice.share() < TURN_SHARE:
            turn = _TURNS[dice.below(4)]
        row, column = (max(1, min(SIZE - 2, at + by)) for at, by in zip((row, column), turn, strict=True))
        floor |= {(row + down, column + right) for down, right in _BRUSHES[dice.below(len(_BRUSHES))]}
    return frozenset(cell for cell in floor if min(cell) >= 1 and max(cell) <= SIZE - 2)


def _pull_away(floor: Set[Cell], target: Cell, player: Cell) -> tuple[Cell, Cell]:
    """Box and player in the state farthest back: the box on its target, a player who pulls it whenever it is behind.

    Depth first, every state once, directions in order; of the states with the box farthest from its target, and nobody
    on that, the first one met.
    """
    best, found = 0, (target, player)
    met: set[tuple[Cell, Cell, bool]] = set()
    waiting = [(player, target, False, DEPTH - 1)]
    while waiting:
        player, box, pulled, left = waiting.pop()
        if left <= 0 or (player, box, pulled) in met:
            continue
        met.add((player, box, pulled))
        if player != target and _distance(box, target) > best:
            best, found = _distance(box, target), (box, player)
        for by in reversed(DIRECTIONS.values()):
            ahead, behind = _moved(player, by), _moved(player, (-by[0], -by[1]))
            if ahead not in floor or ahead == box:
                continue
            if behind == box:
                waiting.append((ahead, player, True, left - 1))
            else:
                waiting.append((ahead, box, pulled, left - 1))
    return found


def _stroll(dice: Dice, free: Set[Cell], player: Cell, leave_share: float) -> Cell:
    """Where the player is after up to three steps over cells not trodden before."""
    if dice.share() > leave_share:
        return player
    trodden = {player}
    for _ in range(STROLL):
        ways = [cell for by in DIRECTIONS.values() if (cell := _moved(player, by)) in free - trodden]
        if not ways:
            break
        player = ways[dice.below(len(ways))]
        trodden.add(player)
        if len(trodden) > STROLL or dice.share() > 0.5:
            break
    return player


def _moved(cell: Cell, by: Cell) -> Cell:
    return cell[0] + by[0], cell[1] + by[1]


def _distance(one: Cell, other: Cell) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])
