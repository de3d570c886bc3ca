"""Is a text a workflow to repeat or a mistake to avoid? Judged from its words alone, not from the episode it is about.

A skill's ``kind`` comes from the outcome; whether the written advice is of that kind is another question. The rule
(ours): a text warns if its first sentence or at least half of its sentences hold a word of warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from seedbed.types import Skill

_WARNING = re.compile(
    r"\b(?:avoid\w*|never|(?:do|does|did|must|should|can|could|would)(?: not|n't)|cannot|refrain\w*|beware"
    r"|mistake\w*|error\w*|pitfall\w*|wrong\w*|fail(?:s|ed|ing|ures?)?|instead|rather than)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?;\n]+(?:\s|$)")


def text_kind(text: str) -> Literal["workflow", "avoidance"]:
    """The kind of advice ``text`` gives."""
    sentences = [s for s in _SENTENCE.split(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")) if s.strip()]
    warns = [bool(_WARNING.search(s)) for s in sentences]
    return "avoidance" if warns and (warns[0] or 2 * sum(warns) >= len(warns)) else "workflow"


def kind_agreement(skills: Iterable[Skill]) -> float | None:
    """Share of the valid skills whose text is of the kind that the outcome calls for; None without a valid one."""
    agree = [text_kind(skill.text) == skill.kind for skill in skills if skill.valid]
    return sum(agree) / len(agree) if agree else None
