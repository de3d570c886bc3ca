"""The operations of the WebShop reward vectors, and what was decided where the official code raises.

Titles come with the nouns that spaCy found in them, so the parts can be checked without a tagger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seedbed.envs.webshop import reward
from seedbed.envs.webshop.catalogue import Product
from seedbed.envs.webshop.goals import Goal
from seedbed.envs.webshop.similarity import token_set_ratio

Json = dict[str, Any]


def product(fields: Json, name: str | None = None) -> Product:
    return Product(
        number=0,
        asin=fields.get("asin", ""),
        title=fields.get("Title", name or fields.get("name", "")),
        description=fields.get("Description", ""),
        features=tuple(fields.get("BulletPoints", ())),
        category="",
        query=fields.get("query", ""),
        product_category=fields.get("product_category", ""),
        prices=(1.0,),
        options={},
        attributes=tuple(fields.get("Attributes", ())),
    )


def wanted(fields: Json) -> Goal:
    options = fields["goal_options"]
    return Goal(
        product=product(fields),
        text="",
        attributes=tuple(fields["attributes"]),
        options=options if isinstance(options, dict) else tuple(options),
        price_limit=fields["price_upper"],
    )


def tagged(case: Json) -> Callable[[str], list[str]]:
    """The noun lists of a case as a tagger of its two titles."""
    inputs, expected = case["inputs"], case["expected"]
    lists = {
        inputs["purchased_product"]["name"]: expected.get("purchased_nouns", []),
        inputs["goal"]["name"]: expected.get("goal_nouns", []),
    }
    return lists.__getitem__


def type_part(match: reward.TypeMatch) -> Json:
    return {
        "r_type": match.factor,
        "query_match": match.same_query,
        "category_match": match.same_category,
        "title_score": match.title,
    }


def parts_of(score: reward.Score, goal: Goal) -> Json:
    """A score under the official names; an absent part has no weight there."""
    shares = {"att": (score.attributes, len(goal.attributes)), "option": (score.options, len(goal.options))}
    shares["price"] = (score.price, 1)
    info = type_part(score.type)
    for name, (share, count) in shares.items():
        if share is not None:
            info |= {f"r_{name}": share, f"w_{name}": count / score.parts}
    return info


def webshop_reward(case: Json) -> Json:
    inputs = case["inputs"]
    goal = wanted(inputs["goal"])
    score = reward.score(product(inputs["purchased_product"]), goal, inputs["price"], inputs["options"], tagged(case))
    return {"total_reward": score.total, "info": parts_of(score, goal), "won": score.total == 1.0}


def type_reward(case: Json) -> Json:
    inputs = case["inputs"]
    return type_part(reward.type_match(product(inputs["purchased_product"]), wanted(inputs["goal"]), tagged(case)))


def attribute_reward(case: Json) -> Json:
    inputs = case["inputs"]
    met = reward.attributes_met(product(inputs["purchased_product"]), inputs["goal_attributes"])
    return {"r_att": met / len(inputs["goal_attributes"]), "num_matches": met}


def option_reward(case: Json) -> Json:
    chosen, options = list(case["inputs"]["purchased_options"].values()), case["inputs"]["goal_options"]
    met = reward.options_met(chosen, options)
    return {"r_option": met / len(options) if options else None, "num_matches": met}


def table(function: Callable[..., Any]) -> Callable[[Json], Json]:
    def run(case: Json) -> Json:
        return {"results": [function(*(c if isinstance(c, list) else [c])) for c in case["inputs"]["calls"]]}

    return run


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "webshop_reward": webshop_reward,
    "type_reward": type_reward,
    "attribute_reward": attribute_reward,
    "option_reward": option_reward,
    "normalize_color": table(reward.colour),
    "token_set_ratio": table(token_set_ratio),
}

#: The official code raises; ours: (total, parts that are left out, price met).
MENDED: dict[str, tuple[float, str, bool | None]] = {
    "price_missing": (0.8, "", False),  # an unknown price is over any limit; attributes and options are all met
    "price_upper_zero": (1.0, "price", None),  # nothing was asked of the price
    "goal_without_attributes": (1.0, "att", True),
}
