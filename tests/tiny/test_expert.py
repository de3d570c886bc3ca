"""The scripted player: it solves worlds from words alone, and errs in the way it is told to."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.alfworld.expert import MODES, Expert, Lesson, Mistakes
from seedbed.envs.alfworld.journal import Goal, Journal, read_goal
from seedbed.envs.base import Game

CLEAN = Mistakes(key=0, shut=0, wrong=0, stray=0)
KINDS = ("pick", "look", "clean", "heat", "cool", "two")


def play(game: Game, expert: Expert, turns: int) -> tuple[bool, list[tuple[str, str]]]:
    """Won, and what was done and answered."""
    action, log = expert.first(game.start().text), []
    for _ in range(turns):
        seen = game.step(action)
        log.append((action, seen.text))
        if seen.won:
            return True, log
        action = expert.next(seen.text)
    return False, log


def runs(kind: str, mistakes: Mistakes, count: int, lesson: Lesson | None = None, turns: int = 16):
    environment = AlfWorld()
    for task in [t for t in environment.tasks("generated_valid") if t.kind == kind][:count]:
        game = environment.open(task)
        yield game.goal, *play(game, Expert(game.goal, random.Random(task.id), mistakes, lesson), turns)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("put some mug on desk.", Goal("pick", "mug", "desk")),
        ("put a cd in safe.", Goal("pick", "cd", "safe")),
        ("look at pen under the desklamp.", Goal("look", "pen", "desklamp")),
        ("examine the book with the floorlamp.", Goal("look", "book", "floorlamp")),
        ("clean some pan and put it in cabinet.", Goal("clean", "pan", "cabinet")),
        ("put a hot egg in fridge.", Goal("heat", "egg", "fridge")),
        ("cool some wine and put it in shelf.", Goal("cool", "wine", "shelf")),
        ("find two pen and put them in drawer.", Goal("two", "pen", "drawer")),
        ("put two cup in sofa.", Goal("two", "cup", "sofa")),
    ],
)
def test_goal_sentences(text: str, goal: Goal) -> None:
    assert read_goal(text) == goal


def test_a_goal_of_another_game_is_refused() -> None:
    with pytest.raises(ValueError, match="not a household goal"):
        read_goal("win at chess")


def test_journal_follows_an_episode() -> None:
    journal = Journal()
    journal.start(
        "You are in the middle of a room. Looking quickly around you, you see a drawer 2, a drawer 1, and a desk 1."
    )
    assert journal.places == ["drawer 2", "drawer 1", "desk 1"]
    journal.after("go to drawer 2", "You arrive at drawer 2. The drawer 2 is closed.")
    assert (journal.here, journal.shut, journal.open_here()) == ({"drawer 2"}, {"drawer 2"}, [])
    journal.after("open drawer 2", "You open the drawer 2. The drawer 2 is open. In it, you see a pen 2, and a cd 1.")
    assert (journal.contents, journal.shut) == ({"drawer 2": ["pen 2", "cd 1"]}, set())
    journal.after("take pen 2 from drawer 2", "You pick up the pen 2 from the drawer 2.")
    assert (journal.held, journal.contents["drawer 2"]) == ("pen 2", ["cd 1"])
    journal.after("go to drawer 1", "Nothing happens.")  # shares the location of drawer 2
    assert journal.here == {"drawer 2", "drawer 1"}
    journal.after("go to desk 1", "You arrive at desk 1. On the desk 1, you see nothing.")
    journal.after("move pen 2 to desk 1", "You move the pen 2 to the desk 1.")
    assert (journal.held, journal.moved, journal.contents["desk 1"]) == ("", [("pen 2", "desk 1")], ["pen 2"])


@pytest.mark.parametrize("kind", KINDS)
def test_without_mistakes_nearly_every_world_is_won(kind: str) -> None:
    assert sum(won for _, won, _ in runs(kind, CLEAN, 40)) >= 36


@pytest.mark.parametrize("kind", KINDS)
def test_the_key_mistake_always_loses_and_is_the_one_named(kind: str) -> None:
    for goal_text, won, log in runs(kind, replace(CLEAN, key=1), 25):
        goal, actions = read_goal(goal_text), [action for action, _ in log]
        assert not won
        if kind in ("clean", "heat", "cool"):
            assert not any(action.startswith(f"{kind} ") for action in actions)
        elif kind == "look":
            assert not any(action.startswith("use ") for action in actions)
        delivered = [answer for _, answer in log if answer.startswith("You move the")]
        if kind == "pick":
            assert all(f"to the {goal.place} " not in answer for answer in delivered)
        if kind == "two":
            assert len(delivered) <= 1


def test_leaving_places_shut_never_opens_one_and_a_wrong_object_is_of_another_class() -> None:
    for _, _, log in runs("pick", replace(CLEAN, shut=1), 25):
        assert not any(action.startswith("open ") for action, _ in log)
    taken = [
        (read_goal(goal).target, action.split(" ")[1])
        for goal, _, log in runs("pick", replace(CLEAN, wrong=1), 40)
        for action, answer in log
        if answer.startswith("You pick up")
    ]
    assert any(target != thing for target, thing in taken)


def test_a_lesson_changes_only_what_it_is_about() -> None:
    base = Mistakes(key=0.5, shut=0.4, wrong=0.3, stray=0.2)
    assert base.under(None, "heat") == base
    assert base.under(Lesson("workflow", "cool"), "heat") == base
    assert base.under(Lesson("avoidance", "cool", "key"), "heat") == base
    cured = base.under(Lesson("workflow", "heat"), "heat")
    assert all(getattr(cured, mode) <= 0.03 for mode in MODES)
    fewer = base.under(Lesson("avoidance", "heat", "key"), "heat")
    assert fewer.key <= 0.02 and (fewer.shut, fewer.wrong) == (pytest.approx(0.28), pytest.approx(0.21))


def test_the_same_seed_plays_the_same_episode() -> None:
    assert list(runs("two", Mistakes(), 10)) == list(runs("two", Mistakes(), 10))


def test_real_games_are_won_too(data: Path) -> None:
    """``data`` is what makes the environment find them."""
    environment = AlfWorld()
    tasks = environment.tasks("valid_seen")[::4]
    won = 0
    for task in tasks:
        game = environment.open(task)
        won += play(game, Expert(game.goal, random.Random(task.id), CLEAN), 50)[0]
    assert won >= 0.9 * len(tasks), data
