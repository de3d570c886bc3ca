"""The operations of the golden vectors that read model text, and what was decided where the official reading is
questionable.

``adapter.py`` is the same for numbers. ``docs/differences.md`` gives the reason of every entry of ``DECIDED``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seedbed.envs.project import project_tag
from seedbed.skills.parse import ParseStatus, parse_analysis, parse_step_skills

Json = dict[str, Any]
_ERRORS = {
    ParseStatus.NO_JSON: "no_json_object",
    ParseStatus.UNPARSABLE: "unparsable_json",
    ParseStatus.TRUNCATED: "unparsable_json",
}


def action_tag(inputs: Json) -> Json:
    rules = {
        "alfworld": (True, 30),
        "alfworld_no_think": (False, 30),
        "webshop": (True, 20),
        "webshop_no_think": (False, 20),
    }
    actions = {name: project_tag(inputs["raw"], *rule) for name, rule in rules.items()}
    return {name: {"action": action.text, "valid": action.valid} for name, action in actions.items()}


def analysis(inputs: Json) -> Json:
    parsed = parse_analysis(inputs["raw"])
    mode = inputs["skill_mode"]
    steps = (
        {}
        if mode == "episode_only"
        else parse_step_skills(inputs["raw"], inputs["candidate_step_indices"], inputs["max_step_skills"])
    )
    got = {
        "episode_summary": parsed.summary if inputs["include_episode_summary"] else "",
        "episode_skill": parsed.skill,
        "step_skills": {str(k): text for k, text in steps.items()},
        "parse_error": _ERRORS.get(parsed.status),
        "valid_policy_vllm": parsed.ok,
    }
    return (
        got | {"episode_summary": "", "episode_skill": "", "valid_policy_vllm": bool(steps)}
        if mode == "step_only"
        else got
    )


OPERATIONS: dict[str, Callable[[Json], Json]] = {"project_action_tag": action_tag, "parse_analysis": analysis}

#: Not checked here: Sokoban's readings (visual_ops.py) and a rule for one backend only.
NO_COUNTERPART = {"sokoban", "sokoban_no_think", "valid_openai_backend"}

KEPT = {  #: questionable, and ours does the same
    "tag_move_two_words",
    "tag_move_substring",  # only the Sokoban reading is questionable
    "tag_think_only_close",
    "tag_action_upper",
    "truncated_missing_brace",
    "comments_in_json",
    "cjk_skill",
    "chat_tokens_in_skill",
    "many_open_braces",
}

_ALL = ("alfworld", "alfworld_no_think", "webshop", "webshop_no_think")
_THINK = ("alfworld", "webshop")


def _each(names: tuple[str, ...], **changed: Any) -> Callable[[Json, Json], Json]:
    return lambda official, plain: official | {name: official[name] | changed for name in names}


def _refused(**changed: Any) -> Callable[[Json, Json], Json]:
    return lambda official, plain: official | {"episode_skill": "", "valid_policy_vllm": False, **changed}


def _is_plain(official: Json, plain: Json) -> Json:
    """The final answer wins: it is the one of the case ``plain``."""
    return plain


_GO = "go to cabinet 3"
_NOTHING = {"episode_summary": "", "step_skills": {}, "parse_error": "no_json_object"}

#: Questionable, and ours is better: (official expectation, expectation of ``plain``) -> our expectation.
DECIDED: dict[str, Callable[[Json, Json], Json]] = {
    "tag_think_after_action": _each(_THINK, valid=False),
    "tag_think_upper": _each(_THINK, valid=True),
    "tag_reversed_tags": lambda official, plain: {  # no block: the fallback, invalid
        name: {"action": text, "valid": False}
        for name, text in zip(_ALL, ["action>go to cabinet 3<action>"] * 2 + ["to cabinet 3<action>"] * 2, strict=True)
    },
    "tag_empty_action": _each(_ALL, valid=False),
    "tag_blank_action": _each(_ALL, valid=False),
    "tag_two_actions": _each(_ALL, valid=False),
    "tag_action_inside_think": _each(_ALL, action=_GO),
    "tag_tag_name_in_think": _each(_ALL, action=_GO),
    "tag_nested_action": _each(_ALL, action=_GO, valid=False),
    "tag_quotes": _each(_ALL, action="look"),
    "think_with_draft_then_final": _is_plain,
    "think_fenced_draft_final_raw": _is_plain,
    "think_unclosed_only_draft": _refused(**_NOTHING),
    "python_literal_none": lambda official, plain: official | {"episode_summary": ""},
    "null_skill": _refused(),
    "list_skill": _refused(),
    "dict_skill": _refused(),
    "number_skill": _refused(),
    "nan_skill": _refused(),
    "true_skill": _refused(),
    "schema_echo": _refused(),
    "string_dots": _refused(),
    "two_complete_objects": lambda official, plain: (
        official
        | {
            "episode_summary": "Agent wandered between cabinets.",
            "episode_skill": "Do not reopen containers that were already empty.",
        }
    ),
    "schema_echo_then_answer": _is_plain,
    "double_encoded": _is_plain,
    "lone_surrogate": lambda official, plain: (
        official | {"episode_skill": official["episode_skill"].encode("utf-8", "ignore").decode()}
    ),
    "trailing_comma_inside_string_with_null": lambda official, plain: (
        official | {"episode_skill": official["episode_skill"].replace("]", ", ]")}
    ),
    "deep_nesting": _refused(**_NOTHING | {"parse_error": "unparsable_json"}),
    "empty_object_then_truncated": _refused(parse_error="unparsable_json"),
}
