"""Is a response read as the action that the policy decided on, and is nothing guessed?"""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.envs.project import normalise, project_tag
from seedbed.types import Action

LEGAL = ("go to drawer 1", "go to drawer 10", "take apple 1 from countertop 2", "move apple 1 to fridge 1", "look")
SHOP = tuple(f"click[{option}]" for option in ("back to search", "< prev", "8", "10", "10.5", "black/white", "buy now"))


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("Go to Drawer 1.", "go to drawer 1"),
        ("  go  to drawer 10 ", "go to drawer 10"),
        ("go to drawer 10", "go to drawer 10"),
        ("LOOK", "look"),
    ],
)
def test_spelling_is_brought_to_the_legal_action(said: str, sent: str) -> None:
    """T11, ALFWorld; in a game: ``test_environment_cases.py``."""
    assert normalise(said, LEGAL) == sent


@pytest.mark.parametrize(
    "said", ["go to drawer", "put apple 1 in/on fridge 1", "drawer 1", "go to drawer 11", "loo", ""]
)
def test_nothing_is_guessed(said: str) -> None:
    """T11: no prefixes, no aliases. What is not listed is sent as it is, and the game refuses it."""
    assert normalise(said, LEGAL) == said


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("click[10]", "click[10]"),
        ("click[3]", "click[3]"),
        ("Click[ Buy Now ]", "click[buy now]"),
        ("click[Black/White]", "click[black/white]"),
        ("search[shoes]", "search[shoes]"),
        ("click[back to search", "click[back to search"),
    ],
)
def test_shop_options(said: str, sent: str) -> None:
    """T11, WebShop."""
    assert normalise(said, SHOP) == sent
    assert (sent in SHOP) == (said not in ("click[3]", "search[shoes]", "click[back to search"))


def test_of_two_readings_none_is_chosen_but_the_exact_one_is() -> None:
    assert normalise("open It.", ("open it", "Open it.")) == "open It."
    assert normalise("Open it.", ("open it", "Open it.")) == "Open it."


def test_a_fallback_of_several_lines_is_sent_on_one() -> None:
    action = project_tag("some text\n\ngo\x00 on\n", require_think=False)
    assert action == Action("some text\n\ngo\x00 on\n", False)
    assert normalise(action.text, LEGAL) == "some text go on"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<think><action>look</action></think><action>go to drawer 1</action>", Action("go to drawer 1", True)),
        ("<think>a<think>b</think><action>draft</action></think><action>look</action>", Action("look", True)),
        ("<action>draft</action><think>b</think>no</think><action>look</action>", Action("look", True)),
        ("<think>x</think><action>look\ngo to drawer 1</action>", Action("look", False)),
        ("<think>x</think><action>look</action> or <action>go to drawer 1</action>", Action("look", False)),
        ("<think>x</think><action>look</action><think>y</think><action>go to drawer 1</action>", Action("look", False)),
        ("<think>x</think><action>lo\x1bok</action>", Action("look", False)),
        ("<think>x</think><action>take caf\ufffd</action>", Action("take caf", False)),
        ('<think>x</think><action>"Look"</action>', Action("look", True)),
        ("<think>x</think><action>take 'a' and 'b'</action>", Action("take 'a' and 'b'", True)),
        ("<think>x</think><action>' '</action>", Action("", False)),
        ("<action>look</action>", Action("look", False)),
        ("<think>x</think><action>look</action> <action>go", Action("look", True)),
        ("<think>x</think> <action>take apple 1 fr", Action("x</think> <action>take apple 1 fr"[-30:], False)),
    ],
)
def test_one_block_after_the_reasoning(response: str, expected: Action) -> None:
    assert project_tag(response, require_think=True) == expected


PIECES = st.lists(
    st.sampled_from(["<think>", "</think>", "<action>", "</action>", "look", " ", "\n", "'", "好", "\ud83d", "\x00"])
    | st.text(max_size=5),
    max_size=30,
).map("".join)


@given(PIECES, st.booleans())
def test_the_official_format_is_looser_and_reads_the_same_action(text: str, think: bool) -> None:
    strict, loose = project_tag(text, think), project_tag(text, think, strict_format=False)
    assert strict.text == loose.text and strict.valid <= loose.valid
    assert not loose.valid or "<action>" in text.lower()
    assert not (loose.valid and think) or "<think>" in text.lower()


def test_prefilled_think_belongs_in_front() -> None:
    rest = "maybe <action>look</action></think><action>go to drawer 1</action>"
    assert project_tag("<think>" + rest, require_think=True) == Action("go to drawer 1", True)
    assert project_tag(rest, require_think=True) == Action("go to drawer 1", False)
    assert project_tag(rest, require_think=False) == Action("go to drawer 1", True)


@given(PIECES, st.booleans())
def test_any_text_is_read_and_a_valid_action_is_one_plain_line_outside_reasoning(text: str, think: bool) -> None:
    action = project_tag(text, think)
    if action.valid:
        assert action.text and action.text == action.text.strip() and len(action.text.splitlines()) == 1
        assert not any(category(c) in ("Cc", "Cs") or c == "\ufffd" for c in action.text.replace("\t", ""))
        assert "<action>" in text.lower() and "<action>" not in action.text
        assert not think or text.lower().index("<think>") < text.lower().rindex("<action>")
        assert project_tag(text + "</think>", think) != action, "after a closing tag all that is reasoning"
    assert len(normalise(action.text, LEGAL).splitlines()) <= 1


@given(PIECES)
def test_tags_inside_reasoning_change_nothing(reasoning: str) -> None:
    inside = reasoning.replace("好", "").lower().replace("</think>", "")
    if any("\u4e00" <= c <= "\u9fff" for c in inside):
        return
    assert project_tag(f"<think>{inside}</think><action>look</action>", True) == Action("look", True)


def test_many_tags_are_read_in_one_pass() -> None:
    for piece in ("<action>", "</action>", "<think>", "</think>", "<think></think>", "<action>a</action>"):
        assert not project_tag(piece * 100_000, True).valid
