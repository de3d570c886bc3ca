"""Is an answer right? Exact match after SQuAD's normalisation; F1 and containment under their own names.

Source: the paper's code (golden ``search_reward.json``); F1 is SQuAD's, which the paper's code does not have.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seedbed.envs.search.tags import blocks

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """Each in [0, 1], the best over the gold answers. ``exact_match <= f1`` and ``exact_match <= containment``."""

    exact_match: float  #: the only one that is rewarded
    f1: float  #: of the words
    containment: float  #: a gold answer occurs in the answer, also inside a word


def last_answer(text: str) -> str | None:
    """The last ``<answer>`` block outside the reasoning, None without one. The caller passes the policy's own text."""
    found, _ = blocks(text)
    return next((b.inside for b in reversed(found) if b.name == "answer" and b.exact), None)


def score_answer(answer: str | None, golds: str | Sequence[str]) -> AnswerScores:
    """Scores against one or more gold answers; no answer, or one without a character, scores 0."""
    said = _key(answer or "")
    wanted = [key for gold in ([golds] if isinstance(golds, str) else golds) if (key := _key(gold))]
    if not said or not wanted:
        return AnswerScores(0.0, 0.0, 0.0)
    return AnswerScores(
        exact_match=float(said in wanted),
        f1=max(_f1(said.split(), gold.split()) for gold in wanted),
        containment=float(any(gold in said for gold in wanted)),
    )


def normalise_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, without the words a, an, the, white space squeezed."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _key(text: str) -> str:
    """What is compared. Where normalisation leaves nothing ("The The", "!!!") the text itself is, in lower case."""
    return normalise_answer(text) or " ".join(text.lower().split())


def _f1(said: list[str], gold: list[str]) -> float:
    common = sum((Counter(said) & Counter(gold)).values())
    return 2 * common / (len(said) + len(gold))
