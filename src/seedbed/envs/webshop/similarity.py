"""How alike are two phrases as sets of words? The ratio that decides whether an attribute or option was met.

Numbers are those of ``fuzz.token_set_ratio`` of thefuzz 0.22.1 (and 0.19.0 on all known vectors): an integer from 0 to
100, 100 if all words of one phrase are among the other's.
"""

from __future__ import annotations

import re

_NO_WORD = re.compile(r"[\W_]")
_LATIN_1 = dict.fromkeys(range(128, 256))  # dropped by the original before words are told apart


def token_set_ratio(left: str, right: str) -> int:
    """0 if either phrase has no word. Symmetric."""
    a, b = _words(left), _words(right)
    if not a or not b:
        return 0
    common = a & b
    if common and (a <= b or b <= a):
        return 100
    shared = len(" ".join(common))
    only_a, only_b = " ".join(sorted(a - b)), " ".join(sorted(b - a))
    space = bool(shared)
    size_a, size_b = shared + space + len(only_a), shared + space + len(only_b)
    unlike = len(only_a) + len(only_b) - 2 * _common_subsequence(only_a, only_b)
    ratios = [_ratio(unlike, size_a + size_b)]
    if shared:
        ratios += [_ratio(1 + len(only_a), shared + size_a), _ratio(1 + len(only_b), shared + size_b)]
    return round(max(ratios))


def _words(text: str) -> set[str]:
    return set(_NO_WORD.sub(" ", text.translate(_LATIN_1)).lower().split())


def _ratio(distance: int, length: int) -> float:
    return 100 - 100 * distance / length


def _common_subsequence(a: str, b: str) -> int:
    """Length of the longest common subsequence, a row of the table held in the bits of one integer (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for place, letter in enumerate(a):
        places[letter] = places.get(letter, 0) | 1 << place
    full = (1 << len(a)) - 1
    row = full
    for letter in b:
        match = row & places.get(letter, 0)
        row = (row + match | row - match) & full
    return len(a) - row.bit_count()
