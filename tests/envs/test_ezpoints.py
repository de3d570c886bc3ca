"""EZPoints: hands as the official code deals them, formulas by hand and by Python, whole episodes, images."""

from __future__ import annotations

import itertools
import json
import re
import sys
from hashlib import sha256
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from seedbed.commands.env import app
from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs.base import make_environment
from seedbed.envs.ezpoints.env import EZPoints
from seedbed.envs.ezpoints.game import SUITS, TOKENS, Card, EZPointsGame, deal, solution, value
from seedbed.envs.ezpoints.picture import CARDS, LINE
from seedbed.envs.ezpoints.projection import project_json
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.types import StopReason, Task, Trajectory, UserError

BYTES = RolloutSettings(max_prompt_tokens=20_000, max_new_tokens=200, max_turns=8, history=0)  # a token a byte
HAND = (Card("Q", "hearts"), Card("2", "clubs"))
FACES = {"J": 10, "Q": 10, "K": 10, "A": 1}


def task(name: str) -> Task:
    return Task(f"ezpoints/{name}", "ezpoints", name.partition("/")[0], "sum")


def play(renderer: Renderer, reply, tasks, environment=None, **settings) -> list[Trajectory]:
    how = BYTES.model_copy(update=settings)
    engine, environment = ScriptedEngine(renderer, reply), environment or make_environment("ezpoints")
    groups = collect_groups(engine, environment, renderer, how, tasks, attempts=1, seed=0)
    return [group.attempts_G[0] for group in groups]


def game(observation: str = "text", hand: tuple[Card, Card] = HAND) -> EZPointsGame:
    return EZPointsGame(hand, EZPoints(observation).show)


def answer(action: str) -> str:
    return json.dumps({"thoughts": "I add or multiply.", "action": action})


def solver(prompt: str) -> str:
    """Reads cards and formula from the prompt, as a model would."""
    ranks = re.findall(r"Your cards: (\w+) of \w+, (\w+) of \w+", prompt)[-1]
    one, other = (FACES.get(rank) or int(rank) for rank in ranks)
    formula = re.findall(r"The formula so far: (?:empty|([\d+* ]+))", prompt)[-1].split()
    whole = [str(one), "+" if one + other == 12 else "*", str(other), "="]
    return answer(whole[len(formula)])


def test_known_hands_are_those_of_the_official_code():
    """Written down from runs of the official code (2cf2fad), "D2" being the 2 of diamonds, "CT" the 10 of clubs."""
    seeds = [*range(150), *range(65_536, 65_536 + 150)]
    letters = dict(zip(SUITS, "HSDC", strict=True))
    hands = [" ".join(letters[c.suit] + c.rank.replace("10", "T") for c in deal(seed)) for seed in seeds]
    assert hands[:6] == ["H4 C8", "H4 C3", "H2 S6", "S5 D7", "D5 H7", "DJ D2"]
    assert sha256("\n".join(hands).encode()).hexdigest() == (
        "e6f2695cf4d837e222b831efffbf2a30d6c2aa0aee99a37fd9b53b9c63067338"
    )


def test_every_hand_can_be_won_and_its_kind_says_how():
    environment = EZPoints()
    kinds = {"sum": lambda a, b: a + b, "product": lambda a, b: a * b}
    for found in [*environment.tasks("train")[:500], *environment.tasks("validation")[:500]]:
        hand = environment.open(found).hand
        assert kinds[found.kind](*(FACES.get(c.rank) or int(c.rank) for c in hand)) == 12
        assert all(int(card.number) == (FACES.get(card.rank) or int(card.rank)) for card in hand)
        shown = environment.open(found)
        first, second = (card.number for card in hand)
        seen = [shown.step(token) for token in (first, solution(hand), second, "=")]
        assert [s.reward for s in seen] == [0, 0, 0, 10] and seen[-1].won and seen[-1].done


def test_a_hand_depends_on_its_seed_alone():
    order = list(range(200))
    straight = {seed: deal(seed) for seed in order}
    Random(1).shuffle(order)
    assert {seed: deal(seed) for seed in order} == straight


def test_an_episode_by_hand():
    played = game()
    assert played.start().text == "Your cards: Q of hearts, 2 of clubs\nThe formula so far: empty"
    for token, formula, counts in [
        ("2", "2", True),
        ("2", "2", False),  # used already
        ("5", "2", False),  # not a card of the hand
        ("-", "2", False),
        ("", "2", False),
        ("*", "2 *", True),
        ("+", "2 * +", True),
        ("10", "2 * + 10", True),
    ]:
        seen = played.step(token)
        assert seen.text.endswith(f"The formula so far: {formula}") and (seen.reward, seen.done) == (0.0, False)
        assert seen.text.startswith("Nothing happens.\n") != counts
    seen = played.step("=")
    assert (seen.reward, seen.done, seen.won) == (0.0, True, False)  # 20


def test_a_pair_of_equal_cards_can_be_used_twice():
    played = game(hand=(Card("6", "hearts"), Card("6", "clubs")))
    for token in ("6", "+", "6", "6"):
        seen = played.step(token)
    assert seen.text.startswith("Nothing happens.") and played.formula == ["6", "+", "6"]
    assert played.step("=").won


def test_a_formula_that_is_too_long_takes_nothing_more():
    """Six pieces; the official code ends its count there, and not the episode."""
    played = game()
    for token in ("10", "+", "+", "+", "2", "+"):
        seen = played.step(token)
    assert seen.text.endswith("It is full: nothing can be appended.")
    seen = played.step("=")
    assert (seen.reward, seen.done) == (0.0, False) and len(played.formula) == 6


def test_one_card_is_not_enough():
    played = game(hand=(Card("6", "hearts"), Card("6", "clubs")))
    played.step("6")
    seen = played.step("=")
    assert seen.done and not seen.won and seen.reward == 0.0


def test_formulas_have_the_value_that_python_gives_them():
    """All of up to five pieces over two numbers and the signs; those of one number are none."""
    for length in range(6):
        for formula in itertools.product(("2", "6", "+", "*"), repeat=length):
            try:
                expected = eval("".join(formula))  # the official rule
            except SyntaxError:
                expected = None
            if sum(token in "26" for token in formula) != 2:
                expected = None
            assert value(formula) == expected, formula


@pytest.mark.parametrize("layout", ["windowed", "transcript"])
def test_a_careful_policy_wins_every_hand_in_four_turns(renderer: Renderer, layout: str):
    for trajectory in play(renderer, solver, EZPoints().tasks("validation")[:30], layout=layout):
        assert (trajectory.stop, len(trajectory.turns_K), trajectory.reward) == (StopReason.WON, 4, 10.0)
        assert trajectory.invalid_turns == 0


@pytest.mark.parametrize("think", [True, False])
def test_the_prompt_asks_for_json_and_gives_nothing_away(renderer: Renderer, think: bool):
    (trajectory,) = play(renderer, lambda _: answer("="), [task("train/5")], think=think)
    prompt = trajectory.turns_K[0].prompt.text
    assert ('"thoughts"' in prompt) == think and '"action"' in prompt and "<" not in prompt
    assert "admissible" not in prompt and "J of diamonds, 2 of diamonds" in prompt
    assert trajectory.stop is StopReason.LOST and trajectory.reward == 0.0


def test_babble_is_invalid_until_the_turn_limit_and_never_a_fault(renderer: Renderer):
    for reply in ("I would rather not", '{"action": "12"}', "<action>2</action>", "\x01{"):
        (trajectory,) = play(renderer, lambda _, reply=reply: reply, [task("train/5")])
        assert trajectory.stop is StopReason.STEP_CAP and len(trajectory.turns_K) == trajectory.invalid_turns == 8
        assert trajectory.turns_K[-1].observation.startswith("Nothing happens.")


@given(st.text(max_size=60) | st.text('"action:{}\\0123+*= \n', max_size=60))
def test_any_response_is_an_action_and_any_action_is_played(response: str):
    played = game()
    played.start()
    action = EZPoints().project(response, True)
    assert (action.text in TOKENS) if action.valid else action.text == ""
    assert not played.step(action.text).won and not game().step(response).won


@pytest.mark.parametrize(
    ("written", "token"),
    [
        ('```json\n{\n "thoughts": "5 + 7 = 12",\n "action": "7"\n}\n```', "7"),
        ('<think>{"action": "5"}</think>{"action": "7"}', "7"),
        ('{"thoughts": "then "5" and =", "action": "+"}', "+"),  # no JSON, and no doubt
        ('{"thoughts": "so \\"action\\": \\"5\\"", "action": "7"}', "7"),
        ('{"action": "7", "reason": "the sum is 12"}', "7"),
        ('{"action": "append 7"}', "7"),
        ('{"action": "7"', "7"),
        ('{"action": "7"} {"action": "7"}', "7"),
        ('{"action": "7"} {"action": "5"}', ""),
        ('{"action": "7 +"}', ""),
        ('{"action": ["7", "5"]}', ""),
        ('{"action": null}', ""),
        ('{"action": ""}', ""),
        ('{"next action": "7"}', ""),
    ],
)
def test_the_field_decides(written: str, token: str):
    got = project_json(written)
    assert (got.text, got.valid) == (token, bool(token))


def pixels(image: np.ndarray, box: tuple[int, int, int, int]) -> bytes:
    left, top, right, bottom = box
    return image[top : bottom + 1, left : right + 1].tobytes()


def test_the_image_shows_the_hand_and_the_formula():
    """Each of the 13 x 4 cards looks different, also in its place alone; the formula changes its line and no more."""
    pytest.importorskip("PIL", reason="the extra [visual] is not installed")
    cards = [Card(rank, suit) for rank in "2 3 4 5 6 7 8 9 10 J Q K A".split() for suit in SUITS]
    for place in (0, 1):
        looks = {pixels(game("image", (card, HAND[1])[:: 1 - 2 * place]).start().image, CARDS[place]) for card in cards}
        assert len(looks) == len(cards) == 52
    played = game("both")
    seen = [played.start(), *(played.step(token) for token in ("10", "+", "2"))]
    assert len({pixels(s.image, LINE) for s in seen}) == 4
    for shown in seen:
        assert shown.image.shape == (300, 300, 3) and shown.image.dtype == np.uint8
        assert [pixels(shown.image, box) for box in CARDS] == [pixels(seen[0].image, box) for box in CARDS]
        np.testing.assert_array_equal(
            np.delete(shown.image, np.s_[LINE[1] : LINE[3]], 0), np.delete(seen[0].image, np.s_[LINE[1] : LINE[3]], 0)
        )
    assert game("image").start().text == "" and game("text").start().image is None


def test_images_without_pillow_name_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=r"pip install 'seedbed\[visual\]'"):
        game("image").start()
    assert game("text").start().text
    failed = CliRunner().invoke(app, ["image", "ezpoints", "ezpoints/train/5"])
    assert isinstance(failed.exception, UserError) and "seedbed[visual]" in str(failed.exception)


def test_a_person_plays_with_the_environments_own_words():
    result = CliRunner().invoke(app, ["play", "ezpoints", "--task", "ezpoints/train/5"], input="2\n+\n10\n=\n")
    assert "Your task is to: make a formula of your two cards that gives 12" in result.stdout
    assert result.stdout.endswith("won after 4 steps\n")
