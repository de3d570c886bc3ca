"""Exact match, F1 and containment: hand-computed, and what must hold between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.envs.search.scoring import last_answer, normalise_answer, score_answer

PROMPT = "Answer like this: <answer> Beijing </answer>."
WORDS = st.text(alphabet="aAbt he.-'!é \n", max_size=12)


@pytest.mark.parametrize(
    ("answer", "golds", "scores"),
    [
        ("frank herbert.", ["Frank Herbert"], (1, 1, 1)),
        ("Frank Herbert (author)", ["Frank Herbert"], (0, 0.8, 1)),  # T12
        ("Herbert Frank", ["Frank Herbert"], (0, 1, 0)),
        ("Frank", ["Frank Herbert"], (0, 2 / 3, 0)),
        ("Brian Herbert", ["Frank Herbert", "Brian Patrick Herbert"], (0, 0.8, 0)),  # the best gold answer counts
        ("new new york", ["new york"], (0, 0.8, 1)),  # a repeated word counts once
        ("theatre", ["atre"], (0, 0, 1)),  # containment looks inside words, as in the official code
        ("Rome", "rome", (1, 1, 1)),
        ("", ["Rome"], (0, 0, 0)),
        (None, ["Rome"], (0, 0, 0)),
        ("", [""], (0, 0, 0)),  # nothing said is never right
        ("Rome", [], (0, 0, 0)),
        ("the the", ["The The"], (1, 1, 1)),  # normalisation leaves nothing: the words themselves are compared
        ("!!!", ["!!!"], (1, 1, 1)),
        ("an", ["The"], (0, 0, 0)),
        ("vitamin a", ["Vitamin"], (1, 1, 1)),  # the letter is read as an article, as in the official code
    ],
)
def test_by_hand(answer: str | None, golds: list[str] | str, scores: tuple[float, float, float]):
    got = score_answer(answer, golds)
    assert (got.exact_match, got.f1, got.containment) == pytest.approx(scores)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_exact_match_is_the_strictest(answer: str, golds: list[str]):
    got = score_answer(answer, golds)
    assert got.exact_match <= got.f1 <= 1 and got.exact_match <= got.containment and got.f1 >= 0
    assert got == score_answer(answer.upper(), [gold.lower() for gold in reversed(golds)])


@given(WORDS)
def test_an_answer_matches_itself_and_its_normal_form(text: str):
    assert score_answer(text, [text]).exact_match == float(bool(text.strip()))
    if normal := normalise_answer(text):
        assert normalise_answer(normal) == normal
        assert score_answer(f"The {normal.upper()}.", [text]).exact_match == 1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>Troy</answer> no: <answer>Homer</answer>", "Homer"),
        ("<think><answer>Homer</answer></think>", None),
        ("<answer>Homer", None),
        ("Homer", None),
        ("<answer></answer>", ""),
    ],
)
def test_last_answer(text: str, answer: str | None):
    assert last_answer(text) == answer


def test_the_prompts_own_example_is_no_answer():
    """The scorer reads responses only. Had it read the prompt too, an example there would be an answer."""
    assert last_answer(PROMPT) == "Beijing"
    assert last_answer("I do not know.") is None
