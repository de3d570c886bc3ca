"""Does an answer give its skill, or the right reason why not? (see the decisions in
docs/differences.md)
"""

from __future__ import annotations

import json

import pytest

from seedbed.skills.parse import MAX_SKILL_CHARS, Parsed, ParseStatus, parse_analysis, parse_step_skills
from seedbed.skills.tolerant_json import MAX_DEPTH, MAX_WORK, read_objects

ADVICE = "Check the fridge before the cabinets."


def wrap(skill: object, summary: object = "s") -> str:
    return json.dumps({"episode_summary": summary, "episode_skill": skill})


def test_messy_answer_is_repaired_and_says_how() -> None:
    raw = (
        '<think>Maybe {"episode_skill": "wrong draft"} no.</think>\nHere it is:\n```json\n'
        '{"episode_skill": "Check the fridge before the cabinets.", "steps": [1, 3,],}\n```'
    )
    parsed = parse_analysis(raw)
    assert parsed == Parsed(
        ParseStatus.OK_REPAIRED, "", ADVICE, ("reasoning", "fence", "trailing_comma", "trailing_comma")
    )
    assert [found.value for found in read_objects(raw).found] == [{"episode_skill": ADVICE, "steps": [1, 3]}]


def test_fence_marks_and_commas_inside_a_string_are_kept_byte_for_byte() -> None:
    assert parse_analysis('{"episode_skill": "Use ```go to``` first,}", "steps": []}') == Parsed(
        ParseStatus.OK, "", "Use ```go to``` first,}"
    )


@pytest.mark.parametrize(
    ("raw", "finish", "status"),
    [
        ('{"episode_skill": "Always open the mic', "length", "truncated"),
        ('{"episode_skill": "Always open the mic', "stop", "truncated"),
        ('{"episode_summary": "a", "episode_skill": "b c d"', "stop", "truncated"),
        ("I was going to say", "length", "truncated"),
        ("For {object}: no reusable lesson here.", "stop", "no_json"),
        ('<think>I will write {"episode_skill":"x"}', "stop", "no_json"),
        ('<think>I will write {"episode_skill":"x"}', "length", "truncated"),
        ('{"episode_skill":"a draft that a template opened"}</think> no answer', "stop", "no_json"),
        ("", "stop", "no_json"),
        ("{episode_skill: 'go'}", "stop", "unparsable"),
        ('{"episode_skill": "say "yes" now"}', "stop", "unparsable"),
        ('{"episode_skill": ""}', "stop", "empty"),
        ('{"episode_skill": " \\u0000\\n"}', "stop", "empty"),
        ('{"episode_skill": null}', "stop", "empty"),
        ('{"episode_summary": "only this"}', "stop", "empty"),
        ("{}", "stop", "empty"),
        ('{"episode_skill": ["a", "b"]}', "stop", "not_a_string"),
        ('{"episode_skill": NaN}', "stop", "not_a_string"),
        ('{"type": "object", "properties": {"episode_skill": {"type": "string"}}}', "stop", "not_a_string"),
        (wrap("..."), "stop", "placeholder"),
        (wrap("N/A."), "stop", "placeholder"),
        (wrap("<your skill>"), "stop", "placeholder"),
        (wrap("42"), "stop", "placeholder"),
        (wrap("None"), "stop", "placeholder"),
        (wrap("x" * (MAX_SKILL_CHARS + 1)), "stop", "too_long"),
    ],
)
def test_no_skill_has_a_reason(raw: str, finish: str, status: str) -> None:
    parsed = parse_analysis(raw, finish)
    assert (parsed.status, parsed.skill, parsed.ok) == (status, "", False)


def test_echo_of_the_request() -> None:
    request = "Write `episode_skill`: one short piece of advice for the agent."
    assert parse_analysis(wrap("One short piece of\n advice"), prompt_text=request).status is ParseStatus.ECHO
    assert parse_analysis(wrap("One short piece of bread"), prompt_text=request).ok


@pytest.mark.parametrize(
    ("raw", "skill", "repairs"),
    [
        (f"Sure: {wrap(ADVICE)} Done.", ADVICE, ("surrounding_text",)),
        (wrap("...") + wrap(ADVICE), ADVICE, ("surrounding_text",)),
        (wrap(ADVICE) + wrap("..."), ADVICE, ("surrounding_text",)),
        (wrap("first thought here") + wrap(ADVICE), ADVICE, ("surrounding_text",)),
        (json.dumps(wrap(ADVICE)), ADVICE, ("double_encoded",)),
        (json.dumps({"result": [{"note": 1}, {"episode_skill": ADVICE}]}), ADVICE, ("nested",)),
        (json.dumps({"episode_skill": ADVICE, "meta": {"episode_skill": "inner"}}), ADVICE, ()),
        ("{'episode_skill': 'don\\'t, say \"no\"', 'ok': True, 'n': None}", 'don\'t, say "no"', ("python_literal",)),
        ('{"episode_skill": "don\\\'t hurry"}', "don't hurry", ("loose_string",)),
        ('{"episode_skill": "one\ntwo"}', "one\ntwo", ("loose_string",)),
        ('{"episode_skill": "a \\ud83d\\ude00 b"}', "a \U0001f600 b", ()),
        ('{"episode_skill": "a \\ud83d b\\u0007"}', "a  b", ("lone_surrogate", "control_character")),
        ('{"episode_skill": "stop<|im_end|>"}', "stop<|im_end|>", ()),
        ('{"bad: {"episode_skill": "go on then"}', "go on then", ("surrounding_text",)),
        ('{"episode_skill": "say "yes" now"} {"episode_skill": "go on then"}', "go on then", ("surrounding_text",)),
        ('{"episode_skill": "Close <think> with </think> first"}', "Close <think> with </think> first", ()),
        ("先" + wrap("先找到物品，再放到目标位置"), "先找到物品，再放到目标位置", ("surrounding_text",)),
    ],
)
def test_skill_and_its_repairs(raw: str, skill: str, repairs: tuple[str, ...]) -> None:
    parsed = parse_analysis(raw)
    assert (parsed.skill, parsed.repairs) == (skill, repairs)
    assert parsed.status is (ParseStatus.OK_REPAIRED if repairs else ParseStatus.OK)


def test_depth_and_work_are_bounded() -> None:
    def nested(levels: int) -> str:
        return '{"a":' * levels + wrap(ADVICE) + "}" * levels

    assert parse_analysis(nested(MAX_DEPTH - 1)).skill == ADVICE
    assert parse_analysis(nested(MAX_DEPTH + 5)).repairs == ("surrounding_text", "nested"), "read from where it fits"
    for piece in ("{", '{"a":', '{"', "[", "{'a':1,", '{"a":"\\', "<think>", "</think>", "{ ", "```", "\ud83d", "{}"):
        assert not parse_analysis(piece * (1_000_000 // len(piece))).ok
    assert not parse_analysis('{"a":[' + "1," * MAX_WORK + "1]}").ok


def test_step_skills() -> None:
    raw = json.dumps(
        {"step_skills": {"9": "nine here", "2": "two here", "x": "bad", "1": None, "0": "...", "3": "three here"}}
    )
    assert parse_step_skills(raw, {0, 1, 2, 3, 9}) == {9: "nine here", 2: "two here", 3: "three here"}
    assert parse_step_skills(raw, {2, 3}, limit=1) == {2: "two here"}
    assert parse_step_skills(wrap(ADVICE), {0}) == {}


def test_code_is_only_ever_text() -> None:
    code = "__import__('os').system('touch x')"
    assert parse_analysis(wrap(code)).skill == code
    assert parse_analysis("{'episode_skill': " + code + "}").status is ParseStatus.UNPARSABLE


def test_keys_that_are_numbers_are_read_as_python_writes_them() -> None:
    raw = "{'episode_skill': 'look first', 'step_skills': {1: 'open it', '2': 'take it'}}"
    parsed = parse_analysis(raw)
    assert (parsed.status, parsed.skill, parsed.repairs) == ("ok_repaired", "look first", ("python_literal",))
    assert parse_step_skills(raw, {1, 2}) == {1: "open it", 2: "take it"}
    assert not parse_analysis("{episode_skill: 'x', 1.5: 'y'}").ok
