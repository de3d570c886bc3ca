"""The scripted player: it solves worlds from words alone, and errs in the way it is told to."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.alfworld.expert import MODES, Expert, Lesson, Mistakes
from seedbed.envs.alfworld.game import HouseholdGame
from seedbed.envs.alfworld.journal import Goal, Journal, read_goal
from seedbed.envs.alfworld.sentences import MOVE, PUT
from seedbed.envs.alfworld.world import World
from seedbed.envs.base import Game
from seedbed.skills.rules import lesson_of

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


def test_journal_follows_an_episode_of_the_older_format() -> None:
    """2.1.1: arrivals at numbered locations, and things are put in/on places."""
    journal = Journal()
    journal.start("You are in the middle of a room. Looking quickly around you, you see a shelf 1, and a drawer 1.")
    assert journal.dialect is MOVE, "nobody has spoken yet"
    journal.after("go to drawer 1", "You arrive at loc 12. The drawer 1 is closed.")
    assert (journal.dialect, journal.here, journal.shut) == (PUT, {"drawer 1"}, {"drawer 1"})
    journal.after("open drawer 1", "You open the drawer 1. The drawer 1 is open. In it, you see a mug 1.")
    journal.after("take mug 1 from drawer 1", "You pick up the mug 1 from the drawer 1.")
    journal.after("go to shelf 1", "You arrive at loc 4. On the shelf 1, you see a mug 2, and a vase 1.")
    assert (journal.here, journal.held) == ({"shelf 1"}, "mug 1")
    journal.after("move mug 1 to shelf 1", "Nothing happens.")  # a command of the newer format
    assert (journal.held, journal.moved, journal.refused) == ("mug 1", [], ["move mug 1 to shelf 1"])
    journal.after("put mug 1 in/on shelf 1", "You put the mug 1 in/on the shelf 1.")
    assert (journal.held, journal.moved) == ("", [("mug 1", "shelf 1")])
    assert journal.contents == {"drawer 1": [], "shelf 1": ["mug 2", "vase 1", "mug 1"]}


def older(world: World) -> World:
    """The same world in a file of format 2.1.1. Which location has which number does not matter to anybody."""
    places = [place.at for place in world.receptacles if place.at is not None]
    return replace(world, dialect=PUT, locations=tuple(f"loc {n + 1}" for n in range(max(places) + 1)))


def in_older_words(log: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What was done and answered, as format 2.1.1 words it, arrivals without their numbers."""
    return [
        (
            re.sub(r"^move (.*) to ", r"put \1 in/on ", action),
            re.sub(r"^You move the (.*) to the ", r"You put the \1 in/on the ", _arrival(answer)),
        )
        for action, answer in log
    ]


def _arrival(answer: str) -> str:
    return re.sub(r"^You arrive at \w+ \d+\.", "You arrive.", answer)


def lesson_read(goal: str, won: bool, log: list[tuple[str, str]], room: str) -> Lesson:
    journal = Journal()
    journal.start(room)
    for action, answer in log:
        journal.after(action, answer)
    return lesson_of(read_goal(goal), won, journal)


def assert_alike(worlds: dict[str, World], mistakes: Mistakes, turns: int) -> int:
    """Each world played in both formats with the same chances: the same episode and lesson. How many were won."""
    wins = 0
    for seed, world in worlds.items():
        newer, before = HouseholdGame(world), HouseholdGame(older(world))
        won, log = play(newer, Expert(newer.goal, random.Random(seed), mistakes), turns)
        won_before, log_before = play(before, Expert(before.goal, random.Random(seed), mistakes), turns)
        assert [(action, _arrival(answer)) for action, answer in log_before] == in_older_words(log)
        assert won_before == won
        room = HouseholdGame(world).start().text
        assert lesson_read(newer.goal, won, log, room) == lesson_read(newer.goal, won, log_before, room)
        wins += won
    return wins


@pytest.mark.parametrize("mistakes", [CLEAN, Mistakes(key=0.5, shut=0.3, wrong=0.4, stray=0.3)])
def test_both_formats_are_played_and_read_alike(mistakes: Mistakes) -> None:
    environment = AlfWorld()
    worlds = {task.id: environment.world(task) for task in environment.tasks("generated_valid")[:90]}
    wins = assert_alike(worlds, mistakes, turns=16)
    assert wins >= 80 if mistakes is CLEAN else 5 <= wins <= 70


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


def test_real_games_of_both_formats_are_played_alike(data: Path) -> None:
    environment = AlfWorld()
    worlds = {task.id: environment.world(task) for task in environment.tasks("valid_unseen")[::5]}
    assert assert_alike(worlds, CLEAN, turns=50) >= 0.9 * len(worlds), data
