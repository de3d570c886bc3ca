"""How does a board look? Tiles of 16 pixels, drawn here and nowhere copied from."""

from __future__ import annotations

from functools import cache

import numpy as np

TILE = 16  #: pixels a side, as in gym-sokoban
_ROWS, _COLUMNS = np.mgrid[:TILE, :TILE]
_FROM_MIDDLE = np.hypot(_ROWS - 7.5, _COLUMNS - 7.5)
_EDGE = np.minimum.reduce([_ROWS, _COLUMNS, TILE - 1 - _ROWS, TILE - 1 - _COLUMNS])
_DIAGONALS = (abs(_ROWS - _COLUMNS) <= 1) | (abs(_ROWS + _COLUMNS - TILE + 1) <= 1)


def picture(grid: np.ndarray) -> np.ndarray:
    """uint8, 16 times as high and wide as ``grid``, whose cells are symbols of ``game.SYMBOLS``."""
    return np.concatenate([np.concatenate([tile(str(cell)) for cell in row], axis=1) for row in grid])


@cache
def tile(symbol: str) -> np.ndarray:
    """(16, 16, 3): brown bricks, pale floor, a red ring as target, an orange crate (green on it), a blue player."""
    image = np.full((TILE, TILE, 3), (226, 222, 210), np.uint8)
    if symbol == "#":
        image[:] = (121, 72, 50)
        joints = (_ROWS % 4 == 3) | ((_COLUMNS + 4 * (_ROWS // 4 % 2)) % 8 == 7)
        image[joints] = (70, 42, 30)
    if symbol in "OS":
        image[(_FROM_MIDDLE > 5) & (_FROM_MIDDLE < 7.5)] = (204, 32, 38)
    if symbol in "X√":
        wood, frame = ((232, 151, 44), (126, 70, 14)) if symbol == "X" else ((88, 178, 76), (22, 84, 26))
        image[_EDGE >= 1] = wood
        image[(_EDGE >= 1) & ((_EDGE < 3) | _DIAGONALS)] = frame
    if symbol in "PS":
        image[_FROM_MIDDLE < 4.5] = (38, 84, 190)
        image[6:8, 5:7] = image[6:8, 9:11] = (255, 255, 255)
    image.flags.writeable = False
    return image
