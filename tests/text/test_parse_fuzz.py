"""Whatever a model writes: the parser does not raise, and no skill comes out of its reasoning."""

from __future__ import annotations

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.skills.parse import Parsed, parse_analysis, parse_step_skills
from seedbed.skills.tolerant_json import read_objects

DRAFT, ANSWER = "zzdraft zzdraft", "final advice for the agent"
GRAMMAR = [
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    ",",
    ":",
    "\\",
    "\n",
    "```",
    "```json\n",
    "null",
    "None",
    "1",
    "\ud83d",
    "\x00",
    "\\u12",
    '"episode_skill"',
    '"episode_summary": "s"',
    "//",
    "“",
    "{object}",
    "é",
]


def draft(rng: random.Random) -> str:
    """Reasoning that holds a complete or broken draft and no reasoning tag."""
    body = json.dumps({"episode_skill": DRAFT, "step_skills": {"0": DRAFT}})
    noise = ["".join(rng.choices(GRAMMAR, k=rng.randrange(6))) for _ in range(2)]
    return (
        noise[0]
        + rng.choice([body, f"```json\n{body}\n```", body[:-1], body.replace('"', "'"), '{"a": ' + body])
        + noise[1]
    )


def sound(parsed: Parsed) -> None:
    assert parsed.ok == bool(parsed.skill)
    parsed.skill.encode()
    parsed.summary.encode()
    assert parsed.skill == parsed.skill.strip()


def test_seeded_drafts_never_come_out_of_reasoning() -> None:
    rng = random.Random(7)
    read = 0
    for _ in range(3000):
        opened, closed = rng.choice(
            [("<think>", "</think>"), ("<THINK>", "</THINK>"), ("<thinking>", "</thinking>"), ("", "</think>")]
        )
        thoughts = "".join(opened + draft(rng) + closed for _ in range(rng.randrange(1, 3)))
        answer = rng.choice(
            ["", json.dumps({"episode_skill": ANSWER}), "{'episode_skill': '" + ANSWER + "',}", "no lesson", "{", '{"']
        )
        tail = rng.choice(["", "", "<think>" + draft(rng)])
        raw = thoughts + answer + tail
        parsed = parse_analysis(raw, rng.choice(["stop", "length"]))
        sound(parsed)
        assert "zzdraft" not in parsed.skill + parsed.summary, raw
        assert not parse_step_skills(raw, {0}), raw
        assert parsed.ok == (ANSWER in answer), raw
        read += parsed.ok
    assert read > 500


def test_seeded_mutations_of_good_answers() -> None:
    rng = random.Random(11)
    good = json.dumps({"episode_summary": "It took the mug.", "episode_skill": ANSWER, "steps": [1, {"a": "b"}]})
    for _ in range(3000):
        text = list(
            rng.choice([good, f"<think>x</think>```json\n{good}\n```", good.replace('"', "'"), json.dumps(good)])
        )
        for _ in range(rng.randrange(1, 8)):
            at = rng.randrange(len(text))
            text[at : at + rng.randrange(3)] = rng.choice(GRAMMAR)
        sound(parse_analysis("".join(text)))
        sound(parse_analysis("".join(text[: rng.randrange(len(text))]), "length"))


@given(st.lists(st.sampled_from([*GRAMMAR, "<think>", "</think>"]) | st.text(max_size=4), max_size=40).map("".join))
@settings(max_examples=150, deadline=None)
def test_any_text(raw: str) -> None:
    sound(parse_analysis(raw))
    parse_step_skills(raw, {0})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4), st.sampled_from([None, 1]), st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_json_object_reads_as_the_library_reads_it(
    value: dict[str, object], indent: int | None, ascii_only: bool
) -> None:
    (found,) = read_objects(json.dumps(value, indent=indent, ensure_ascii=ascii_only)).found
    assert found.value == value and not found.repairs


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4))
@settings(max_examples=100, deadline=None)
def test_every_python_literal_of_that_kind_too(value: dict[str, object]) -> None:
    (found,) = read_objects(repr(value)).found
    assert found.value == value
