"""EZPoints as an environment: one seed is one hand of two cards that give 12 (paper Table 8)."""

from __future__ import annotations

from typing import Any

from seedbed.envs.base import register
from seedbed.envs.ezpoints.game import EZPointsGame, deal, solution
from seedbed.envs.ezpoints.projection import project_json
from seedbed.envs.seeded import SeededEnvironment
from seedbed.prompts.base import Wording
from seedbed.types import Action, Task

_ROLE = (
    "You play a game with two cards. A number card counts its number, J, Q and K count 10, A counts 1. You write a "
    "formula that gives 12, one piece a turn: the number of a card that is not in the formula yet, + or *. When it is "
    "complete, append =, which ends the game: you win if both cards were used and the formula gives 12."
)
_IMAGE = " The image shows your cards and, below them, the formula so far."


@register("ezpoints")
class EZPoints(SeededEnvironment):
    """Tasks are ``ezpoints/<split>/<seed>``; their kind is what makes 12 of the cards, ``sum`` or ``product``.

    ``observation`` is text, image (what the paper's model sees) or both.
    """

    def __init__(self, observation: str = "text") -> None:
        super().__init__(observation)
        self.wording = Wording(
            role=_ROLE if observation == "text" else _ROLE + _IMAGE,
            think='Answer with a JSON object. In its field "thoughts" name your cards and reason step by step.',
            act='Then put what you append into its field "action": {"thoughts": "...", "action": "number, +, * or ="}',
            act_only='Answer with a JSON object that holds what you append: {"action": "number, +, * or ="}',
        )

    def kind(self, seed: int) -> str:
        return "sum" if solution(deal(seed)) == "+" else "product"

    def open(self, task: Task) -> EZPointsGame:
        return EZPointsGame(deal(self.seed(task)), self.show)

    def project(self, response: str, require_think: bool) -> Action:
        """Thoughts are asked for but not required (official code)."""
        return project_json(response)

    def facts(self, task: Task) -> dict[str, Any]:
        """What a score depends on beside the task."""
        return {"observation": self.observation}
