"""What is the stem of an English word? Porter's algorithm in its author's later form, as in Lucene.

The later form differs from the 1980 paper in three points: words of one or two letters are left alone, ``-bli`` takes
the place of ``-abli``, and there is a rule for ``-logi``. Source: M. F. Porter, "An algorithm for suffix stripping",
and the notes on departures on his page.
"""

from __future__ import annotations

import re
from itertools import pairwise

_VOWELS = frozenset("aeiou")
_SEQUENCE = re.compile("[aeiou][^aeiou]")

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = dict.fromkeys(
    "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split(), ""
)  # ``ion`` only after s or t


def _by_last_two(endings: dict[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Last two letters -> (ending, what takes its place), longest first: most words are done after one look."""
    table: dict[str, list[tuple[str, str]]] = {}
    for ending in sorted(endings, key=len, reverse=True):
        table.setdefault(ending[-2:], []).append((ending, endings[ending]))
    return table


_SWAPS_2, _SWAPS_3, _SWAPS_4 = map(_by_last_two, (_STEP_2, _STEP_3, _STEP_4))


def stem(word: str) -> str:
    """The stem of a lower-case word. Words with other characters are treated as if those were consonants."""
    if len(word) <= 2:
        return word
    word = _step_1(word)
    word = _swap(word, _SWAPS_2, 0)
    word = _swap(word, _SWAPS_3, 0)
    word = _swap(word, _SWAPS_4, 1)
    return _step_5(word)


def _consonants(word: str) -> list[bool]:
    """Per letter whether it acts as a consonant; y does at the start and after a vowel."""
    flags: list[bool] = []
    for letter in word:
        if letter == "y":
            flags.append(not flags or not flags[-1])
        else:
            flags.append(letter not in _VOWELS)
    return flags


def _measure(word: str) -> int:
    """The number of vowel-consonant sequences."""
    if "y" not in word:
        return len(_SEQUENCE.findall(word))
    flags = _consonants(word)
    return sum(now and not before for before, now in pairwise(flags))


def _has_vowel(word: str) -> bool:
    return not all(_consonants(word))


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _short_ending(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y."""
    return len(word) > 2 and _consonants(word)[-3:] == [True, False, True] and word[-1] not in "wxy"


def _step_1(word: str) -> str:
    """Plurals, past and present participles, and y after a vowel."""
    if word.endswith("s"):
        if word.endswith(("sses", "ies")):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for ending in ("ed", "ing"):
            if word.endswith(ending):
                if _has_vowel(root := word[: -len(ending)]):
                    word = _mended(root)
                break
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def _mended(root: str) -> str:
    """A root after its -ed or -ing was taken off."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _doubled(root):
        return root if root[-1] in "lsz" else root[:-1]
    return root + "e" if _measure(root) == 1 and _short_ending(root) else root


def _swap(word: str, swaps: dict[str, list[tuple[str, str]]], least: int) -> str:
    """The longest ending that fits, replaced if what is before it has a measure over ``least``."""
    for ending, other in swaps.get(word[-2:], ()):
        if word.endswith(ending):
            root = word[: -len(ending)]
            allowed = ending != "ion" or root.endswith(("s", "t"))
            return root + other if allowed and _measure(root) > least else word
    return word


def _step_5(word: str) -> str:
    """A final e, and a doubled l."""
    if word.endswith("e"):
        root = word[:-1]
        size = _measure(root)
        if size > 1 or (size == 1 and not _short_ending(root)):
            word = root
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
