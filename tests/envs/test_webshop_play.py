"""Playing WebShop: pages, refused actions, ends of episodes through the real rollout loop."""

from __future__ import annotations

import numpy as np
import pytest

from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs.project import normalise
from seedbed.envs.webshop.catalogue import Product
from seedbed.envs.webshop.env import WebShop
from seedbed.envs.webshop.goals import Goals, sources_of
from seedbed.envs.webshop.index import Index
from seedbed.envs.webshop.pages import Visit
from seedbed.envs.webshop.shop import Shop
from seedbed.evaluate.players import player
from seedbed.rollout import collect_groups
from seedbed.types import StopReason, Trajectory

SHOES = Product(
    number=0,
    asin="B000SHOES1",
    title="Canvas Shoes",
    description="Light.",
    features=("soft sole ", ""),
    category="fashion",
    query="shoes",
    product_category="Clothing › Shoes",
    prices=(19.99, 25.0),
    options={"size": ("8", "10", "10.5"), "color": ("black/white", "red")},
    attributes=("soft sole",),
    instruction="Find me soft sole shoes",
    instruction_attributes=("soft sole",),
)
BOOTS = [
    Product(
        number=n,
        asin=f"B000BOOTS{chr(64 + n)}",
        title=f"Rain Boots {n}",
        description="",
        features=(),
        category="fashion",
        query="boots",
        product_category="Clothing › Boots",
        prices=(1200.0,),
        options={},
    )
    for n in range(1, 13)
]
LISTED = ("8", "10", "10.5", "black/white", "red")


@pytest.fixture(scope="module")
def shop() -> Shop:
    products = [SHOES, *BOOTS]
    index = Index.build((p.asin, p.search_text) for p in products)
    prices = [20.0] + [1200.0] * 12

    class Lowest:
        """A price limit that is the lower one of the two drawn at best."""

        @staticmethod
        def sample(values: list[float], size: int) -> list[float]:
            return values[:size]

    goals = {
        kind: Goals.draw(sources_of(SHOES, kind == "human"), prices, Lowest, kind == "human")
        for kind in ("synthetic", "human")
    }
    return Shop(products, np.array(prices), goals, index)


@pytest.fixture
def environment(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> WebShop:
    monkeypatch.setattr(WebShop, "shop", shop)
    return WebShop()


def item_page(shop: Shop, **options: bool) -> Visit:
    visit = Visit("Find me shoes", lambda query: shop.search(query, 50), **options)
    assert visit.act("search[canvas shoes]") and visit.act("click[b000shoes1]")
    return visit


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("click[10]", "click[10]"),
        ("click[3]", None),
        ("Click[ Buy Now ]", "click[buy now]"),
        ("click[Black/White]", "click[black/white]"),
        ("search[shoes]", None),
        ("click[back to search", None),
    ],
)
def test_actions_on_a_page_without_search_bar(environment, written, sent):
    """T11: exact options only, white space and case forgiven, the rest refused, counted, and the visit goes on."""
    environment.strict_search = True
    game = environment.open(environment.tasks("test")[0])
    game.start()
    game.step("search[canvas shoes]")
    seen = game.step("click[b000shoes1]")
    assert seen.admissible[:2] == ("click[back to search]", "click[< prev]")
    assert seen.admissible[5:] == ("click[buy now]", *(f"click[{value}]" for value in LISTED))
    action = environment.project(f"<think>x</think><action>{written}</action>", True)
    assert action.valid
    played = normalise(action.text, seen.admissible)
    assert (played if played in seen.admissible else None) == sent
    after = game.step(played)
    assert game.rejected == (sent is None)
    if sent is None:
        assert after == seen
    if sent in ("click[10]", "click[black/white]"):
        assert list(game.visit.chosen.values()) == [sent[6:-1]]


def test_a_search_away_from_the_bar_is_played_unless_strict(shop):
    visit = item_page(shop)
    assert visit.act("search[boots]") and visit.page == "results" and visit.hits[0] in BOOTS
    assert not item_page(shop, bar_needed=True).act("search[boots]")


def test_the_fallback_action_has_20_characters(environment):
    action = environment.project("I think I will search for some Red Shoes", True)
    assert (action.text, action.valid) == ("h for some red shoes", False)


def test_pages_and_the_way_back(shop):
    visit = item_page(shop)
    assert visit.act("click[red]") and visit.act("click[10.5]") and visit.act("click[8]")
    assert visit.chosen == {"color": "red", "size": "8"}
    assert visit.act("click[features]") and visit.body == ["Back to Search", "< Prev", "soft sole"]
    assert not visit.act("click[buy now]"), "only the item page sells"
    assert visit.act("click[< prev]") and visit.page == "item" and visit.chosen["size"] == "8"
    assert visit.act("click[< prev]") and visit.page == "results" and visit.chosen == {}
    assert visit.act("click[back to search]") and visit.text().startswith(
        "WebShop [SEP] Instruction: [SEP] Find me shoes"
    )
    assert not visit.act("click[search]") and visit.act("search[boots]")
    assert visit.act("click[next >]") and visit.body[:4] == [
        *("Back to Search", "Page 2 (Total results: 12)"),
        *("< Prev", "Next >"),
    ]
    assert len(visit.clickables) == 3 + 2 and visit.act("click[next >]") and len(visit.clickables) == 3
    assert visit.act("click[< prev]") and visit.act(f"click[{BOOTS[-1].asin}]")
    assert "Price: $1200.0" in visit.body and visit.act("click[BUY NOW]") and visit.clickables == []
    assert not visit.act("search[boots]") and visit.page == "done"


BUY = ["search[canvas shoes]", "click[b000shoes1]", "click[8]", "click[black/white]", "click[buy now]"]


def play(environment: WebShop, renderer, actions: list[str], max_turns: int, limit: int = 200) -> Trajectory:
    """One episode of the goal that asks for size 8 in black/white."""
    task = next(
        t for t in environment.tasks("test") if {"8", "black/white"} == {*environment.open(t).wanted.options.values()}
    )
    left = iter(actions)

    def reply(prompt: str) -> str:
        return f"<think>go</think><action>{next(left)}</action>"

    settings = RolloutSettings(max_prompt_tokens=8192, max_new_tokens=limit, max_turns=max_turns)
    return collect_groups(ScriptedEngine(renderer, reply), environment, renderer, settings, [task], 1, seed=0)[
        0
    ].attempts_G[0]


def test_ends_of_episodes(environment, renderer):
    """T9: a win on the last allowed turn is a win, a purchase with less than a full score is lost, a cap is a cap."""
    won = play(environment, renderer, BUY, max_turns=5)
    assert (won.stop, won.reward, len(won.turns_K)) == (StopReason.WON, 10.0, 5)
    assert won.turns_K[0].observation.startswith("'Back to Search' [SEP] 'Page 1 (Total results: 1)' [SEP] 'Next >'")
    assert "score" not in won.turns_K[-1].observation.lower()
    lost = play(environment, renderer, [*BUY[:2], "click[10]", "click[buy now]"], max_turns=5)
    assert (lost.stop, lost.reward) == (StopReason.LOST, 0.0)
    capped = play(environment, renderer, BUY, max_turns=4)
    assert (capped.stop, capped.reward) == (StopReason.STEP_CAP, 0.0)
    cut = play(environment, renderer, BUY, max_turns=5, limit=20)
    assert cut.stop is StopReason.TRUNCATED_TURN and cut.turns_K[-1].observation == ""


def test_the_score_of_a_half_right_purchase_stays_on_the_game(environment):
    task = environment.tasks("test")[0]
    game = environment.open(task)
    for action in (*BUY[:2], "click[buy now]"):
        seen = game.step(action)
    assert (seen.done, seen.won, seen.reward) == (True, False, 0.0)
    assert game.score.total == pytest.approx(2 / 4) and game.score.options == 0  # attribute and price of four parts


def test_the_partial_score_of_an_episode_is_found_again_from_its_actions(renderer, data):
    shop = WebShop()
    played = {}
    opened = shop.open

    def watched(task):
        played[task.id] = opened(task)
        return played[task.id]

    shop.open = watched
    engine = ScriptedEngine(renderer, player("scripted", shop, "webshop"), seeded=True)
    settings = RolloutSettings(layout="windowed", max_turns=15, history=15, max_prompt_tokens=10**6)
    tasks = shop.tasks("test")[:12]
    trajectories = [t for g in collect_groups(engine, shop, renderer, settings, tasks, 1, seed=0) for t in g.attempts_G]
    games = dict(played)  # measuring opens others
    scores = [shop.measures(t)["score"] for t in trajectories]
    assert scores == [games[t.task.id].score.total if games[t.task.id].score else 0.0 for t in trajectories]
    assert [s == 1.0 for s in scores] == [t.won for t in trajectories] and sum(t.won for t in trajectories) > 0
