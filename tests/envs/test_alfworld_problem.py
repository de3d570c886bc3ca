"""Reading problem texts: names, order and the odd shapes that the published games have."""

from __future__ import annotations

import json

import pytest

from seedbed.envs.alfworld.game import Engine
from seedbed.envs.alfworld.problem import parse_game, read_problem
from seedbed.envs.alfworld.world import Goal
from seedbed.types import UserError

GOAL = (
    "(and (exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) (objectType ?o MugType)"
    " (receptacleType ?r ShelfType)))))"
)
FACTS = """
    (atLocation agent1 loc_0)
    (receptacleType Shelf_bar__plus_01 ShelfType) (receptacleAtLocation Shelf_bar__plus_01 loc_1)
    (receptacleType Shelf_bar__minus_09 ShelfType) (receptacleAtLocation Shelf_bar__minus_09 loc_2)
    (receptacleType Shelf_bar__minus_01 ShelfType) (receptacleAtLocation Shelf_bar__minus_01 loc_3)
    (receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType) (receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_4)
    (receptacleType Cabinet_bar_5 CabinetType)
    (objectType Sink_bar_1 SinkType)
    (objectType Mug_bar_2 MugType) (pickupable Mug_bar_2) (isReceptacleObject Mug_bar_2)
    (inReceptacle Mug_bar_2 Shelf_bar__plus_01) (inReceptacle Mug_bar_2 Shelf_bar__minus_01)
    (objectType Mug_bar_1 MugType)
    (inReceptacleObject Mug_bar_2 Mug_bar_2) (inReceptacleObject Mug_bar_1 Mug_bar_2)
    (objectAtLocation Mug_bar_2 loc_9) (objectAtLocation Mug_bar_2 loc_9)
    (canContain ShelfType MugType) (canContain ShelfType MugType)
"""


def read(facts: str = FACTS, goal: str = GOAL):
    text = f"(define (problem p) (:objects Pan_bar_1 - object)\n(:init {facts})\n(:goal {goal}))"
    return read_problem(text, "t.", "h", ())


def test_numbers_descend_in_id_order_and_minus_sorts_first():
    world = read()
    assert [r.name for r in world.receptacles] == ["cabinet 1", "shelf 3", "shelf 2", "shelf 1", "sinkbasin 1"]
    assert [o.name for o in world.things] == ["mug 2", "mug 1", "sink 1"]  # a pan that is only declared does not exist
    assert Engine(world).room.endswith("you see a shelf 3, a shelf 2, a shelf 1, and a sinkbasin 1.")


def test_bathtub_is_a_basin_whatever_its_second_name():
    for tub in ("Bathtub_bar_1_bar_BathtubBasin", "Bathtub_bar_1_bar_SinkBasin"):
        world = read(FACTS + f"(receptacleType {tub} BathtubBasinType)")
        assert world.receptacles[0].name == "bathtubbasin 1"


def test_odd_shapes_are_kept():
    world = read()
    mug = world.things[1]
    assert (mug.kind, mug.inside, len(mug.at)) == ("mug", (1, 3), 1)
    assert mug.holds == (0,)  # listed in itself, but never seen in itself
    assert mug.properties == {"pickupable", "vessel"}
    assert world.receptacles[0].at is None
    assert world.fits == {("shelf", "mug")}
    assert world.goal == Goal("pick", "mug", "shelf")


def test_an_unknown_goal_or_fact_is_no_world():
    with pytest.raises(ValueError, match="unknown goal"):
        read(goal=GOAL.replace("(objectType", "(isDirty ?o) (objectType"))
    with pytest.raises(ValueError, match="isdirty"):
        read(FACTS + "(isDirty Mug_bar_2)")
    with pytest.raises(ValueError, match="plain atoms"):
        read(FACTS + "(not (pickupable Mug_bar_2))")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[1]",
        b"3",
        b"{}",
        b'{"pddl_domain": 1}',
        json.dumps(dict(pddl_domain=1, grammar=2, pddl_problem=3)).encode(),
    ],
)
def test_what_is_no_game_file_is_named(content):
    with pytest.raises(UserError, match=r"^room\.tw-pddl is not a complete ALFWorld game file"):
        parse_game(content, "room.tw-pddl")


def test_another_domain_is_refused():
    with pytest.raises(UserError, match=r"^room\.tw-pddl has a domain .* would play wrongly"):
        parse_game(json.dumps(dict(pddl_domain="(define)", grammar="", pddl_problem="")), "room.tw-pddl")
