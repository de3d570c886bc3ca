"""What is a product of the shop? Reading of the published item records, missing fields included.

Source: the official loader (WebShop at 64fa2a5c) for what is kept and how prices and options are read. Where it would
stop on a missing field, the field is empty here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

DEFAULT_PRICE = 100.0  #: of a product without a price
_NOT_PRICE = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class Product:
    """One product. ``attributes`` are the hidden ones the reward looks at; nothing shows them to the shopper."""

    number: int  #: place in the catalogue
    asin: str  #: its id, as shown
    title: str
    description: str
    features: tuple[str, ...]
    category: str  #: beauty, electronics, fashion, garden or grocery
    query: str  #: the search term it was collected under
    product_category: str  #: path of categories, separated by ›
    prices: tuple[float, ...]  #: one, or lowest and highest
    options: Mapping[str, tuple[str, ...]]  #: option name -> its values, lower case
    attributes: tuple[str, ...] = ()
    instruction: str = ""  #: base text of its synthetic goals; empty if it has none
    instruction_attributes: tuple[str, ...] = ()
    human: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()  #: (text, attributes, option values)

    @property
    def price_tag(self) -> str:
        return " to ".join(f"${price}" for price in self.prices)

    @property
    def search_text(self) -> str:
        """What the search engine indexes."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        return " ".join([self.title, self.description, self.features[0] if self.features else "", options]).lower()


def read_products(
    items: Iterable[Mapping[str, Any]], attributes: Mapping[str, Any], human: Mapping[str, Any]
) -> Iterator[Product]:
    """Products in file order; records without a usable id and repeated ids are left out.

    ``attributes`` and ``human`` are the contents of ``items_ins_v2`` and ``items_human_ins``, by id.
    """
    seen = set()
    for item in items:
        asin = _text(item.get("asin"))
        if asin in ("", "nan") or len(asin) > 10 or asin in seen:
            continue
        seen.add(asin)
        known = attributes.get(asin, {})
        features = item.get("small_description")
        yield Product(
            number=len(seen) - 1,
            asin=asin,
            title=_text(item.get("name")),
            description=_text(item.get("full_description")),
            features=_texts(features if isinstance(features, list) else [features]),
            category=_text(item.get("category")),
            query=_text(item.get("query")).lower().strip(),
            product_category=_text(item.get("product_category")),
            prices=_prices(_text(item.get("pricing"))),
            options=_options(item.get("customization_options") or {}),
            attributes=_texts(known.get("attributes", ["DUMMY_ATTR"])),
            instruction=_text(known.get("instruction")),
            instruction_attributes=_texts(known.get("instruction_attributes")),
            human=tuple(
                (
                    _text(row.get("instruction")),
                    _texts(row.get("instruction_attributes")),
                    _texts(row.get("instruction_options")),
                )
                for row in human.get(asin, ())
            ),
        )


def draw_prices(ranges: Iterable[tuple[float, ...]], random: Random) -> list[float]:
    """One price per product for the whole life of the shop: its own, or one between lowest and highest, drawn in order.

    What the buyer pays is never shown; the page shows the range.
    """
    return [prices[0] if len(prices) == 1 else random.uniform(*prices) for prices in ranges]


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _texts(values: Sequence[object] | None) -> tuple[str, ...]:
    return tuple(_text(value) for value in values or ())


def _prices(text: str) -> tuple[float, ...]:
    """``$19.99$27.99`` -> lowest and highest. A part that is no number is left out."""
    found = []
    for part in text.split("$")[1:]:
        digits = _NOT_PRICE.sub("", part)
        if digits.count(".") <= 1 and digits.strip("."):
            found.append(float(digits))
    return tuple(found[:2]) or (DEFAULT_PRICE,)


def _options(customization: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """A slash in a value would be read as a path by the original web shop, so it became a bar."""
    return {
        name.lower(): tuple(_text(row.get("value")).strip().replace("/", " | ").lower() for row in rows)
        for name, rows in customization.items()
        if rows is not None
    }
