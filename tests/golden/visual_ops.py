"""The operations of the golden vectors that belong to Sokoban and EZPoints, and what was decided where the official
reading is questionable. ``docs/differences.md`` gives the reasons.

Sokoban's readings are two keys of ``project_action_tag``, whose others are in ``text_ops.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seedbed.config import load_config
from seedbed.envs.ezpoints.game import TOKENS
from seedbed.envs.ezpoints.projection import project_json
from seedbed.envs.sokoban.projection import project_direction

Json = dict[str, Any]
MOVES = ("still", "up", "down", "left", "right")  #: the official numbers of the actions
SOKOBAN = {"sokoban": True, "sokoban_no_think": False}  #: key of the vectors -> is reasoning required


def directions(inputs: Json) -> Json:
    """The reading that is the environment's default."""
    got = {key: project_direction(inputs["raw"], think, strict_format=False) for key, think in SOKOBAN.items()}
    return {key: {"action": MOVES.index(action.text), "valid": action.valid} for key, action in got.items()}


def token(inputs: Json) -> Json:
    action = project_json(inputs["raw"])
    index = TOKENS.index(action.text) if action.text else -1
    return {"action_index": index, "action": action.text or None, "valid": action.valid}


def requires_think(inputs: Json) -> Json:
    """``rollout.think`` is the explicit setting; nothing else decides. The second official name is never set."""
    asked = [call["explicit"] for call in inputs["calls"] if call["legacy"] is None]
    written = [[] if value is None else [f"rollout.think={value}"] for value in asked]
    return {"results": [load_config(None, overrides).rollout.think for overrides in written]}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "project_action_tag": directions,
    "project_ezpoints": token,
    "projection_requires_think": requires_think,
}

_UNREAD = {"action_index": -1, "action": None, "valid": False}


def _taken(text: str) -> Callable[[Json], Json]:
    return lambda _: {"action_index": TOKENS.index(text), "action": text, "valid": True}


def _direction(text: str, valid: bool) -> Callable[[Json], Json]:
    return lambda _: {key: {"action": MOVES.index(text), "valid": valid} for key in SOKOBAN}


def _nothing_is_guessed(official: Json) -> Json:
    """Official: not required for a path with Qwen3 in it and thinking switched off, with nothing said outright."""
    waived = (24, 28)
    assert not any(official["results"][place] for place in waived)
    return {"results": [True if place in waived else value for place, value in enumerate(official["results"])]}


#: Questionable, and ours is better: official expectation -> our expectation.
DECIDED: dict[str, Callable[[Json], Json]] = {
    "tag_move_two_words": _direction("left", True),
    "tag_move_substring": _direction("still", False),
    "ezpoints_space_before_colon": _taken("7"),
    "ezpoints_no_key_digit_at_end": lambda _: _UNREAD,
    "ezpoints_repeat_same": lambda _: _UNREAD,
    "ezpoints_action_first_then_thought": _taken("7"),
    "requires_think_table": _nothing_is_guessed,
}
KEPT = {"ezpoints_text_after"}  #: questionable, and ours does the same; so do all other cases of project_action_tag
