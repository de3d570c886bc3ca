"""What would a catalogue of any size look like? Made-up products in the published file form, for ``seedbed bench``.

Phrases of the products at hand are put together anew, category by category, so that lengths, common words and options
are theirs. Words that only one of them has become invented ones, some frequent and most seen once, so that the number
of different words grows with the catalogue as in real text. Source: ours.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from seedbed.envs.webshop.analysis import words

FILES = ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json")
_CLAUSES, _SENTENCES = re.compile(r"(?<=[,|;]) | (?=[-–] )"), re.compile(r"(?<=[.!?]) ")
_SYLLABLES = [c + v for c in "bcdfghjklmnprstvz" for v in "aeiou"]
#: The k-th invented word has a share of about (k + HEAD) ** -(1 + DECAY). So 1.18 million products have 1.3 million
#: different words, where a power law (Heaps') fitted to the published 1,000 says 0.8 million.
_HEAD, _DECAY = 1000, 0.4
_IDS = 36**8
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

Phrase = tuple[str, ...]  #: fixed text; an invented word goes into every gap


def write_catalogue(
    directory: Path,
    count: int,
    base: Sequence[Mapping[str, Any]],
    attributes: Mapping[str, Any],
    human: Mapping[str, Any],
    seed: int = 0,
) -> Iterator[int]:
    """Write the three files of a catalogue of ``count`` products like ``base``; yields how many are written.

    A pure function of the arguments. Nothing but the product at hand is held in memory.
    """
    items, instructions, people = [(directory / name).open("w", encoding="ascii") for name in FILES]
    with items, instructions, people:
        items.write("[")
        instructions.write("{")
        people.write("{")
        asked = False
        for number, (item, known, rows) in enumerate(Maker(base, attributes, human, seed).products(count)):
            asin = json.dumps(item["asin"])
            items.write(", " * (number > 0) + json.dumps(item))
            instructions.write(", " * (number > 0) + f"{asin}: {json.dumps(known)}")
            if rows:
                people.write(", " * asked + f"{asin}: {json.dumps(rows)}")
                asked = True
            yield number + 1
        items.write("]")
        instructions.write("}")
        people.write("}")


class Maker:
    """Draws products. ``attributes`` and ``human`` are by id, as in the published files."""

    def __init__(
        self,
        base: Sequence[Mapping[str, Any]],
        attributes: Mapping[str, Any],
        human: Mapping[str, Any],
        seed: int,
    ) -> None:
        self._random = Random(seed)
        self._base = list(base)
        self._known, self._human = attributes, human
        self._cut = _Cutter(self._base)
        self._of: dict[str, list[Mapping[str, Any]]] = defaultdict(list)  # category -> products
        self._clauses: dict[str, list[Phrase]] = defaultdict(list)  # category -> phrases
        self._sentences: dict[str, list[Phrase]] = defaultdict(list)
        self._bullets: dict[str, list[Phrase]] = defaultdict(list)
        for item in self._base:
            of = item["category"]
            self._of[of].append(item)
            self._clauses[of] += map(self._cut.phrase, _CLAUSES.split(item["name"]))
            self._sentences[of] += map(self._cut.phrase, _sentences(item))
            self._bullets[of] += map(self._cut.phrase, _bullets(item))

    def products(self, count: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
        """(item record, attribute record, human instructions) of each."""
        for number in range(count):
            like = self._random.choice(self._base)
            asin = like["asin"]
            item = self._item(number, like)
            known = self._known.get(self._random.choice(self._of[like["category"]])["asin"], {})
            told = self._known.get(asin, {})
            instruction = {k: told[k] for k in ("instruction", "instruction_attributes") if k in told}
            yield item, {"attributes": known.get("attributes", []), **instruction}, self._human.get(asin, [])

    def _item(self, number: int, like: Mapping[str, Any]) -> dict[str, Any]:
        of, choice = like["category"], self._random.choice
        bullets = [self._filled(choice(self._bullets[of])) for _ in _bullets(like)]
        return {
            "name": " ".join(self._filled(choice(self._clauses[of])) for _ in _CLAUSES.split(like["name"])),
            # Fields that the shop drops, so that reading costs what it costs with the published file.
            "product_information": {
                "Product Dimensions": "6.1 x 3.2 x 1.8 inches; 7.8 Ounces",
                "Item model number": invented(number),
                "UPC": f"{number:012d}",
                "Manufacturer": self._word(),
                "ASIN": _asin(number),
                "Best Sellers Rank": f"#{number + 1:,} in {like['product_category']}",
                "Customer Reviews": {"ratings_count": None, "stars": "4.2 out of 5 stars"},
            },
            "brand": f"Visit the {self._word()} Store",
            "brand_url": f"https://example.org/stores/{invented(number)}",
            "full_description": " ".join(self._filled(choice(self._sentences[of])) for _ in _sentences(like)),
            "pricing": choice(self._of[of])["pricing"],
            "list_price": "",
            "availability_status": "In Stock.",
            "images": list(like.get("images") or []),
            "product_category": like["product_category"],
            "average_rating": like.get("average_rating", ""),
            "small_description": bullets,
            "small_description_old": "About this item " + " ".join(bullets),
            "total_reviews": "",
            "total_answered_questions": "",
            "seller_id": "",
            "seller_name": "",
            "customization_options": self._options(choice(self._of[of])),
            "asin": _asin(number),
            "category": of,
            "query": like["query"],
            "page": like.get("page", 1),
        }

    def _options(self, like: Mapping[str, Any]) -> dict[str, Any] | str:
        given = like.get("customization_options") or ""
        return given and {
            name: rows and [{**row, "value": self._filled(self._cut.phrase(str(row.get("value"))))} for row in rows]
            for name, rows in given.items()
        }

    def _filled(self, phrase: Phrase) -> str:
        first, *rest = phrase
        return first + "".join(f"{self._word()}{text}" for text in rest)

    def _word(self) -> str:
        share = 1 - self._random.random()  # in (0, 1]
        return invented(int(_HEAD * (share ** (-1 / _DECAY) - 1)))


class _Cutter:
    """Cuts the words out of a text that only one product has."""

    def __init__(self, base: Iterable[Mapping[str, Any]]) -> None:
        have = Counter(word for item in base for word in {w.lower() for text in _texts(item) for w in words(text)})
        self._shared = {word for word, products in have.items() if products > 1}
        self._known: dict[str, Phrase] = {}

    def phrase(self, text: str) -> Phrase:
        if text not in self._known:
            pieces, rest = [], text
            for word in words(text):
                if word.lower() not in self._shared:
                    before, _, rest = rest.partition(word)
                    pieces.append(before)
            self._known[text] = (*pieces, rest)
        return self._known[text]


def invented(number: int) -> str:
    """A pronounceable word, a different one for every number."""
    word = ""
    while number or not word:
        number, syllable = divmod(number, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
    return word


def invented_base(seed: int = 0, count: int = 1000) -> list[dict[str, Any]]:
    """Products to start from where there are none, of the lengths that the published 1,000 have on average."""
    random = Random(seed)

    def text(mean: float) -> str:
        ranks = (int(min(random.paretovariate(0.3), 2e4)) for _ in range(1 + int(random.expovariate(1 / mean))))
        return " ".join(map(invented, ranks))

    return [
        {
            "name": ", ".join(text(5) for _ in range(3)),
            "full_description": " ".join(f"{text(15)}." for _ in range(random.randint(0, 9))),
            "small_description": [text(26) for _ in range(random.randint(2, 7))],
            "pricing": f"${random.uniform(5, 200):.2f}" * random.choice((1, 1, 1, 2)),
            "product_category": f"Shop › {text(1)} › {text(1)}",
            "customization_options": {"size": [{"value": text(1)} for _ in range(9)]} if random.random() < 0.4 else "",
            "asin": _asin(number),
            "category": ("beauty", "electronics", "fashion", "garden", "grocery")[number % 5],
            "query": text(1),
        }
        for number in range(count)
    ]


def invented_instructions(base: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Attribute records for ``invented_base``: every second product is asked for by words of its title."""
    return {
        item["asin"]: {
            "attributes": [item["query"]],
            "instruction": f"Find me {' '.join(item['name'].split()[:6])}",
            "instruction_attributes": [item["query"]],
        }
        for item in list(base)[::2]
    }


def _asin(number: int) -> str:
    """Ids without order, as the published ones have none. Odd and no multiple of three: every number another id."""
    left, digits = (number * 1_234_567_890_121 + 987_654_321) % _IDS, ""
    for _ in range(8):
        left, digit = divmod(left, 36)
        digits += _DIGITS[digit]
    return f"B0{digits}"


def _bullets(item: Mapping[str, Any]) -> list[str]:
    given = item.get("small_description")
    return [str(text) for text in given if text is not None] if isinstance(given, list) else [str(given or "")]


def _sentences(item: Mapping[str, Any]) -> list[str]:
    return _SENTENCES.split(item.get("full_description") or "")


def _texts(item: Mapping[str, Any]) -> Iterator[str]:
    yield item["name"]
    yield from _sentences(item)
    yield from _bullets(item)
    for rows in (item.get("customization_options") or {}).values():
        yield from (str(row.get("value")) for row in rows or ())
