"""Two plain shoppers, one by chance and one that looks for what was asked and buys it. They have the prompt alone."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from seedbed.envs.webshop.pages import SEPARATOR
from seedbed.prompts.read import Shown

TRIES = 4  #: products looked at before one is bought; fifteen turns allow five
_BAR, _BUY, _BACK = "search[<your query>]", "click[buy now]", "click[< prev]"
_LIMIT = re.compile(r",? and price lower than (\d+(?:\.\d+)?) dollars$")
_OPTIONS = re.compile(r" with [^,:]*: .*$")  #: from "with color: red, and size: small" to the end
_WORD = re.compile(r"[\w.-]+")
_PRICE = re.compile(r"\$(\d+(?:\.\d+)?)")


def chance(shown: Shown, seed: int) -> str:
    """A search for up to five of the goal's words, or one of the buttons, each as likely."""
    rng = random.Random(seed)
    if shown.admissible != (_BAR,):
        return _say("By chance.", rng.choice(shown.admissible))
    words = re.findall(r"\w+", shown.goal)
    return _say("By chance.", f"search[{' '.join(rng.sample(words, min(len(words), rng.randint(1, 5))))}]")


def scripted(shown: Shown, seed: int) -> str:
    """Search for the goal, open products of a fitting price until one has every option, choose them, buy."""
    wanted = Wanted.of(shown.goal)
    if _BUY in shown.admissible:
        action = _at_product(shown, wanted)
    elif shown.admissible == (_BAR,):
        action = f"search[{' '.join(re.findall(_WORD, wanted.words))}]"
    else:
        action = _at_results(shown, wanted)
    return _say("By rule.", action)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A goal read: what to search for, the option values asked for, and the price limit."""

    words: str
    options: tuple[str, ...]
    limit: float

    @classmethod
    def of(cls, goal: str) -> Wanted:
        limit, words = _LIMIT.search(goal), _LIMIT.sub("", goal)
        asked = _OPTIONS.search(words)
        options = [part.partition(": ")[2] for part in asked[0].split(", and ")] if asked else []
        return cls(words, tuple(options), float(limit[1]) if limit else float("inf"))

    def on(self, page: str) -> tuple[str, ...]:
        """The wanted options that a product's page offers."""
        texts = {text.lower() for text in _texts(page)}
        return tuple(option for option in self.options if option in texts)


def _at_results(shown: Shown, wanted: Wanted) -> str:
    """The next product of a fitting price; after enough of them the one that had most of the options, for good."""
    opened = _opened(shown)
    texts = _texts(shown.observation)
    fresh = [
        name.lower()
        for name, rest in ((text, texts[place + 1 : place + 3]) for place, text in enumerate(texts))
        if f"click[{name.lower()}]" in shown.admissible and name[:1].isalnum() and name != "Back to Search"
        if name != "Next >" and name.lower() not in dict(opened) and _affordable(rest, wanted.limit)
    ]
    if fresh and len(opened) < TRIES:
        return f"click[{fresh[0]}]"
    if not opened:
        return "click[back to search]"
    return f"click[{max(opened, key=lambda visit: len(wanted.on(visit[1])))[0]}]"


def _at_product(shown: Shown, wanted: Wanted) -> str:
    """Choose and buy if all options are here, or if this page was come back to; else go back."""
    opened = _opened(shown)
    offered = wanted.on(shown.observation)
    again = opened[-1][0] in dict(opened[:-1])
    if len(offered) < len(wanted.options) and not again:
        return _BACK
    since = max(place for place, (_, action) in enumerate(shown.history) if action == f"click[{opened[-1][0]}]")
    clicked = {action for _, action in shown.history[since:]}
    return next((f"click[{option}]" for option in offered if f"click[{option}]" not in clicked), _BUY)


def _opened(shown: Shown) -> list[tuple[str, str]]:
    """(id, page) of every product page come to from a list of results, in order."""
    pages = [*(page for page, _ in shown.history), shown.observation]
    return [
        (action.removeprefix("click[").removesuffix("]"), after)
        for (page, action), after in zip(shown.history, pages[1:], strict=True)
        if "'Buy Now'" in after and "'Buy Now'" not in page
    ]


def _affordable(rest: list[str], limit: float) -> bool:
    """``rest`` are the two texts behind an id: title and price, if the product has both."""
    prices = [float(found[1]) for text in rest if (found := _PRICE.match(text))]
    return not prices or prices[0] <= limit


def _texts(page: str) -> list[str]:
    """The texts of a page, without the quotes around each."""
    return page.removeprefix("'").removesuffix("'").split(f"'{SEPARATOR}'")


def _say(thought: str, action: str) -> str:
    return f"<think>{thought}</think><action>{action}</action>"
