"""How good is a purchase? The benchmark's score from 0 to 1, part by part.

score = type * (attributes met + options met + price met) / (attributes + options + 1). The rules are the official ones
with their oddities (WebShop at 64fa2a5c), since they define the benchmark; only what would raise there is mended here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seedbed.envs.webshop.catalogue import Product
from seedbed.envs.webshop.goals import Goal
from seedbed.envs.webshop.similarity import token_set_ratio

ALIKE = 85  #: a ratio over this counts as met
#: The first of these, in this order, that occurs anywhere in an option value stands for the value.
_COLOURS = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel"
    " camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry"
    " cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green"
    " grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot"
    " midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple"
    " rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan"
    " taupe teal tiger turquoise violet walnut wheat white wine yellow"
).split()

Nouns = Callable[[str], Sequence[str]]  #: title -> its nouns in order, lower case


@dataclass(frozen=True, slots=True)
class TypeMatch:
    """Is it the right sort of thing? ``factor`` multiplies the whole score."""

    factor: float
    same_query: bool
    same_category: bool  #: two levels of the category path in common
    title: float  #: share of the goal title's nouns that the bought title has


@dataclass(frozen=True, slots=True)
class Score:
    """A purchase's score and what it is made of. A part is None where the goal does not ask for it."""

    total: float
    type: TypeMatch
    attributes: float | None  #: share met
    options: float | None  #: share met
    price: bool | None
    parts: int  #: attributes + options + 1, each worth the same


def score(product: Product, goal: Goal, price: float | None, chosen: Mapping[str, str], nouns: Nouns) -> Score:
    """Score of buying ``product`` at ``price`` with the options ``chosen``.

    An unknown price is over any limit. A limit of zero or less, or a goal without attributes, asks for nothing and is
    left out of the mean.
    """
    kind = type_match(product, goal, nouns)
    attributes = attributes_met(product, goal.attributes)
    options = options_met(list(chosen.values()), goal.options)
    limited = goal.price_limit > 0
    in_limit = price is not None and price <= goal.price_limit
    parts = len(goal.attributes) + len(goal.options) + limited
    met = attributes + options + (limited and in_limit)
    return Score(
        total=kind.factor * (met / parts) if parts else kind.factor,
        type=kind,
        attributes=attributes / len(goal.attributes) if goal.attributes else None,
        options=options / len(goal.options) if goal.options else None,
        price=in_limit if limited else None,
        parts=parts,
    )


def type_match(product: Product, goal: Goal, nouns: Nouns) -> TypeMatch:
    """A title without a common noun makes the factor 0 whatever else agrees."""
    wanted, got = nouns(goal.product.title), nouns(product.title)
    title = len(set(wanted) & set(got)) / len(wanted) if wanted else 0.2
    same_query = product.query == goal.product.query
    same_category = len(_levels(product) & _levels(goal.product)) >= 2
    factor = 1.0 if same_query or same_category or title > 0.2 else 0.5
    if title < 0.1:
        factor = 0.1 if title else 0.0
    return TypeMatch(factor, same_query, same_category, title)


def attributes_met(product: Product, wanted: Sequence[str]) -> int:
    """How many are alike to a hidden attribute, or stand in title, features or description."""
    texts = (product.title.lower(), " ".join(product.features).lower(), product.description.lower())
    return sum(
        any(token_set_ratio(has, attribute) > ALIKE for has in product.attributes)
        or any(attribute in text for text in texts)
        for attribute in wanted
    )


def options_met(chosen: Sequence[str], wanted: Mapping[str, str] | Sequence[str]) -> int:
    """How many wanted options are alike to a chosen value; one value may meet several.

    Of a synthetic goal the option's name is part of the compared text, and is a colour only if it is just that.
    """
    values = [colour(value) for value in chosen]
    if isinstance(wanted, Mapping):
        phrases = [next((c for c in _COLOURS if c in pair), str(pair)) for pair in wanted.items()]
    else:
        phrases = [colour(value) for value in wanted]
    return sum(any(token_set_ratio(value, phrase) > ALIKE for value in values) for phrase in phrases)


def colour(value: str) -> str:
    """An option value reduced to its colour, ``standard`` to ``tan`` included; unchanged if it holds none."""
    return next((name for name in _COLOURS if name in value), value)


def _levels(product: Product) -> set[str]:
    return {level.strip() for level in product.product_category.split("›")}
