"""Sokoban as an environment: one seed is one level with one box on a 6 x 6 board (paper Table 8)."""

from __future__ import annotations

from typing import Any

from seedbed.envs.base import register
from seedbed.envs.seeded import SeededEnvironment
from seedbed.envs.sokoban.game import SokobanGame
from seedbed.envs.sokoban.levels import make_level
from seedbed.envs.sokoban.projection import project_direction
from seedbed.prompts.base import Wording
from seedbed.types import Action, Task

_RULES = (
    "You play Sokoban: you walk over a board and must push a box onto a target. You push the box by walking into it, "
    "one cell at a time, if the cell behind it is free. You cannot pull it and nothing goes through walls, so a box in "
    "a corner, or along a wall that does not lead to the target, is lost. "
)
_LEGENDS = {
    "text": "The board has a symbol for each cell: # is wall, _ is floor, O is the target, X is the box, √ is the box "
    "on the target, P is you, S is you on the target.",
    "image": "In the image the bricks are wall, the red ring is the target, the orange crate is the box and turns "
    "green on the target, the blue figure is you.",
}
_LEGENDS["both"] = f"{_LEGENDS['text']} {_LEGENDS['image']}"


@register("sokoban")
class Sokoban(SeededEnvironment):
    """Tasks are ``sokoban/<split>/<seed>``. ``observation`` is text, image (what the paper's model sees) or both;
    ``require_think`` and ``strict_format`` decide which responses are invalid (``project_direction``).
    """

    def __init__(self, observation: str = "text", require_think: bool = True, strict_format: bool = False) -> None:
        super().__init__(observation)
        self.require_think, self.strict_format = require_think, strict_format
        self.wording = Wording(role=_RULES + _LEGENDS[observation])

    def kind(self, seed: int) -> str:
        return "one-box"

    def open(self, task: Task) -> SokobanGame:
        return SokobanGame(make_level(self.seed(task)), self.show)

    def project(self, response: str, require_think: bool) -> Action:
        return project_direction(response, require_think and self.require_think, self.strict_format)

    def facts(self, task: Task) -> dict[str, Any]:
        """What a score depends on beside the task."""
        return {
            "observation": self.observation,
            "require_think": self.require_think,
            "strict_format": self.strict_format,
        }
