"""The rules that are easy to get wrong, each in a hand-made room (numbers below: place, thing, location)."""

from __future__ import annotations

import pytest

from seedbed.envs.alfworld.game import Engine, HouseholdGame
from seedbed.envs.alfworld.world import Goal, Receptacle, Thing, World

NOTHING = "Nothing happens."
FOOD = frozenset({"pickupable", "cleanable", "heatable", "coolable", "sliceable"})
TOOL = frozenset({"pickupable", "cleanable"})
PLACES = (  # fridge, shelf and table share location 2
    Receptacle("drawer 1", "drawer", 1, True),
    Receptacle("fridge 1", "fridge", 2, True),
    Receptacle("microwave 1", "microwave", 3, True),
    Receptacle("shelf 1", "shelf", 2, False),
    Receptacle("sinkbasin 1", "sinkbasin", 4, False),
    Receptacle("table 1", "table", 2, False),
)
DRAWER, FRIDGE, MICROWAVE, SHELF, SINK, TABLE = range(6)
THINGS = (
    Thing("apple 2", "apple", (FRIDGE,), (2,), FOOD | {"cool"}, ()),
    Thing("apple 1", "apple", (DRAWER,), (1,), FOOD, ()),
    Thing("bowl 1", "bowl", (SHELF, TABLE), (2,), frozenset({"pickupable", "vessel", "cleanable"}), (3,)),
    Thing("desklamp 1", "desklamp", (DRAWER,), (1,), frozenset({"toggleable"}), ()),
    Thing("knife 1", "knife", (SHELF,), (2,), TOOL, ()),
    Thing("pen 1", "pen", (TABLE,), (4,), frozenset({"pickupable"}), ()),  # counts as at the sink, lies on the table
    Thing("statue 1", "statue", (), (2,), frozenset({"pickupable"}), ()),
)
FITS = frozenset(
    (place, thing)
    for place in ("drawer", "fridge", "microwave", "shelf", "table", "sinkbasin")
    for thing in ("apple", "bowl", "knife", "pen")
    if (place, thing) != ("sinkbasin", "pen")
)


def room(kind: str = "pick", thing: str = "apple", target: str = "table") -> Engine:
    return Engine(World("t.", Goal(kind, thing, target), 0, PLACES, THINGS, FITS, "the help\n", ()))


def play(engine: Engine, *commands: str) -> str:
    text = ""
    for command in commands:
        assert command in engine.admissible, (command, engine.admissible)
        text = engine.step(command)
    return text


def test_start_list_and_look_at_the_start():
    engine = room()
    assert engine.intro == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
        "drawer 1, a fridge 1, a microwave 1, a shelf 1, a sinkbasin 1, and a table 1.\n\nYour task is to: t."
    )
    assert engine.step("look") == "You are in the middle of a room. Looking quickly around you, you see nothing."
    assert engine.admissible == [
        "go to drawer 1",
        "go to fridge 1",
        "go to microwave 1",
        "go to shelf 1",
        "go to sinkbasin 1",
        "go to table 1",
        "help",
        "inventory",
        "look",
    ]
    assert engine.step("help") == "the help\n"


def test_the_list_is_sorted_as_plain_strings():
    many = tuple(Receptacle(f"cabinet {n}", "cabinet", n, True) for n in range(12, 0, -1))
    engine = Engine(World("t.", Goal("pick", "apple", "table"), 0, many, (), frozenset(), "", ()))
    assert engine.admissible[:4] == ["go to cabinet 1", "go to cabinet 10", "go to cabinet 11", "go to cabinet 12"]


@pytest.mark.parametrize(
    "typed",
    [
        "Look",
        "look.",
        "> look",
        "go to  shelf 1",
        "go to shelf",
        "go to shelf 2",
        "",
        " ",
        "open drawer 1",
        "take bowl 1 from shelf 1",
        "put bowl 1 in/on shelf 1",
        "wait",
    ],
)
def test_what_is_not_listed_changes_nothing(typed):
    engine = room()
    before = engine.admissible
    assert engine.step(typed) == NOTHING
    assert (engine.admissible, engine.score) == (before, 0)


def test_outer_blanks_are_stripped():
    assert room().step("  inventory\n") == "You are not carrying anything."


def test_receptacles_at_one_place_are_reached_together():
    engine = room()
    assert play(engine, "go to shelf 1") == "You arrive at shelf 1. On the shelf 1, you see a bowl 1, and a knife 1."
    assert not {"go to shelf 1", "go to fridge 1", "go to table 1"} & set(engine.admissible)
    assert {"examine fridge 1", "examine shelf 1", "examine table 1"} <= set(engine.admissible)
    assert play(engine, "look") == "You are facing the fridge 1, shelf 1, and table 1. Next to it, you see nothing."
    assert play(engine, "examine fridge 1") == "The fridge 1 is closed."
    assert play(engine, "open fridge 1") == "You open the fridge 1. The fridge 1 is open. In it, you see a apple 2."
    assert play(engine, "close fridge 1") == "You close the fridge 1."


def test_a_thing_is_examined_only_in_the_hand():
    engine = room()
    play(engine, "go to shelf 1")
    assert engine.step("examine knife 1") == NOTHING
    play(engine, "take knife 1 from shelf 1")
    assert play(engine, "examine knife 1") == "There's nothing special about knife 1."
    assert play(engine, "inventory") == "You are carrying: a knife 1."


def test_what_was_moved_within_a_place_lies_next_to_it():
    engine = room()
    play(engine, "go to shelf 1", "take knife 1 from shelf 1")
    assert play(engine, "look").endswith("Next to it, you see nothing.")
    assert play(engine, "move knife 1 to table 1") == "You move the knife 1 to the table 1."
    assert play(engine, "look").endswith("Next to it, you see a knife 1.")
    play(engine, "take knife 1 from table 1", "move knife 1 to shelf 1")
    assert play(engine, "look").endswith("Next to it, you see a knife 1.")  # gone from the table now
    play(
        engine,
        "take knife 1 from shelf 1",
        "move knife 1 to table 1",
        "take knife 1 from table 1",
        "open fridge 1",
        "move knife 1 to fridge 1",
    )
    assert play(engine, "look").endswith("Next to it, you see a knife 1, and a knife 1.")


def test_a_thing_in_two_receptacles_stays_in_the_other():
    engine = room()
    play(engine, "go to shelf 1", "take bowl 1 from shelf 1")
    assert play(engine, "examine table 1") == "On the table 1, you see a bowl 1, and a pen 1."
    assert play(engine, "examine bowl 1") == "This is a normal bowl 1. In it, you see a desklamp 1."
    play(engine, "move bowl 1 to table 1")
    assert play(engine, "examine table 1") == "On the table 1, you see a bowl 1, and a pen 1."


def test_slicing_goes_by_presence_and_not_by_reach():
    engine = room()
    play(engine, "go to shelf 1", "take knife 1 from shelf 1")
    assert "slice apple 2 with knife 1" in engine.admissible  # inside the closed fridge
    play(engine, "go to drawer 1")
    assert play(engine, "slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."
    assert "slice apple 1 with knife 1" in engine.admissible  # again, and through the closed drawer
    play(engine, "open drawer 1", "move knife 1 to drawer 1", "take apple 1 from drawer 1")
    assert play(engine, "examine apple 1") == "This is a sliced apple 1."
    assert not [command for command in engine.admissible if command.startswith("slice")]


def test_taking_clears_presence_only_here():
    """A pen listed at the sink but lying on the table stays listed at the sink."""
    engine = room()
    play(
        engine,
        "go to table 1",
        "take pen 1 from table 1",
        "go to drawer 1",
        "open drawer 1",
        "move pen 1 to drawer 1",
        "take pen 1 from drawer 1",
        "go to sinkbasin 1",
    )
    assert play(engine, "look") == "You are facing the sinkbasin 1. Next to it, you see nothing."
    assert "move pen 1 to sinkbasin 1" not in engine.admissible  # does not fit
    assert (5, 4) in engine._present


def test_treating_needs_no_open_door_and_hot_and_cool_exclude_each_other():
    engine = room()
    play(engine, "go to fridge 1", "open fridge 1", "take apple 2 from fridge 1", "close fridge 1")
    assert play(engine, "examine apple 2") == "This is a cold apple 2."  # it came out of the fridge
    assert play(engine, "go to microwave 1") == "You arrive at microwave 1. The microwave 1 is closed."
    assert play(engine, "heat apple 2 with microwave 1") == "You heat the apple 2 using the microwave 1."
    assert play(engine, "examine apple 2") == "This is a hot apple 2."
    assert play(engine, "go to sinkbasin 1", "clean apple 2 with sinkbasin 1") == (
        "You clean the apple 2 using the sinkbasin 1."
    )
    assert play(engine, "examine apple 2") == "This is a hot and clean apple 2."
    assert play(engine, "go to fridge 1", "cool apple 2 with fridge 1") == "You cool the apple 2 using the fridge 1."
    assert play(engine, "examine apple 2") == "This is a cool and clean apple 2."
    assert engine.held == 0
    play(
        engine,
        "move apple 2 to shelf 1",
        "take knife 1 from shelf 1",
        "slice apple 2 with knife 1",
        "move knife 1 to table 1",
        "take apple 2 from shelf 1",
    )
    assert play(engine, "examine apple 2") == "This is a cool and clean sliced apple 2."
    play(engine, "go to microwave 1", "heat apple 2 with microwave 1")
    assert play(engine, "examine apple 2") == "This is a hot and clean sliced apple 2."


def test_hands_hold_one_thing_and_things_without_a_place_stay_out_of_reach():
    engine = room()
    play(engine, "go to shelf 1", "take knife 1 from shelf 1")
    assert not [command for command in engine.admissible if command.startswith("take")]
    assert not [command for command in engine.admissible if "statue" in command]


def test_a_lamp_works_behind_a_closed_door_and_never_turns_off():
    engine = room("look", "apple", "desklamp")
    assert play(engine, "go to drawer 1", "use desklamp 1") == "You turn on the desklamp 1."
    assert play(engine, "use desklamp 1") == "You turn on the desklamp 1."
    play(engine, "open drawer 1", "take apple 1 from drawer 1")
    assert engine.won  # still on
    play(engine, "go to shelf 1")
    assert not engine.won  # away from the lamp
    play(engine, "go to drawer 1")
    assert engine.won


def test_looking_with_the_thing_first_and_the_lamp_second():
    engine = room("look", "apple", "desklamp")
    play(engine, "go to drawer 1", "open drawer 1", "take apple 1 from drawer 1")
    assert not engine.won
    play(engine, "use desklamp 1")
    assert engine.won


def test_score_is_a_level_and_a_win_can_be_undone():
    engine = room()
    play(
        engine,
        "go to drawer 1",
        "open drawer 1",
        "take apple 1 from drawer 1",
        "go to table 1",
        "move apple 1 to table 1",
    )
    assert (engine.won, engine.score) == (True, 1)
    assert engine.step("nonsense") == NOTHING and engine.score == 1
    play(engine, "take apple 1 from table 1")
    assert (engine.won, engine.score) == (False, 0)


@pytest.mark.parametrize(("kind", "undo"), [("cool", "heat"), ("heat", "cool")])
def test_only_the_treated_state_counts(kind, undo):
    place = {"cool": "fridge 1", "heat": "microwave 1"}
    engine = room(kind, "apple", "drawer")
    play(
        engine,
        "go to drawer 1",
        "open drawer 1",
        "take apple 1 from drawer 1",
        f"go to {place[kind]}",
        f"{kind} apple 1 with {place[kind]}",
        f"go to {place[undo]}",
        f"{undo} apple 1 with {place[undo]}",
        "go to drawer 1",
        "move apple 1 to drawer 1",
    )
    assert not engine.won
    play(
        engine,
        "take apple 1 from drawer 1",
        f"go to {place[kind]}",
        f"{kind} apple 1 with {place[kind]}",
        "go to drawer 1",
        "move apple 1 to drawer 1",
    )
    assert engine.won


def test_what_starts_cool_counts_as_cooled():
    engine = room("cool", "apple", "table")
    play(engine, "go to fridge 1", "open fridge 1", "take apple 2 from fridge 1", "move apple 2 to table 1")
    assert engine.won


def test_two_have_to_be_in_the_same_receptacle():
    engine = room("two", "apple", "table")
    play(
        engine,
        "go to drawer 1",
        "open drawer 1",
        "take apple 1 from drawer 1",
        "go to table 1",
        "move apple 1 to table 1",
    )
    assert not engine.won
    play(engine, "open fridge 1", "take apple 2 from fridge 1", "move apple 2 to table 1")
    assert engine.won


def test_a_goal_that_holds_already_is_won_at_once():
    assert room("pick", "bowl", "shelf").won
    assert not room("pick", "bowl", "drawer").won


def test_an_episode_leaves_help_out_of_the_list_but_answers_it():
    game = HouseholdGame(room().world)
    assert "help" not in game.start().admissible and game.goal == "t."
    assert game.step("help").text == "the help\n"
    seen = game.step("jump")
    assert (seen.text, seen.reward, seen.done, seen.won) == (NOTHING, 0.0, False, False)
