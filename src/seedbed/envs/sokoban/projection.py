"""Which direction does a response name?"""

from __future__ import annotations

import re

from seedbed.envs.project import project_tag
from seedbed.envs.sokoban.levels import DIRECTIONS
from seedbed.types import Action

STILL = "still"  #: to stay is an action too, though no prompt offers it (official code)
_WORD = re.compile(rf"\b(?:{'|'.join((*DIRECTIONS, STILL))})\b")
_LOOSE = re.compile(r"[\s\u4e00-\u9fff]+")


def project_direction(response: str, require_think: bool, strict_format: bool = True) -> Action:
    """The first word in the ``<action>`` block that is a direction or "still"; invalid, and "still", without one.

    Otherwise valid as in ``project_tag``, but line breaks and Chinese reasoning are no mistake (official code).
    ``strict_format`` also refuses a block that names several. Official: the direction that comes first in the order up,
    down, left, right as any part of a word.
    """
    block = project_tag(_LOOSE.sub(" ", response), require_think, fallback_chars=1, strict_format=strict_format)
    words = _WORD.findall(block.text)  # without a block it is one character: no word
    several = strict_format and len(set(words)) > 1
    return Action(words[0], block.valid and not several) if words else Action(STILL, False)
