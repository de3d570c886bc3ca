"""How does the analyzer's answer become a skill, or a named reason why there is none?

The last complete object outside the reasoning that carries a usable ``episode_skill`` wins. Every departure from the
official parser is listed in ``docs/differences.md``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seedbed.skills.tolerant_json import Found, Reading, read_objects

MAX_SKILL_CHARS = 4000  #: a longer "skill" is a transcript or a loop; it is refused, never cut

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LIKE_JSON = re.compile(r"\{\s*+(?!\w)|\{[^{}]*episode_s")  # "{object}" in a sentence is not
_FILLER = frozenset(
    [
        "n/a",
        "na",
        "none",
        "null",
        "nil",
        "nan",
        "true",
        "false",
        "undefined",
        "unknown",
        "string",
        "str",
        "text",
        "todo",
        "tbd",
        "placeholder",
        "skill",
        "episode_skill",
        "episode skill",
        "no skill",
        "skill here",
        "your skill here",
    ]
)


class ParseStatus(StrEnum):
    """What became of an analyzer's answer. Only ``OK`` and ``OK_REPAIRED`` give a skill."""

    OK = "ok"  #: the answer is exactly one JSON object
    OK_REPAIRED = "ok_repaired"  #: something had to be tolerated; ``Parsed.repairs`` says what
    TRUNCATED = "truncated"  #: cut by the token limit, or the text ends inside an object
    NO_JSON = "no_json"  #: nothing that looks like JSON outside the reasoning
    UNPARSABLE = "unparsable"  #: looks like JSON and is not
    EMPTY = "empty"  #: an object without a skill: field missing, null or blank
    NOT_A_STRING = "not_a_string"  #: the skill is a number, list, object, ...
    PLACEHOLDER = "placeholder"  #: "...", "string", "N/A", "<your skill>"
    ECHO = "echo"  #: a piece of the request itself
    TOO_LONG = "too_long"  #: over ``max_chars``


@dataclass(frozen=True, slots=True)
class Parsed:
    """``skill`` is non-empty exactly if ``ok``; ``summary`` is kept whenever it could be read.

    ``repairs``: reasoning, fence, surrounding_text, double_encoded, nested, trailing_comma (one entry each),
    python_literal, loose_string (raw line break or non-JSON escape), lone_surrogate, control_character.
    """

    status: ParseStatus
    summary: str = ""
    skill: str = ""
    repairs: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status in (ParseStatus.OK, ParseStatus.OK_REPAIRED)


def parse_analysis(
    raw: str, finish: str = "stop", *, max_chars: int = MAX_SKILL_CHARS, prompt_text: str = ""
) -> Parsed:
    """Read an analyzer's answer, the whole message: a ``<think>`` that the template pre-filled belongs in front.
    Never raises; bounded time on any input.

    ``finish`` is the engine's reason ("length" = token limit). ``prompt_text`` is the wording of the request, without
    the trajectory: a skill that occurs in it is an echo. Source: ``docs/differences.md``.
    """
    text, reading, outer = _read(raw)
    refused: Parsed | None = None
    for found in reversed(reading.found):
        holder = _holder(found.value, "episode_skill")
        if holder is None:
            continue
        repairs = outer + _around(text, reading, found) + (() if holder is found.value else ("nested",)) + found.repairs
        parsed = _judge(holder, repairs, max_chars, prompt_text)
        if parsed.ok:
            return parsed
        refused = refused or parsed
    if refused and not reading.cut:
        return refused
    return Parsed(_why_nothing(text, reading, finish), summary=_summary(reading))


def turn_skills(raw: str, turns: int, limit: int, prompt_text: str = "") -> tuple[tuple[int, str], ...]:
    """At most ``limit`` step skills as (0-based turn, text): the request numbers the ``turns`` steps from 1.

    They count only in the very object whose episode skill ``parse_analysis`` takes (official code: no episode skill, no
    teacher at all).
    """
    if not limit:
        return ()
    found = parse_step_skills(raw, range(1, turns + 1), limit, beside_skill=True, prompt_text=prompt_text)
    return tuple((number - 1, text) for number, text in found.items())


def parse_step_skills(
    raw: str, candidates_K: Collection[int], limit: int = 5, *, beside_skill: bool = False, prompt_text: str = ""
) -> dict[int, str]:
    """Skills of single turns, ``{turn: text}``, from the last object with ``step_skills`` (official mode episode_step).

    Entries that are not a usable string under an integer key among ``candidates_K`` are left out; of the rest the first
    ``limit`` in the answer's order are kept. With ``beside_skill`` the last object with a usable episode skill decides.
    """
    _, reading, _ = _read(raw)
    for found in reversed(reading.found):
        skill = _holder(found.value, "episode_skill") if beside_skill else None
        if beside_skill and not (skill and _judge(skill, (), MAX_SKILL_CHARS, prompt_text).ok):
            continue
        holder = _holder(found.value, "step_skills")
        steps = holder["step_skills"] if holder else None
        if isinstance(steps, dict):
            read = {
                int(key): _clean(text)[0]
                for key, text in steps.items()
                if key.strip().isdecimal() and len(key) < 10 and isinstance(text, str)
            }
            usable = [(k, text) for k, text in read.items() if k in candidates_K and _fit(text, prompt_text)]
            return dict(usable[:limit])
        if beside_skill:
            break
    return {}


def _read(raw: str) -> tuple[str, Reading, tuple[str, ...]]:
    """The text whose objects count, and its objects: ``raw``, or what is inside if ``raw`` is one JSON string."""
    reading = read_objects(raw)
    quoted = raw.strip()
    if not reading.found and quoted[:1] == quoted[-1:] == '"':
        try:
            inner = json.loads(quoted, strict=False)
        except ValueError:
            return raw, reading, ()
        return inner, read_objects(inner), ("double_encoded",)
    return raw, reading, ()


def _holder(value: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The first object with field ``name`` in ``value``, outside before inside, in text order."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict) and name in item:
            return item
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        waiting.extend(reversed(list(inner)))
    return None


def _around(text: str, reading: Reading, found: Found) -> tuple[str, ...]:
    outside = text[reading.answer_start : found.start] + text[found.end : reading.answer_end]
    frame = ("fence",) if "```" in outside else ("surrounding_text",) if outside.strip() else ()
    return (("reasoning",) if reading.reasoned else ()) + frame


def _judge(fields: dict[str, Any], repairs: tuple[str, ...], max_chars: int, prompt_text: str) -> Parsed:
    summary, value = _text(fields.get("episode_summary")), fields["episode_skill"]
    if value is not None and not isinstance(value, str):
        return Parsed(ParseStatus.NOT_A_STRING, summary)
    skill, cleaned = _clean(value or "")
    repairs += cleaned
    if not skill:
        return Parsed(ParseStatus.EMPTY, summary)
    if _is_filler(skill):
        return Parsed(ParseStatus.PLACEHOLDER, summary)
    if _flat(skill) in _flat(prompt_text):
        return Parsed(ParseStatus.ECHO, summary)
    if len(skill) > max_chars:
        return Parsed(ParseStatus.TOO_LONG, summary)
    return Parsed(ParseStatus.OK_REPAIRED if repairs else ParseStatus.OK, summary, skill, repairs)


def _why_nothing(text: str, reading: Reading, finish: str) -> ParseStatus:
    if reading.cut or finish == "length":
        return ParseStatus.TRUNCATED
    if reading.found:
        return ParseStatus.EMPTY
    like_json = _LIKE_JSON.search(text, reading.answer_start, reading.answer_end)
    return ParseStatus.UNPARSABLE if like_json else ParseStatus.NO_JSON


def _summary(reading: Reading) -> str:
    holders = [_holder(found.value, "episode_summary") for found in reading.found]
    return next((_text(h["episode_summary"]) for h in reversed(holders) if h), "")


def _text(value: Any) -> str:
    return _clean(value)[0] if isinstance(value, str) else ""


def _clean(text: str) -> tuple[str, tuple[str, ...]]:
    """``text`` that can be encoded: surrogate pairs joined, lone ones and control characters (not tab, line feed)
    dropped.

    Chat control tokens stay: the renderer encodes them as ordinary characters.
    """
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    whole, lone = _SURROGATE.subn("", joined)
    plain, control = _CONTROL.subn("", whole)
    return plain.strip(), ("lone_surrogate",) * bool(lone) + ("control_character",) * bool(control)


def _fit(step_skill: str, prompt_text: str) -> bool:
    """What would be an episode skill, too: no blank, placeholder, echo or transcript."""
    return _judge({"episode_skill": step_skill}, (), MAX_SKILL_CHARS, prompt_text).ok


def _is_filler(skill: str) -> bool:
    template = skill.startswith("<") and skill.endswith(">") and skill.count("<") == 1
    return template or not any(map(str.isalpha, skill)) or _flat(skill).strip(" .…<>[](){}\"'`*-:") in _FILLER


def _flat(text: str) -> str:
    return " ".join(text.casefold().split())
