"""Two plain answerers of questions, one by chance and one by rule. They have the prompt and nothing else.

The rule searches for the question as it is and answers with the first thing of the asked sort (a year, a number, a
name) out of the found sentence that shares most words with the question.
"""

from __future__ import annotations

import random
import re

from seedbed.envs.search.bm25 import words
from seedbed.envs.search.tags import restore
from seedbed.prompts.read import Shown

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_YEAR = r"\b1\d{3}\b|\b20\d{2}\b"
_DATE = rf"\b(?:\d{{1,2}} (?:{_MONTHS})|(?:{_MONTHS}) \d{{1,2}},?) (?:{_YEAR})|{_YEAR}"
_NUMBER = r"\b\d[\d,.]*\d\b|\b\d\b"
_NAME = r"\b[A-Z][\w'-]+(?: (?:(?:of|the|de|van|von|and) )?[A-Z][\w'.-]+)*"
_SORTS = (  #: what a question asks for -> how that looks; the first that fits counts
    (r"\b(?:what|which) year\b|^in what year|\bwhat years\b", _YEAR),
    (r"^when\b|\bwhen (?:did|was|is|were)\b|\bdate\b", _DATE),
    (r"\bhow (?:many|much|old|long|far|tall|high)\b|\bpercent", _NUMBER),
    (r"", _NAME),
)
_NO_NAMES = set(_MONTHS.lower().split("|")) | set(
    "he she his her they we i you its one after while when during since many also".split()
)
_YES_OR_NO = re.compile(r"^(?:is|are|was|were|do|does|did|has|have|had|can|could)\b", re.IGNORECASE)
_EITHER = re.compile(r", (?P<one>[^,?]+(?:, [^,?]+)?),? or (?P<other>[^?]+)\?*$")
_PASSAGE = re.compile(r"^Doc \d+: \"?(?P<title>[^\n\"]*)\"?\n(?P<text>.*?)(?=^Doc \d+: |\Z)", re.MULTILINE | re.DOTALL)


def chance(shown: Shown, seed: int) -> str:
    """A search or an answer, each as likely: up to four words of the question, or one to three words out of a text."""
    rng = random.Random(seed)
    asked = re.findall(r"\w+", shown.goal) or ["?"]
    if rng.random() < 0.5:
        return _say("By chance.", "search", " ".join(rng.sample(asked, min(len(asked), rng.randint(1, 4)))))
    text = re.findall(r"\w+", " ".join(body for _, body in _passages(shown))) or asked
    first = rng.randrange(len(text))
    return _say("By chance.", "answer", " ".join(text[first : first + rng.randint(1, 3)]))


def scripted(shown: Shown, seed: int) -> str:
    """One search for the question, then the answer."""
    if not shown.turn:
        return _say("By rule.", "search", shown.goal)
    return _say("By rule.", "answer", answer(shown.goal, _passages(shown)))


def answer(question: str, passages: list[tuple[str, str]]) -> str:
    """``passages`` are (title, text), best first."""
    if either := _EITHER.search(question):
        return either["one"].strip()
    if _YES_OR_NO.match(question):
        return "yes"
    looks = next(pattern for asks, pattern in _SORTS if re.search(asks, question.lower()))
    asked = set(words(question))
    sentences = [s for title, text in passages for s in (title, *re.split(r"(?<=[.!?])\s+", text))]
    sentences.sort(key=lambda s: -len(asked & set(words(s))))  # stable: the better passage first
    for sentence in sentences:
        for found in re.finditer(looks, sentence):
            said = set(words(found[0]))
            if not said & asked and not said <= _NO_NAMES:
                return found[0].rstrip(".,")
    return passages[0][0] if passages else "unknown"


def _passages(shown: Shown) -> list[tuple[str, str]]:
    """Of the newest search."""
    found = restore(shown.observation.strip().removeprefix("<information>").removesuffix("</information>"))
    return [(passage["title"], passage["text"].strip()) for passage in _PASSAGE.finditer(found)]


def _say(thought: str, tag: str, text: str) -> str:
    plain = " ".join(re.sub(r"[<>]", " ", text).split()) or "?"
    return f"<think>{thought}</think><{tag}>{plain}</{tag}>"
