"""WebShop as an environment: one goal is one task, one visit to the shop is one game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from seedbed.envs.base import Environment, Game, register
from seedbed.envs.project import normalise, project_tag
from seedbed.envs.webshop.data import find_files
from seedbed.envs.webshop.nouns import nouns
from seedbed.envs.webshop.pages import RESULTS, SEPARATOR, Visit
from seedbed.envs.webshop.reward import Score, score
from seedbed.envs.webshop.shop import Shop, open_shop
from seedbed.prompts.base import Wording
from seedbed.types import Action, Observation, Task, Trajectory, UserError

WIN_REWARD = 10.0
#: split -> kind of goal, first goal, end (None: to the last). Synthetic goals as in the paper's code, human goals as in
#: the baselines of WebShop.
SPLITS: dict[str, tuple[str, int, int | None]] = {
    "test": ("synthetic", 0, 500),
    "train": ("synthetic", 500, None),
    "human_test": ("human", 0, 500),
    "human_eval": ("human", 500, 1500),
    "human_train": ("human", 1500, None),
}


@register("webshop")
class WebShop(Environment):
    """Buying what an instruction asks for, in a shop of 1,000 products (``catalogue="small"``) or all 1.18 million.

    A task is a goal, ``webshop/<split>/<goal index>``; its kind is the product category. ``strict_search`` refuses a
    search on a page without a search bar, which the official environment plays. ``require_think`` and ``strict_format``
    decide which responses are invalid (``project_tag``); reasoning is required only where the prompt asks for it.
    """

    instance_names = r"\b(?:b0[0-9a-z]{8}|\d{9}[0-9x])\b"
    wording = Wording(
        role="You are shopping in a web shop and act in it by text commands: search[words] finds products, "
        "click[button] follows a button, a product or an option of the page.",
        task_first=True,
    )

    def __init__(
        self,
        catalogue: str = "small",
        strict_search: bool = False,
        require_think: bool = True,
        strict_format: bool = False,
    ) -> None:
        self.catalogue, self.strict_search = catalogue, strict_search
        self.require_think, self.strict_format = require_think, strict_format

    @cached_property
    def shop(self) -> Shop:
        """Raises ``UserError`` if the data is missing, partial or damaged."""
        return open_shop(find_files(self.catalogue))

    def tasks(self, split: str) -> Sequence[Task]:
        """The goals of a split in their order."""
        if split not in SPLITS:
            raise UserError(f"environment 'webshop' has no split {split!r}; use one of {', '.join(SPLITS)}")
        kind, first, end = SPLITS[split]
        shop = self.shop
        have = len(shop.goals[kind])
        if have <= first:
            raise UserError(
                f"split {split!r} of 'webshop' starts at {kind} goal {first}, but the {self.catalogue} catalogue gives "
                f"{have}; use another split or, with the full data, env.options.catalogue: full"
            )
        return _Tasks(shop, split, range(first, have if end is None else min(end, have)))

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Opens the shop, which for the full catalogue is first indexed."""
        _ = self.shop

    def open(self, task: Task) -> WebShopGame:
        kind, _, _ = SPLITS[task.split]
        index = int(task.id.rpartition("/")[2])
        shop = self.shop
        if index >= len(shop.goals[kind]):
            raise UserError(
                f"task {task.id!r} needs {kind} goal {index}, but the {self.catalogue} catalogue gives "
                f"{len(shop.goals[kind])}: set env.options.catalogue to the one the task is from"
            )
        return WebShopGame(shop, kind, index, self.strict_search)

    def project(self, response: str, require_think: bool) -> Action:
        required = require_think and self.require_think
        return project_tag(response, required, fallback_chars=20, strict_format=self.strict_format)

    def measures(self, trajectory: Trajectory) -> dict[str, float]:
        """The official partial score in 0..1, 0 without a purchase; found by playing the actions again."""
        game = self.open(trajectory.task)
        seen = game.start()
        for turn in trajectory.turns_K:
            if turn.finish == "stop":  # a cut response was not played
                seen = game.step(normalise(turn.action.text, seen.admissible))
        return {"score": game.score.total if game.score else 0.0}

    def facts(self, task: Task) -> dict[str, Any]:
        """What a score depends on beside the task: the shop and which actions and responses it takes."""
        return {
            "catalogue": self.catalogue,
            "products": len(self.shop.products),
            "goals": len(self.shop.goals[SPLITS[task.split][0]]),
            "strict_search": self.strict_search,
            "require_think": self.require_think,
            "strict_format": self.strict_format,
        }


@dataclass(frozen=True, slots=True)
class _Tasks(Sequence[Task]):
    """Tasks made when asked for: the full catalogue has millions."""

    shop: Shop
    split: str
    indices: range

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, place: int | slice) -> Task | list[Task]:
        if isinstance(place, slice):
            return [self[n] for n in range(len(self))[place]]
        index = self.indices[place]
        goals = self.shop.goals[SPLITS[self.split][0]]
        product = self.shop.products[int(goals.product_S[goals.locate(index)[0]])]
        return Task(f"webshop/{self.split}/{index}", "webshop", self.split, product.category)


class WebShopGame(Game):
    """One visit. It ends with the purchase, whose score ``score`` keeps; the reward only tells whether that is 1."""

    def __init__(self, shop: Shop, kind: str, index: int, strict_search: bool) -> None:
        self.shop = shop
        self.wanted = shop.goals[kind].goal(index, shop.products)
        self.goal = self.wanted.text
        self.visit = Visit(self.goal, lambda query: shop.search(query, RESULTS), bar_needed=strict_search)
        self.score: Score | None = None  #: None before the purchase
        self.rejected = 0  #: actions that did nothing

    def start(self) -> Observation:
        return self._seen()

    def step(self, action: str) -> Observation:
        """Play one action; one that is malformed or not offered leaves the page as it is."""
        self.rejected += not self.visit.act(action)
        if self.visit.page == "done" and self.score is None:
            bought = self.visit.product
            price = float(self.shop.prices_D[bought.number])
            self.score = score(bought, self.wanted, price, self.visit.chosen, nouns)
        return self._seen()

    def _seen(self) -> Observation:
        """The page without the instruction, each text in quotes, as the paper's code shows it; the score stays out."""
        if self.score is not None:
            won = self.score.total == 1.0
            return Observation("'Thank you for shopping with us!'", reward=WIN_REWARD * won, done=True, won=won)
        text = SEPARATOR.join(f"'{part}'" for part in self.visit.body)
        if self.visit.has_search_bar:
            return Observation(text, ("search[<your query>]",))
        return Observation(text, tuple(f"click[{button}]" for button in self.visit.clickables))
