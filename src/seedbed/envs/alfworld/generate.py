"""How does a seed become a household? Small worlds of the six task kinds, for machines without the game files.

A world is a pure function of (split, kind, index). Only ``Random.random`` is used, whose sequence Python guarantees
across versions. Every world is played to its end by the walkthrough stored in it before it is handed out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import TypeVar

from seedbed.envs.alfworld import household as house
from seedbed.envs.alfworld.game import Engine
from seedbed.envs.alfworld.world import Goal, Receptacle, Thing, World

SIZES = {"generated_train": 10_000, "generated_valid": 1_000}  #: worlds per task kind
SURPRISE = 0.08  #: chance that a thing is somewhere it fits but is not usually found

_T = TypeVar("_T")
_ENTRY = re.compile(r"([a-z]+)(!?)(\d*)")


class _Dice:
    def __init__(self, seed: str) -> None:
        self.random = Random(seed).random

    def pick(self, options: Sequence[_T]) -> _T:
        return options[int(self.random() * len(options))]

    def weighted(self, options: Sequence[tuple[_T, int]]) -> _T:
        return self.pick([value for value, weight in options for _ in range(weight)])

    def between(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))


@cache
def _entries(text: str) -> tuple[tuple[str, bool, int], ...]:
    """(name, marked, number) of each word of a table entry."""
    return tuple((name, bool(mark), int(number or 1)) for name, mark, number in _ENTRY.findall(text))


@cache
def _fits() -> frozenset[tuple[str, str]]:
    habits = {
        (where, thing)
        for room in house.HABITS.values()
        for thing, text in room.items()
        for where, _, _ in _entries(text)
    }
    return frozenset(habits | {(where, thing) for where, text in house.ROOM_FOR.items() for thing in text.split()})


@cache
def _choices(kind: str, room: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(thing, receptacle kinds it may have to be brought to) for a task kind in a room; at the least one other place
    where such a thing usually is must be left.
    """
    _, tool, able, _ = house.TASKS[kind]
    places = [name for name, _, _ in _entries(house.ROOMS[room])]
    out = []
    for thing, text in house.HABITS[room].items():
        usual = {name for name, _, _ in _entries(text)} - {tool}
        targets = tuple(p for p in places if (p, thing) in _fits() and p != tool and usual - {p})
        if targets and (able is None or thing in able):
            out.append((thing, targets))
    return tuple(out)


def generate(split: str, kind: str, index: int) -> World:
    """The world ``<split>/<kind>/<index>``. Different splits draw from different seeds."""
    dice = _Dice(f"seedbed household 1 {split} {kind} {index}")
    rooms, tool, _, phrases = house.TASKS[kind]
    room = dice.pick(rooms.split())
    thing, targets = dice.pick(_choices(kind, room))
    target = house.LAMP if kind == "look" else dice.pick(targets)

    avoid = {target, tool}
    usual = [(where, weight) for where, _, weight in _entries(house.HABITS[room][thing]) if where not in avoid]
    sources = [dice.weighted(usual) for _ in range(2 if kind == "two" else 1)]
    needed = {*sources, *({tool} if tool else ())}
    if kind == "look":
        stand = dice.pick([name for name, _, _ in _entries(house.ROOMS[room]) if name in house.LAMP_STANDS])
        needed.add(stand)
    else:
        needed.add(target)
    places = _furnish(dice, room, needed)

    def one_of(where: str) -> int:
        return dice.pick([r for r, name in enumerate(places) if name == where])

    put: list[tuple[str, int]] = [(thing, one_of(where)) for where in sources]
    if kind == "look":
        put.append((house.LAMP, one_of(stand)))
    size = dice.between(6, 10)
    while len(put) < size:
        other = dice.pick(list(house.HABITS[room]))
        where = _place(dice, room, other, places, avoid if other == thing else set())
        if where is not None:
            put.append((other, where))
    return _walked(_world(dice, places, put, Goal(kind, thing, target), dice.pick(phrases)))


def _furnish(dice: _Dice, room: str, needed: set[str]) -> list[str]:
    """Receptacle kinds of 6 to 9 receptacles, sorted by kind."""
    most = {name: number for name, _, number in _entries(house.ROOMS[room])}
    have = Counter(needed | {name for name, always, _ in _entries(house.ROOMS[room]) if always})
    size = dice.between(6, 9)
    while have.total() < size:
        have[dice.weighted([(name, number - have[name]) for name, number in most.items()])] += 1
    return sorted(have.elements())


def _place(dice: _Dice, room: str, thing: str, places: list[str], avoid: set[str | None]) -> int | None:
    """A receptacle for a thing: usually a usual one, sometimes any it fits in; None if there is none."""
    weights = {where: weight for where, _, weight in _entries(house.HABITS[room][thing])}
    if dice.random() < SURPRISE:
        weights = {where: 1 for where in places if (where, thing) in _fits()}
    options = [(r, weights[name]) for r, name in enumerate(places) if name in weights and name not in avoid]
    return dice.weighted(options) if options else None


def _numbered(kinds: list[str]) -> list[str]:
    """Names of things sorted by kind. The first of a kind gets the highest number, as in the published games."""
    left = Counter(kinds)
    names = []
    for kind in kinds:
        names.append(f"{kind} {left[kind]}")
        left[kind] -= 1
    return names


def _world(dice: _Dice, places: list[str], put: list[tuple[str, int]], goal: Goal, phrase: str) -> World:
    put = sorted(put, key=lambda item: (item[0], dice.random()))
    receptacles = tuple(
        Receptacle(name, kind, r + 1, kind in house.OPENABLE)
        for r, (kind, name) in enumerate(zip(places, _numbered(places), strict=True))
    )
    things = tuple(
        Thing(name, kind, (r,), (r + 1,), _properties(kind, places[r]), ())
        for (kind, r), name in zip(put, _numbered([kind for kind, _ in put]), strict=True)
    )
    return World(
        task=phrase.format(thing=goal.thing, target=goal.target),
        goal=goal,
        start=0,
        receptacles=receptacles,
        things=things,
        fits=_fits(),
        help=house.HELP,
        walkthrough=(),
    )


@cache
def _properties(kind: str, where: str) -> frozenset[str]:
    if kind == house.LAMP:
        return frozenset({"toggleable"})
    tables = {
        "cleanable": house.CLEANABLE,
        "heatable": house.HEATABLE,
        "coolable": house.COOLABLE,
        "sliceable": house.SLICEABLE,
        "vessel": house.VESSELS,
    }
    cool = {"cool"} if where == "fridge" and kind in house.COOLABLE else set()
    return frozenset({"pickupable", *cool, *(label for label, members in tables.items() if kind in members)})


def _walked(world: World) -> World:
    """The world with a walkthrough, played in the engine. An inadmissible or unsuccessful one is our bug."""
    engine, commands = Engine(world), []

    def do(command: str) -> None:
        if command not in engine.admissible or engine.won:
            raise AssertionError(f"generated walkthrough breaks at {command!r} after {commands} in {world}")
        engine.step(command)
        commands.append(command)

    def visit(r: int) -> None:
        place = world.receptacles[r]
        if engine.at != place.at:
            do(f"go to {place.name}")
        if place.openable and r not in engine.opened:
            do(f"open {place.name}")

    goal = world.goal
    tool = house.TASKS[goal.kind][1]
    wanted = [thing for thing in world.things if thing.kind == goal.thing][: 2 if goal.kind == "two" else 1]
    end = next((r for r, place in enumerate(world.receptacles) if place.kind == goal.target), None)
    for thing in wanted:
        visit(thing.inside[0])
        do(f"take {thing.name} from {world.receptacles[thing.inside[0]].name}")
        if tool:
            machine = next(place for place in world.receptacles if place.kind == tool)
            do(f"go to {machine.name}")
            do(f"{goal.kind} {thing.name} with {machine.name}")
        if goal.kind == "look":
            lamp = next(lamp for lamp in world.things if lamp.kind == house.LAMP)
            stand = world.receptacles[lamp.inside[0]]
            if engine.at != stand.at:
                do(f"go to {stand.name}")
            do(f"use {lamp.name}")
        else:
            visit(end)
            do(f"move {thing.name} to {world.receptacles[end].name}")
    if not engine.won:
        raise AssertionError(f"generated walkthrough {commands} does not win {world}")
    return replace(world, walkthrough=tuple(commands))
