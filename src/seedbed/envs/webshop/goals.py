"""What is a shopper asked to buy? Goals made of products, in one fixed shuffled order.

Synthetic goals: every product with an instruction text gives one goal per combination of its option values. Human
goals: one per instruction written by a person. Prices and price limits are drawn with ``PRICE_SEED``, the order with
``ORDER_SEED``: nothing depends on the process. Source: the official goal code (WebShop at 64fa2a5c), which takes prices
from the global random state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from seedbed.envs.webshop.catalogue import Product

PRICE_SEED, ORDER_SEED = 42, 233
NO_LIMIT = 1_000_000.0
_LIMITS = [10.0 * n for n in range(1, 100)]


@dataclass(frozen=True, slots=True)
class Goal:
    """What to buy. ``options`` maps names to values (synthetic) or lists values alone (human)."""

    product: Product  #: the one the goal was made of
    text: str
    attributes: tuple[str, ...]
    options: Mapping[str, str] | tuple[str, ...]
    price_limit: float


class Source(NamedTuple):
    """An instruction and how many goals it gives."""

    product: int
    row: int  #: which of the product's human instructions
    goals: int


@dataclass(frozen=True, slots=True)
class Goals:
    """All goals of one kind: of each source its product, price limit and first goal, and the shuffled order.

    A synthetic source has as many goals as its product has option combinations. Goals are made when asked for.
    """

    human: bool
    product_S: np.ndarray  #: int32
    row_S: np.ndarray  #: int32, which of the product's human instructions
    limit_S: np.ndarray  #: float64
    first_S: np.ndarray  #: int64, one longer than the sources
    order: np.ndarray  #: int32, goal index -> position before shuffling

    @classmethod
    def draw(cls, sources: Sequence[Source], prices: Sequence[float], random: Random, human: bool) -> Goals:
        """Price limits come from ``random``, one draw per source in product order."""
        columns = list(zip(*sources, strict=True)) or [(), (), ()]
        first = np.concatenate(([0], np.cumsum(columns[2], dtype=np.int64)))
        order = list(range(int(first[-1])))
        Random(ORDER_SEED).shuffle(order)
        return cls(
            human=human,
            product_S=np.array(columns[0], np.int32),
            row_S=np.array(columns[1], np.int32),
            limit_S=np.array([_limit(prices[number], random) for number in columns[0]], np.float64),
            first_S=first,
            order=np.array(order, np.int32),
        )

    def __len__(self) -> int:
        return len(self.order)

    def locate(self, index: int) -> tuple[int, int]:
        """(source, combination) of a goal. Raises ``IndexError`` past the end."""
        flat = int(self.order[index])
        source = int(np.searchsorted(self.first_S, flat, side="right")) - 1
        return source, flat - int(self.first_S[source])

    def goal(self, index: int, products: Sequence[Product]) -> Goal:
        source, combination = self.locate(index)
        product, limit = products[int(self.product_S[source])], float(self.limit_S[source])
        ending = "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"
        if self.human:
            text, attributes, values = product.human[int(self.row_S[source])]
            return Goal(product, text.strip(".") + ending, attributes, values, limit)
        options = _combination(product, combination)
        chosen = ", and ".join(f"{name}: {value}" for name, value in options.items())
        text = product.instruction + (f" with {chosen}" if chosen else "") + ending
        return Goal(product, text, product.instruction_attributes, options, limit)

    def weights(self, products: Sequence[Product]) -> list[float]:
        """Weight of each goal in the official random choice of goals: rare attributes weigh more, human goals weigh 1.

        Not used by any split; goals are addressed by index.
        """
        if self.human:
            return [1.0] * len(self)
        count: Counter[str] = Counter()
        asked = [products[n].instruction_attributes for n in self.product_S.tolist()]
        for attributes, goals in zip(asked, np.diff(self.first_S).tolist(), strict=True):
            for attribute in attributes:
                count[attribute] += goals
        weight_S = [sum(1 / count[a] for a in attributes if count[a]) / len(attributes) for attributes in asked]
        return [weight_S[self.locate(index)[0]] for index in range(len(self))]


def sources_of(product: Product, human: bool) -> list[Source]:
    """The instructions of a product that give goals; one without attributes gives none."""
    if human:
        return [Source(product.number, row, 1) for row, (_, attributes, _) in enumerate(product.human) if attributes]
    if not product.instruction or not product.instruction_attributes:
        return []
    return [Source(product.number, 0, math.prod(map(len, product.options.values())))]


def _limit(price: float, random: Random) -> float:
    """One of the next four multiples of ten above the price, never the first; none for a price of 980 or more."""
    above = [limit for limit in _LIMITS if limit > price][:4]
    return max(random.sample(above, 2)) if len(above) >= 2 else NO_LIMIT


def _combination(product: Product, number: int) -> dict[str, str]:
    """The option values of a product's goal: names sorted, the last one changing fastest."""
    chosen = {}
    for name in sorted(product.options, reverse=True):
        number, place = divmod(number, len(product.options[name]))
        chosen[name] = product.options[name][place]
    return dict(reversed(chosen.items()))
