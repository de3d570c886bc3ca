"""What does a shopper see and what can be clicked? One visit to the shop, page by page, in the official text form.

A page is a list of texts joined by `` [SEP] ``. Source: the text mode of the official environment (WebShop at
64fa2a5c), checked against its transcripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from seedbed.envs.webshop.catalogue import Product

SEPARATOR = " [SEP] "
RESULTS, PAGE = 50, 10  #: products a search gives, and shows at a time
_SUB_PAGES = ("description", "features", "reviews")
_ACTION = re.compile(r"(.+)\[(.+)\]")

Search = Callable[[str], list[Product]]


@dataclass(slots=True)
class Visit:
    """Where a shopper is. ``page`` is search, results, item, a sub page of an item, or done."""

    instruction: str
    search: Search  #: query -> at most ``RESULTS`` products
    bar_needed: bool = False  #: a search away from the search page is refused (officially it works everywhere)
    page: str = "search"
    query: str = ""
    hits: list[Product] = field(default_factory=list)
    number: int = 1  #: which ten of the hits
    product: Product | None = None
    chosen: dict[str, str] = field(default_factory=dict)  #: option name -> value

    def act(self, action: str) -> bool:
        """Play ``search[words]`` or ``click[button]``; False if it does nothing here. Case does not matter."""
        parsed = _ACTION.match(action)
        if not parsed or self.page == "done":
            return False
        verb, argument = parsed[1], parsed[2].lower()
        if verb == "search":
            if self.bar_needed and self.page != "search":
                return False
            self.query, self.hits = argument, self.search(argument)
            self._show_results(1)
            return True
        if verb != "click" or argument == "search" or argument not in self._buttons():
            return False
        self._click(argument)
        return True

    def _click(self, button: str) -> None:
        if button == "buy now":
            self.page = "done"
        elif button == "back to search":
            self.page, self.product, self.chosen = "search", None, {}
        elif button == "next >" and self.page == "results":
            self._show_results(self.number + 1)
        elif button == "< prev" and self.page == "results":
            self._show_results(self.number - 1)
        elif button == "< prev" and self.page == "item":
            self._show_results(self.number)
        elif button == "< prev":
            self.page = "item"
        elif button in _SUB_PAGES:
            self.page = button
        elif self.page == "results":
            self.page, self.product = "item", next(p for p in self._shown if p.asin.lower() == button)
        else:
            # Of a value that two options share, the later option is the one clicked.
            self.chosen[next(n for n, vs in reversed(self.product.options.items()) if button in vs)] = button

    def _show_results(self, number: int) -> None:
        self.page, self.number, self.product, self.chosen = "results", number, None, {}

    @property
    def _shown(self) -> list[Product]:
        return self.hits[(self.number - 1) * PAGE : self.number * PAGE]

    @property
    def has_search_bar(self) -> bool:
        return self.page == "search"

    @property
    def clickables(self) -> list[str]:
        """What ``click[...]`` takes here, in page order; the search button, which only submits the bar, included."""
        return list(self._buttons())

    def _buttons(self) -> Mapping[str, None]:
        if self.page == "search":
            names = ["search"]
        elif self.page == "results":
            names = [
                "back to search",
                *["< prev"] * (self.number > 1),
                "next >",
                *(p.asin.lower() for p in self._shown),
            ]
        elif self.page == "item":
            values = (value for values in self.product.options.values() for value in values)
            names = ["back to search", "< prev", *_SUB_PAGES, "buy now", *values]
        else:
            names = [] if self.page == "done" else ["back to search", "< prev"]
        return dict.fromkeys(names)

    def text(self, score: float | None = None) -> str:
        """The page as the official environment prints it. The last page shows the score."""
        if self.page == "done":
            return SEPARATOR.join(_receipt(self.product.asin, self.chosen, score))
        head = ["WebShop"] if self.page == "search" else []
        return SEPARATOR.join([*head, "Instruction:", self.instruction.strip(), *self.body])

    @property
    def body(self) -> list[str]:
        """The texts of the page after the instruction; empty ones are not there."""
        if self.page == "search":
            return ["Search"]
        if self.page == "results":
            back = ["Back to Search", f"Page {self.number} (Total results: {len(self.hits)})"]
            listed = [text for p in self._shown for text in (p.asin, p.title, p.price_tag)]
            return _visible([*back, *["< Prev"] * (self.number > 1), "Next >", *listed])
        product = self.product
        if self.page == "item":
            options = [text for name, values in product.options.items() for text in (name, *values)]
            facts = [product.title, f"Price: {product.price_tag}", "Rating: N.A."]
            buttons = ["Description", "Features", "Reviews", "Buy Now"]
            return _visible(["Back to Search", "< Prev", *options, *facts, *buttons])
        told = {"description": [product.description], "features": product.features, "reviews": []}[self.page]
        return _visible(["Back to Search", "< Prev", *told])


def _visible(texts: list[str]) -> list[str]:
    return [stripped for text in texts if (stripped := text.strip())]


def _receipt(asin: str, chosen: Mapping[str, str], score: float | None) -> list[str]:
    """The last page, most of it hidden form fields that the text mode prints all the same."""
    bought = ["asin", asin, "options", _for_html(chosen), "attrs", "None", "category", "None", "query", "None"]
    target = "asin;options;attrs;price upper;instuction text;category;product category;query".split(";")
    return [
        *("Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)"),
        *("Purchased", *bought, "product category", "None", "Target", *target, "Goal", "None"),
        *("Reward", "Your score (min 0.0, max 1.0)", str(score), "Reward Details", "None"),
    ]


def _for_html(chosen: Mapping[str, str]) -> str:
    """JSON as the web framework puts it into a page: keys sorted, markup characters as escapes."""
    text = json.dumps(chosen, sort_keys=True)
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
