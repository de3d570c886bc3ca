"""Two plain players of EZPoints, one by chance and one that knows how to make 12. They read the cards as text."""

from __future__ import annotations

import json
import random
import re

from seedbed.envs.ezpoints.game import TARGET
from seedbed.prompts.read import Shown

_CARDS = re.compile(r"^Your cards: (\w+) of \w+, (\w+) of \w+$", re.MULTILINE)
_FORMULA = re.compile(r"^The formula so far: (.*)$", re.MULTILINE)
_COUNTS = {"A": "1", "J": "10", "Q": "10", "K": "10"}


def chance(shown: Shown, seed: int) -> str:
    """One of what can be appended: the numbers that are left, a sign, the end."""
    numbers, formula = _read(shown.observation)
    for used in formula:
        if used in numbers:
            numbers.remove(used)
    return _say("By chance.", random.Random(seed).choice([*dict.fromkeys(numbers), "+", "*", "="]))


def scripted(shown: Shown, seed: int) -> str:
    """Number, the sign that gives 12, number, end. ``seed`` plays no part."""
    (one, other), formula = _read(shown.observation)
    sign = "+" if int(one) + int(other) == TARGET else "*"
    return _say("By rule.", [one, sign, other, "="][min(len(formula), 3)])


def _read(text: str) -> tuple[list[str], list[str]]:
    """The numbers of the cards, and the formula so far."""
    ranks, formula = _CARDS.search(text).groups(), _FORMULA.search(text)[1]
    return [_COUNTS.get(rank, rank) for rank in ranks], [] if formula == "empty" else formula.split()


def _say(thought: str, token: str) -> str:
    return json.dumps({"thoughts": thought, "action": token})
