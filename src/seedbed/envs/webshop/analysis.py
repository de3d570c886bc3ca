"""Which index terms does a text have? Lucene's standard tokeniser, English stop words and Porter stems.

This is what Anserini does with documents and queries: words by Unicode's UAX #29, a possessive 's cut off, lower case,
33 stop words dropped, the rest stemmed. Checked against the term vectors of a real index.
"""

from __future__ import annotations

import re
from functools import lru_cache

import regex

from seedbed.envs.webshop.porter import stem

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this"
    " to was will with".split()
)
_LONGEST = 255  #: longer words are cut into pieces of this many UTF-16 units

#: Words of an ASCII text: the rules below, with what cannot occur left out.
_ASCII = re.compile(
    "_*[a-zA-Z0-9][a-zA-Z0-9_]*"
    "(?:(?:(?<=[a-zA-Z])[:.'](?=[a-zA-Z])|(?<=[0-9])[,;.'](?=[0-9]))[a-zA-Z0-9][a-zA-Z0-9_]*)*"
)

#: A stretch between blanks that holds more than ASCII. No word reaches over a blank, so the slow pattern below is
#: needed for these alone.
_FOREIGN = re.compile(r"(?<![^ \n\t])[^ \n\t\x80-\U0010ffff]*[^\x00-\x7f][^ \n\t]*")

_EXTRA = r"[\p{WB=Format}\p{WB=Extend}\p{WB=ZWJ}]*"  # marks that follow a character belong to it


def _with_marks(characters: str) -> str:
    return f"(?:{characters}{_EXTRA})"


_LETTER = _with_marks(r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]")
_DIGIT = _with_marks(r"[\p{WB=Numeric}\uFF10-\uFF19]")
_KATAKANA = _with_marks(r"\p{WB=Katakana}")
_JOINER = _with_marks(r"\p{WB=ExtendNumLet}")
_IN_WORD = _with_marks(r"[:\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}]")
_IN_NUMBER = _with_marks(r"[\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}]")
_RUN = f"(?:{_LETTER}(?:(?:{_JOINER}*|{_IN_WORD}){_LETTER})*|{_DIGIT}(?:(?:{_JOINER}*|{_IN_NUMBER}){_DIGIT})*)+"
_PIECE = f"(?:{_KATAKANA}(?:{_JOINER}*{_KATAKANA})*|{_RUN})"
# Pictographs of the Unicode version that Lucene uses; later versions took these out.
_OLD_PICTURES = r"\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2763-\u2767"
_PICTURE = _with_marks(rf"[\p{{Extended_Pictographic}}{_OLD_PICTURES}]")
_WORDS = regex.compile(
    f"(?:{_PICTURE}(?:(?<=\u200d){_PICTURE})*"
    rf"|[\U0001F1E6-\U0001F1FF]{{2}}{_EXTRA}"
    rf"|\p{{Script=Han}}{_EXTRA}"
    rf"|\p{{Script=Hiragana}}{_EXTRA}"
    rf"|(?:\p{{LB=Complex_Context}}{_EXTRA})+"
    f"|{_JOINER}*{_PIECE}(?:{_JOINER}+{_PIECE})*{_JOINER}*)",
    regex.V1,
)


def words(text: str) -> list[str]:
    """The words of a text as they stand, before any change."""
    if text.isascii():
        return _ASCII.findall(text)
    found: list[str] = []
    position = 0
    for stretch in _FOREIGN.finditer(text):
        found += _ASCII.findall(text, position, stretch.start())
        found += _WORDS.findall(stretch.group())
        position = stretch.end()
    return found + _ASCII.findall(text, position)


def terms(text: str) -> list[str]:
    """The index terms of a text in order, repeats included."""
    return [term for word in words(text) if (term := _term(word))]


@lru_cache(maxsize=1 << 14)
def _term(word: str) -> str:
    """The empty string for a stop word."""
    plain = word.lower()
    if len(plain) >= 2 and plain[-1] == "s" and plain[-2] in "'\u2019\uff07":
        plain = plain[:-2]
    return "" if plain in STOP_WORDS else stem(plain)
