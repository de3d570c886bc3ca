"""Generated worlds: solvable, deterministic, disjoint, and played by the rules as written down a second time here."""

from __future__ import annotations

import copy
import itertools
import random
from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.alfworld.game import Engine, HouseholdGame
from seedbed.envs.alfworld.generate import SIZES, generate
from seedbed.envs.alfworld.world import KINDS, World

NOTHING = "Nothing happens."
worlds = st.builds(generate, st.sampled_from(sorted(SIZES)), st.sampled_from(KINDS), st.integers(0, 999))


@given(worlds)
@settings(max_examples=150, deadline=None)
def test_the_walkthrough_wins_with_its_last_command_and_not_before(world: World):
    game = HouseholdGame(world)
    seen = game.start()
    for command in world.walkthrough:
        assert not seen.won and command in seen.admissible
        seen = game.step(command)
    assert (seen.won, seen.done, seen.reward) == (True, True, 10.0)
    assert 3 <= len(world.walkthrough) <= 12


@given(worlds)
@settings(max_examples=100, deadline=None)
def test_a_world_is_a_small_room_with_its_goal_unmet(world: World):
    goal = world.goal
    assert 6 <= len(world.receptacles) <= 9 and 6 <= len(world.things) <= 10
    assert len({r.name for r in world.receptacles}) == len(world.receptacles)
    assert len({o.name for o in world.things}) == len(world.things)
    assert len(Engine(world).room) < 260
    here = [o for o in world.things if o.kind == goal.thing]
    assert len(here) >= (2 if goal.kind == "two" else 1)
    if goal.kind == "look":
        assert [o.kind for o in world.things if "toggleable" in o.properties] == ["desklamp"]
    else:
        assert (goal.target, goal.thing) in world.fits
        assert goal.target in {r.kind for r in world.receptacles}
        assert all(world.receptacles[r].kind != goal.target for o in here for r in o.inside)
    assert all(
        (world.receptacles[r].kind, o.kind) in world.fits or o.kind == "desklamp"
        for o in world.things
        for r in o.inside
    )
    assert goal.thing in world.task and goal.target in world.task and world.task.endswith(".")


def legal(engine: Engine) -> set[str]:
    """The command table, by trying every verb on everything."""
    world, places, things, held = engine.world, engine.world.receptacles, engine.world.things, engine.held
    out = {"look", "inventory", "help"}
    for r, place in enumerate(places):
        here = place.at == engine.at
        reachable = here and (not place.openable or r in engine.opened)
        out |= {f"go to {place.name}"} if not here else {f"examine {place.name}"}
        if here and place.openable:
            out.add(f"close {place.name}" if r in engine.opened else f"open {place.name}")
        for o, thing in enumerate(things):
            if reachable and held is None and o in engine.contents[r] and "pickupable" in thing.properties:
                out.add(f"take {thing.name} from {place.name}")
            if reachable and held == o and (place.kind, thing.kind) in world.fits:
                out.add(f"move {thing.name} to {place.name}")
            if here and o in engine.contents[r] and "toggleable" in thing.properties:
                out.add(f"use {thing.name}")
            for verb, able, machine in (
                ("clean", "cleanable", "sinkbasin"),
                ("heat", "heatable", "microwave"),
                ("cool", "coolable", "fridge"),
            ):
                if here and held == o and able in thing.properties and place.kind == machine:
                    out.add(f"{verb} {thing.name} with {place.name}")
    if held is not None:
        mine = things[held]
        out.add(f"examine {mine.name}")
        if mine.kind in ("knife", "butterknife"):  # in these rooms a thing counts as being where it lies
            near = {o for r, place in enumerate(places) if place.at == engine.at for o in engine.contents[r]}
            out |= {f"slice {things[o].name} with {mine.name}" for o in near if "sliceable" in things[o].properties}
    return out


def everything(world: World) -> set[str]:
    names = [entity.name for entity in (*world.receptacles, *world.things)]
    pairs = list(itertools.product(names, names))
    verbs = ("go to", "open", "close", "examine", "use")
    return {
        "look",
        "inventory",
        "help",
        "go",
        *(f"{verb} {name}" for verb in verbs for name in names),
        *(f"take {a} from {b}" for a, b in pairs),
        *(f"move {a} to {b}" for a, b in pairs),
        *(f"{verb} {a} with {b}" for verb in ("clean", "heat", "cool", "slice") for a, b in pairs),
    }


@given(worlds, st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_the_list_is_the_command_table_and_exactly_what_does_something(world: World, seed: int):
    rng, engine = random.Random(seed), Engine(world)
    for _ in range(40):
        assert engine.admissible == sorted(legal(engine))
        assert sum(map(len, engine.contents)) + (engine.held is not None) == len(world.things)
        engine.step(rng.choice([c for c in engine.admissible if not c.startswith("go ")] * 2 + engine.admissible))
    before = engine.admissible
    for command in sorted(everything(world)):
        happened = (
            copy.deepcopy(engine).step(command) != NOTHING
            if command in before
            else (engine.step(command) != NOTHING or engine.admissible != before)
        )
        assert happened == (command in before), command


def test_worlds_do_not_change_between_versions():
    """Panels name generated tasks by id, so an id must mean the same world everywhere."""
    made = [generate(split, kind, index) for split in SIZES for kind in KINDS for index in (0, 7, 999)]
    text = "\n".join(
        f"{Engine(w).room} {w.task} {[(o.name, o.inside) for o in w.things]} {w.walkthrough}" for w in made
    )
    assert sha256(text.encode()).hexdigest() == "79db2b4084a3678a3621787fcdb4bf4bc545dac0193bc0cbd7efa3c1470352b7"
    assert made == [generate(split, kind, index) for split in SIZES for kind in KINDS for index in (0, 7, 999)]


def test_no_validation_world_is_a_training_world():
    def key(world: World) -> tuple[object, ...]:
        return world.task, world.receptacles, world.things

    train = {key(generate("generated_train", kind, n)) for kind in KINDS for n in range(300)}
    valid = {key(generate("generated_valid", kind, n)) for kind in KINDS for n in range(100)}
    assert len(train) == 1800 and len(valid) == 600 and not train & valid


def test_all_twelve_sentences_and_all_rooms_occur():
    made = [generate("generated_train", kind, n) for kind in KINDS for n in range(60)]
    patterns = {
        tuple({w.goal.thing: "X", f"{w.goal.target}.": "Y."}.get(word, word) for word in w.task.split()) for w in made
    }
    assert len(patterns) == 12
    landmarks = {"fridge": 0, "bed": 0, "toilet": 0, "sofa": 0}
    for world in made:
        (room,) = {r.kind for r in world.receptacles} & landmarks.keys()
        landmarks[room] += 1
    assert min(landmarks.values()) >= 15


def test_generated_splits_take_the_kinds_in_turn():
    env = AlfWorld()
    tasks = env.tasks("generated_train")
    assert len(tasks) == 60_000 and len(env.tasks("generated_valid")) == 6_000
    assert len({t.id for t in tasks}) == 60_000
    assert [t.kind for t in tasks[:12]] == list(KINDS) * 2
    assert tasks[6 * 123 + KINDS.index("heat")].id == "generated_train/heat/000123"
    task = tasks[6 * 123 + KINDS.index("heat")]
    assert env.world(task) == generate("generated_train", "heat", 123)
    assert env.open(task).goal == env.world(task).task
