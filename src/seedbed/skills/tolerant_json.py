"""Which complete objects does a model's answer hold outside its reasoning?

Reads JSON as models write it: Python spellings, raw line breaks in strings and trailing commas are understood and
recorded, nothing is guessed, and a cut value is never completed. No recursion; the work is bounded whatever the
input. Source: the official parser's behaviour (golden ``analyzer_parse.json``); the reader is ours.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 64  #: objects and arrays inside each other
MAX_WORK = 1_500  #: tokens read in all, retries included, so that no input takes long; a typical answer has ten

_MARK = re.compile(r"(?P<reason></?think(?:ing)?>)|\{(?=\s*(?:[\"'}]|$))", re.IGNORECASE)
_END_OF_REASONING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_TOKEN = re.compile(
    r"""\s*+(?:(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+')"""
    r"""|(?P<open>["'])|(?P<mark>[{}\[\]:,])|(?P<word>-?[\w.+-]+)|(?P<end>\Z))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_PLAIN = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "0": "\0",
    "\n": "",
    "\\": "\\",
    "/": "/",
    '"': '"',
    "'": "'",
}
_JSON_WORDS = {
    "null": None,
    "true": True,
    "false": False,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_PYTHON_WORDS = {"None": None, "True": True, "False": False}


@dataclass(frozen=True, slots=True)
class Found:
    """One complete top-level object: ``text[start:end]`` read as ``value``, with what had to be tolerated."""

    value: dict[str, Any]
    start: int
    end: int
    repairs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """All objects outside reasoning, in text order, and the stretch of text that is the answer."""

    found: tuple[Found, ...]
    answer_start: int  #: where the last reasoning block ended
    answer_end: int  #: where an unclosed reasoning block began, or the end of the text
    cut: bool  #: an object was still open at the end of the text
    reasoned: bool  #: some text was taken as reasoning


def read_objects(text: str) -> Reading:
    """Complete objects of ``text`` outside ``<think>`` blocks. Never raises.

    A closing tag without an opening one ends reasoning that a template opened: objects before it are dropped. Tags
    inside the strings of a complete object are text. Where an object does not parse, reading starts again at its next
    brace, so a good object inside or after a bad one is found.
    """
    found: list[Found] = []
    position = answer_start = 0
    answer_end, cut, reasoned, work = len(text), False, False, MAX_WORK
    while work > 0 and (mark := _MARK.search(text, position)):
        tag = (mark["reason"] or "").lower()
        if tag.startswith("</"):
            found.clear()
            cut, reasoned, position, answer_start = False, True, mark.end(), mark.end()
        elif tag:
            reasoned, closing = True, _END_OF_REASONING.search(text, mark.end())
            if not closing:
                answer_end = mark.start()
                break
            position = closing.end()
            if not found:
                answer_start = position
        else:
            attempt = _Attempt(text, mark.start(), work)
            item = attempt.run()
            work -= attempt.work
            cut |= attempt.at_end
            found += [item] if item else []
            position = item.end if item else mark.start() + 1
    return Reading(tuple(found), answer_start, answer_end, cut, reasoned)


class _Attempt:
    """One try to read an object that starts at ``start``: a push-down reader with an explicit stack."""

    def __init__(self, text: str, start: int, budget: int) -> None:
        self.text, self.start, self.budget = text, start, budget
        self.work = 0
        self.at_end = False  #: the text ended inside the object
        self.repairs: list[str] = []

    def run(self) -> Found | None:
        stack: list[dict[str, Any] | list[Any]] = []
        keys: list[str | None] = []  # the key waiting for its value, per open container
        expect = "value"  # value | first (value or closer) | key | colon | next (comma or closer)
        position = self.start
        while self.work < self.budget:
            token = _TOKEN.match(self.text, position)
            if token is None:
                return None
            self.work += 1 + (token.end() - position) // 64
            position = token.end()
            kind, mark = token.lastgroup, token["mark"]
            if kind in ("open", "end"):
                self.work += (len(self.text) - position) // 64  # the search for the closing quote read all of it
                self.at_end = True
                return None
            if mark and mark in "}]":
                if expect == "value" or expect == "colon" or (mark == "}") != isinstance(stack[-1], dict):
                    return None
                if (expect == "key" and stack[-1]) or expect == "item":
                    self.repairs.append("trailing_comma")
                value: Any = stack.pop()
                keys.pop()
                if not stack:
                    return Found(value, self.start, position, tuple(self.repairs))
            elif mark and mark in "{[":
                if expect not in ("value", "item", "first") or len(stack) == MAX_DEPTH:
                    return None
                stack.append({} if mark == "{" else [])
                keys.append(None)
                expect = "key" if mark == "{" else "first"
                continue
            elif mark == ":":
                if expect != "colon":
                    return None
                expect = "value"
                continue
            elif mark == ",":
                if expect != "next":
                    return None
                expect = "key" if isinstance(stack[-1], dict) else "item"
                continue
            else:
                value, known = self._scalar(token)
                if not known or expect in ("colon", "next"):
                    return None
                if expect == "key":
                    if kind == "word" and token["word"].isdecimal():  # Python's {1: "..."}
                        value = token["word"]
                        self._note("python_literal")
                    elif kind != "string":
                        return None
                    keys[-1], expect = value, "colon"
                    continue
            if isinstance(stack[-1], dict):
                stack[-1][keys[-1]] = value
            else:
                stack[-1].append(value)
            expect = "next"
        return None

    def _scalar(self, token: re.Match[str]) -> tuple[Any, bool]:
        """The value of a string, number or word token, and whether it is one."""
        if token["string"]:
            return self._string(token["string"]), True
        word = token["word"]
        if word in _JSON_WORDS:
            return _JSON_WORDS[word], True
        if word in _PYTHON_WORDS:
            self._note("python_literal")
            return _PYTHON_WORDS[word], True
        for number in (int, float):
            try:
                return number(word), True
            except ValueError:
                continue
        return None, False

    def _string(self, quoted: str) -> str:
        if quoted[0] == "'":
            self._note("python_literal")
        else:
            try:
                return json.loads(quoted)
            except ValueError:
                self._note("loose_string")  # a raw line break, or an escape that JSON does not have
        return _ESCAPE.sub(_unescape, quoted[1:-1])

    def _note(self, repair: str) -> None:
        if repair not in self.repairs:
            self.repairs.append(repair)


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else match[0]
    return _PLAIN.get(match[4], match[0])
