"""Which words of a product title are nouns? The same on every machine, without a language model.

The official reward asks spaCy. For the titles of the 1,000-product catalogue its answer (spaCy 3.8.18, en_core_web_sm
3.8.0) is stored as character spans under a hash of the title. Any other title is read by a linear classifier that was
fitted to spaCy's answers; ``docs/differences.md`` has the agreement. ``scripts/webshop_nouns.py`` makes the file.
"""

from __future__ import annotations

import json
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

FILE = Path(__file__).with_name("nouns.json")
_WORDS = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+|\S")


def nouns(title: str) -> tuple[str, ...]:
    """Nouns and proper nouns of a title in order, lower case, repeats included."""
    weights, titles = _stored()
    if (spans := titles.get(title_key(title))) is not None:
        return tuple(title[start:end].lower() for start, end in zip(spans[::2], spans[1::2], strict=True))
    words = [word for word, _, _ in split(title)]
    return tuple(
        word.lower()
        for word, marks in zip(words, features(words), strict=True)
        if any(map(str.isalnum, word)) and sum(weights.get(mark, 0) for mark in marks) > 0
    )


def title_key(title: str) -> str:
    return sha256(title.encode("utf-8", "replace")).hexdigest()[:12]


def split(title: str) -> list[tuple[str, int, int]]:
    """(word, start, end) of the pieces that the classifier tells apart, punctuation included."""
    return [(found.group(), *found.span()) for found in _WORDS.finditer(title)]


def features(words: list[str]) -> list[list[str]]:
    """What the classifier looks at in each word: itself, its ending and shape, and its two neighbours."""
    padded = ["<", *words, ">"]
    out = []
    for before, word, after in zip(padded, words, padded[2:], strict=False):
        low, last, following = word.lower(), before.lower(), after.lower()
        shapes = _shape(word) + _shape(before) + _shape(after)
        out.append(
            ["b", "w" + low, "s" + low[-3:], "t" + low[-2:] + _shape(word), "h" + shapes]
            + ["p" + last, "r" + last[-2:], "n" + following, "q" + following[-3:]]
        )
    return out


def _shape(word: str) -> str:
    letters, digits = any(map(str.isalpha, word)), any(map(str.isdigit, word))
    if not letters:
        return "d" if digits else "p"
    case = "U" if word.isupper() else "C" if word[0].isupper() else "l" if word.islower() else "x"
    return case + "9" * digits


@cache
def _stored() -> tuple[dict[str, int], dict[str, list[int]]]:
    """(weights by feature, flat spans by title key)."""
    content = json.loads(FILE.read_text())
    return content["weights"], content["titles"]
