"""WebShop against the recorded official outputs: goals, prices, rewards with their parts, rankings, transcripts.

``SEEDBED_WEBSHOP_REF`` names another directory of the same form than ``SEEDBED_DATA/webshop``.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seedbed.envs import panels
from seedbed.envs.webshop.analysis import terms
from seedbed.envs.webshop.env import SPLITS, WebShop
from seedbed.envs.webshop.index import coded_length, length_code
from seedbed.envs.webshop.nouns import nouns
from seedbed.envs.webshop.pages import RESULTS, Visit
from seedbed.envs.webshop.reward import score
from seedbed.envs.webshop.shop import Shop


@pytest.fixture(scope="module")
def directory() -> Path:
    root = os.environ.get("SEEDBED_WEBSHOP_REF")
    if not root and os.environ.get("SEEDBED_DATA"):
        root = str(Path(os.environ["SEEDBED_DATA"]) / "webshop")
    if not root or not (Path(root) / "ref_goals.json.gz").is_file():
        pytest.skip("neither SEEDBED_WEBSHOP_REF nor SEEDBED_DATA/webshop holds WebShop reference outputs")
    return Path(root)


@pytest.fixture(scope="module")
def environment(directory: Path) -> Iterator[WebShop]:
    with pytest.MonkeyPatch.context() as patch:
        if any(directory.glob("items_shuffle*")):
            patch.setenv("WEBSHOP_DATA", str(directory))
        yield WebShop()


@pytest.fixture(scope="module")
def shop(environment: WebShop) -> Shop:
    return environment.shop


@pytest.fixture(scope="module")
def goals(shop: Shop) -> list[Any]:
    made = shop.goals["synthetic"]
    return [made.goal(index, shop.products) for index in range(len(made))]


def read(directory: Path, name: str) -> Any:
    with gzip.open(directory / f"{name}.json.gz", "rt", encoding="utf-8") as stream:
        return json.load(stream)


def test_every_goal_in_order(directory, shop, goals):
    weights = shop.goals["synthetic"].weights(shop.products)
    ours = [
        {
            "asin": goal.product.asin,
            "category": goal.product.category,
            "query": goal.product.query,
            "name": goal.product.title,
            "product_category": goal.product.product_category,
            "instruction_text": goal.text,
            "attributes": list(goal.attributes),
            "price_upper": goal.price_limit,
            "goal_options": goal.options,
            "weight": weight,
        }
        for goal, weight in zip(goals, weights, strict=True)
    ]
    assert ours == read(directory, "ref_goals")


def test_every_price(directory, shop):
    ours = {p.asin: price for p, price in zip(shop.products, shop.prices_D.tolist(), strict=True)}
    assert ours == read(directory, "ref_product_prices")


def test_every_reward_and_its_parts(directory, shop, goals):
    by_asin = {product.asin: product for product in shop.products}
    cases = read(directory, "ref_rewards")
    for case in cases:
        goal, product = goals[case["goal_idx"]], by_asin[case["asin"]]
        assert shop.prices_D[product.number] == case["price"]
        got = score(product, goal, case["price"], case["options"], nouns)
        parts = {
            "r_type": got.type.factor,
            "query_match": got.type.same_query,
            "category_match": got.type.same_category,
            "title_score": got.type.title,
            "r_att": got.attributes,
            "w_att": len(goal.attributes) / got.parts,
            "r_price": got.price,
            "w_price": 1 / got.parts,
        }
        if goal.options:
            parts |= {"r_option": got.options, "w_option": len(goal.options) / got.parts}
        assert (got.total, parts) == (case["reward"], case["info"]), case
    assert len(cases) >= 200


def test_every_ranking_in_order(directory, shop):
    cases = read(directory, "ref_search")
    for case in cases:
        ours = [product.asin for product in shop.search(case["q"], RESULTS)]
        assert ours == [asin for asin, _ in case["hits"]], case["q"]
    assert len(cases) >= 87


def test_terms_and_lengths_of_every_product_are_lucenes(directory, shop):
    if not (directory / "lucene_postings_1k.json.gz").is_file():
        pytest.skip(f"no term vectors in {directory}")
    stored = read(directory, "lucene_postings_1k")
    assert [doc["asin"] for doc in stored["docs"]] == [product.asin for product in shop.products]
    for product, doc in zip(shop.products, stored["docs"], strict=True):
        assert Counter(terms(product.search_text)) == doc["tf"], product.asin
        assert coded_length(length_code(doc["len"])) == doc["norm_len"]


def test_every_recorded_step(directory, shop, goals):
    steps = 0
    for episode in read(directory, "ref_transcripts"):
        goal = goals[episode["session"]]
        visit = Visit(goal.text, lambda query: shop.search(query, RESULTS))
        for step in episode["steps"]:
            where = (episode["session"], step["action"])
            if step["action"] is not None:
                visit.act(step["action"])
            total = None
            if visit.page == "done":
                price = float(shop.prices_D[visit.product.number])
                total = score(visit.product, goal, price, visit.chosen, nouns).total
            assert visit.text(total) == step["obs"], where
            available = {"has_search_bar": visit.has_search_bar, "clickables": visit.clickables}
            assert available == step["avail"], where
            assert (step.get("done") or False) == (visit.page == "done"), where
            assert (step.get("reward") or 0.0) == (total or 0.0), where
            steps += 1
    assert steps >= 100


def test_buying_the_goal_wins_only_with_a_full_score(environment, goals):
    """A shopper who knows the goal: reward 10 exactly where the recorded kind of score is 1."""
    won, found = 0, 0
    for task in environment.tasks("test")[:60]:
        game = environment.open(task)
        goal = goals[int(task.id.rpartition("/")[2])]
        seen = game.start()
        assert game.goal == goal.text and seen.admissible == ("search[<your query>]",)
        seen = game.step(f"search[{goal.product.title.lower()}]")
        click = f"click[{goal.product.asin.lower()}]"
        if click not in seen.admissible:
            continue
        found += 1
        for action in (click, *(f"click[{value}]" for value in goal.options.values()), "click[buy now]"):
            end = game.step(action)
            assert game.rejected == 0, action
        assert end.done and end.won == (game.score.total == 1.0) and end.reward == (10.0 if end.won else 0.0)
        won += end.won
    assert found >= 55 and found * 0.9 <= won <= found


def test_splits_part_the_goals(shop, environment):
    test, train = environment.tasks("test"), environment.tasks("train")
    assert (len(test), len(test) + len(train)) == (500, len(shop.goals["synthetic"]))
    assert (test[-1].id, train[0].id, train[-1].id) == (
        "webshop/test/499",
        "webshop/train/500",
        f"webshop/train/{len(shop.goals['synthetic']) - 1}",
    )
    human = environment.tasks("human_test")
    assert len(human) == len(shop.goals["human"]) and set(SPLITS) >= {task.split for task in human}


def test_panel_files_are_what_the_recipes_give(shop, environment):
    """Task kinds come from the catalogue, so this needs it; the 128 are distinct goals of the 500."""
    for name, size in (("webshop-test-500", 500), ("webshop-test-128", 128)):
        assert (panels.DIRECTORY / f"{name}.json").read_text() == panels.build_panel(name)
        assert len({task.id for task in panels.load_panel(name).tasks}) == size
