"""Which hand has a seed, and what does a formula earn?

The rules are those of EZPoints of gym_cards as the official code has them, which gives no reward below 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seedbed.envs.base import Game
from seedbed.envs.ezpoints.picture import picture
from seedbed.envs.seeded import Dice
from seedbed.types import Observation

TARGET = 12
WIN_REWARD = 10.0
NUMBERS = tuple(str(number) for number in range(1, 11))
TOKENS = (*NUMBERS, "+", "*", "=")  #: what can be appended, in the official order
LONGEST = 5  #: a formula that is longer takes nothing more, "=" included (official code)
SUITS = ("hearts", "spades", "diamonds", "clubs")
RANKS = ("A", *NUMBERS[1:], "J", "Q", "K")

_FORM = re.compile(r"\+*n(?P<star>\*{0,2})(?P<plus>\+*)n")


@dataclass(frozen=True, slots=True)
class Card:
    rank: str  #: of ``RANKS``
    suit: str

    @property
    def number(self) -> str:
        """What it counts: face cards 10, an ace 1."""
        return NUMBERS[min(RANKS.index(self.rank), 9)]

    def __str__(self) -> str:
        return f"{self.rank} of {self.suit}"


def deal(seed: int) -> tuple[Card, Card]:
    """Two cards that give 12 by sum or product; for a seed the hand of the official code."""
    dice = Dice(seed)
    first = Card(RANKS[1 + dice.below(12)], SUITS[dice.below(4)])  # no ace
    value = int(first.number)
    by_product = TARGET % value == 0 and dice.share() <= 0.5
    second = Card(RANKS[(TARGET // value if by_product else TARGET - value) - 1], SUITS[dice.below(4)])
    return (second, first) if dice.share() <= 0.5 else (first, second)


def solution(hand: Sequence[Card]) -> str:
    """The sign that gives 12."""
    one, other = (int(card.number) for card in hand)
    return "+" if one + other == TARGET else "*"


class EZPointsGame(Game):
    """One hand. A formula is appended to piece by piece; "=" ends the game and wins if it gives 12 with both cards.

    What cannot be appended changes nothing and earns nothing. ``show`` makes the observation.
    """

    goal = f"make a formula of your two cards that gives {TARGET}"

    def __init__(self, hand: tuple[Card, Card], show: Callable[..., Observation]) -> None:
        self.hand = hand
        self.formula: list[str] = []
        self._show = show

    def start(self) -> Observation:
        return self._seen()

    def step(self, action: str) -> Observation:
        """Append one of ``TOKENS``."""
        if not self._takes(action):
            return self._seen("Nothing happens.")
        if action == "=":
            won = value(self.formula) == TARGET
            return self._seen(reward=WIN_REWARD * won, done=True, won=won)
        self.formula.append(action)
        return self._seen()

    def _takes(self, action: str) -> bool:
        if action not in TOKENS or len(self.formula) > LONGEST:
            return False
        numbers = [card.number for card in self.hand]
        return action not in NUMBERS or self.formula.count(action) < numbers.count(action)

    def _seen(self, remark: str = "", **outcome: float) -> Observation:
        lines = [
            f"Your cards: {self.hand[0]}, {self.hand[1]}",
            f"The formula so far: {' '.join(self.formula) or 'empty'}",
        ]
        if len(self.formula) > LONGEST:
            lines.append("It is full: nothing can be appended.")
        text = "\n".join([remark, *lines] if remark else lines)
        return self._show(text, lambda: picture(self.hand, self.formula), **outcome)


def value(formula: Sequence[str]) -> int | None:
    """What a formula gives; None if it is none or has not two numbers.

    Python's rules, as in the official code: plus signs before a number do nothing, "* *" is a power, and two numbers
    side by side are one.
    """
    form = _FORM.fullmatch("".join("n" if token in NUMBERS else token for token in formula))
    if not form:
        return None
    one, other = (int(token) for token in formula if token in NUMBERS)
    if form["star"]:
        return one * other if form["star"] == "*" else one**other
    return one + other if form["plus"] else int(f"{one}{other}")
