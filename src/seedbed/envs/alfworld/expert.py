"""A scripted player of household tasks that makes chosen kinds of mistakes, and heeds a skill if it fits the task.

It reads only the goal and the observations, and speaks the format that these are of (``move X to Y`` or ``put X in/on
Y``). Its demonstrations teach a small model to act (the shipped tiny model, or the warm start of a real one): without a
skill it fails in a few well-defined ways, with a fitting skill it nearly does not, with a skill of another task it
plays as without. Ours; the idea of a base policy with removable faults is not from the paper.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from seedbed.envs.alfworld.journal import APPLIANCES, LAMPS, Goal, Journal, kind_of, read_goal

#: Where things usually are: receptacle classes in falling order (counts over ALFWorld's training games, restated).
_USUAL = (
    ("apple bread egg lettuce potato tomato", "countertop diningtable fridge sinkbasin microwave garbagecan"),
    ("butterknife fork knife ladle spatula spoon", "countertop diningtable drawer sinkbasin sidetable"),
    (
        "bowl cup mug plate glassbottle",
        "cabinet countertop fridge diningtable sinkbasin microwave coffeemachine shelf",
    ),
    ("kettle pan pot", "stoveburner countertop cabinet fridge diningtable"),
    ("peppershaker saltshaker papertowelroll winebottle", "cabinet countertop diningtable drawer shelf"),
    (
        "candle cloth dishsponge soapbar soapbottle spraybottle tissuebox toiletpaper",
        "countertop cabinet drawer toilet sinkbasin garbagecan bathtubbasin shelf",
    ),
    ("handtowel towel", "handtowelholder towelholder countertop"),
    (
        "alarmclock cd cellphone creditcard keychain pen pencil watch remotecontrol",
        "drawer desk dresser sidetable shelf sofa coffeetable bed",
    ),
    ("book laptop newspaper pillow box", "bed desk sofa coffeetable diningtable dresser"),
    ("statue vase houseplant wateringcan", "shelf countertop coffeetable diningtable sidetable dresser"),
    ("desklamp floorlamp", "sidetable desk dresser shelf"),
)
_ORDER = {thing: places.split() for things, places in _USUAL for thing in things.split()}
MODES = ("key", "shut", "wrong", "stray")


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a skill says. A workflow names a task kind; an avoidance names a mistake, ``key`` with its kind."""

    flavour: str  #: "workflow" or "avoidance"
    kind: str = ""  #: task kind; empty: every kind
    mistake: str = ""  #: one of ``MODES``, for an avoidance

    def fits(self, kind: str) -> bool:
        return self.kind in ("", kind)


@dataclass(frozen=True, slots=True)
class Mistakes:
    """Rates of the four faults. The first three are drawn once an episode, ``stray`` every turn."""

    key: float = 0.62  #: leaves out what makes the task: treatment, lamp, second object, or (pick) the right place
    shut: float = 0.12  #: never opens a closed place
    wrong: float = 0.06  #: may take an object of another class for the target
    stray: float = 0.06  #: a random move

    def under(self, lesson: Lesson | None, kind: str) -> Mistakes:
        """Rates with ``lesson`` in the skill slot of a task of ``kind``: unchanged if it does not fit."""
        if lesson is None or not lesson.fits(kind):
            return self
        if lesson.flavour == "workflow":
            return Mistakes(key=0.03, shut=0.02, wrong=0.01, stray=0.03)
        rates = {mode: 0.02 if mode == lesson.mistake else 0.7 * getattr(self, mode) for mode in MODES}
        return Mistakes(**rates)


class Expert:
    """Plays one episode: ``first(observation)`` once, then ``next(observation)``; both return an action."""

    def __init__(self, goal: str, rng: random.Random, mistakes: Mistakes, lesson: Lesson | None = None) -> None:
        self.goal: Goal = read_goal(goal)
        self.rng = rng
        rates = mistakes.under(lesson, self.goal.kind)
        self.skips_key, self.leaves_shut, self.takes_wrong = (
            rng.random() < rate for rate in (rates.key, rates.shut, rates.wrong)
        )
        self.stray = rates.stray
        self.journal = Journal()
        self.adopted = ""  # an object of another class taken for the target
        self.goal_place = ""  # the instance delivered to
        self._last = ""

    def first(self, observation: str) -> str:
        self.journal.start(observation)
        self._route = self._ordered(self.goal.target)
        self._lamp_route = self._ordered("desklamp")
        return self._act()

    def next(self, observation: str) -> str:
        self.journal.after(self._last, observation)
        return self._act()

    def _ordered(self, thing: str) -> list[str]:
        """All places in the order of search: likely ones first, with chance in it."""
        usual = _ORDER.get(thing, [])
        weight = {place: 6.0 / (1 + i) for i, place in enumerate(usual)}
        score = {p: self.rng.random() ** (1 / weight.get(kind_of(p), 0.4)) for p in self.journal.places}
        return sorted(self.journal.places, key=score.__getitem__, reverse=True)

    def _act(self) -> str:
        refused = set(self.journal.refused)
        options = self._random() if self.rng.random() < self.stray else self._plan()
        self._last = next(action for action in options if action not in refused or action == "look")
        return self._last

    def _plan(self) -> Iterator[str]:
        held = self.journal.held
        if held and (kind_of(held) == self.goal.target or held == self.adopted):
            yield from self._lamp() if self.goal.kind == "look" else self._deliver(held)
        elif not held and not self._finished():
            yield from self._search(self._route)
        elif self.goal.kind == "two" and self.skips_key:
            yield from self._admire(self.goal_place)
        yield from self._random()

    def _finished(self) -> bool:
        """Believes that nothing is left to do (wrongly, as the game would have ended)."""
        return len(self.journal.moved) >= (2 if self.goal.kind == "two" and not self.skips_key else 1)

    def _search(self, route: list[str]) -> Iterator[str]:
        journal = self.journal
        for place in journal.open_here():
            seen = [o for o in journal.contents.get(place, ()) if place != self.goal_place]
            for thing in seen:
                if kind_of(thing) == self.goal.target:
                    yield f"take {thing} from {place}"
            others = [o for o in seen if kind_of(o) not in LAMPS]
            if self.takes_wrong and not self.adopted and others and self.rng.random() < 0.6:
                self.adopted = self.rng.choice(others)
                yield f"take {self.adopted} from {place}"
        yield from self._open_here()
        for place, things in journal.contents.items():
            if place != self.goal_place and any(kind_of(o) == self.goal.target for o in things):
                yield from self._reach(place)
        yield from self._explore(route)

    def _open_here(self) -> Iterator[str]:
        if not self.leaves_shut:
            yield from (
                f"open {place}"
                for place in self.journal.places
                if place in self.journal.here and place in self.journal.shut
            )

    def _explore(self, route: list[str]) -> Iterator[str]:
        for place in route:
            if place not in self.journal.visited:
                yield f"examine {place}" if place in self.journal.here else f"go to {place}"
        if not self.leaves_shut:
            yield from (f"go to {place}" for place in route if place in self.journal.shut)

    def _reach(self, place: str) -> Iterator[str]:
        if place not in self.journal.here:
            yield f"go to {place}"

    def _lamp(self) -> Iterator[str]:
        if self.skips_key:
            yield from self._admire(self.journal.held)
            return
        for place, things in self.journal.contents.items():
            for thing in things:
                if kind_of(thing) == self.goal.place and thing not in self.journal.lit:
                    yield from self._reach(place)
                    yield f"use {thing}"
        yield from self._open_here()
        yield from self._explore(self._lamp_route)

    def _admire(self, name: str) -> Iterator[str]:
        """Look once at what was done instead of what is left to do."""
        if f"examine {name}" not in self.journal.actions:
            yield f"examine {name}"

    def _deliver(self, held: str) -> Iterator[str]:
        journal, kind = self.journal, self.goal.kind
        if kind in APPLIANCES and not self.skips_key and (kind, held) not in journal.treated:
            for place in journal.places:
                if kind_of(place) in APPLIANCES[kind]:
                    yield from self._reach(place)
                    yield f"{kind} {held} with {place}"
        if not self.goal_place or self._put(held, self.goal_place) in journal.refused:
            self.goal_place = self._choose_place(held)
        if self.goal_place:
            yield from self._reach(self.goal_place)
            if self.goal_place in journal.shut and not self.leaves_shut:
                yield f"open {self.goal_place}"
            yield self._put(held, self.goal_place)

    def _put(self, thing: str, place: str) -> str:
        return self.journal.dialect.put.format(thing=thing, place=place)

    def _choose_place(self, held: str) -> str:
        """An instance to deliver to, near if there is one; for the key mistake the room's first other usual place."""
        open_ones = [p for p in self.journal.places if self._put(held, p) not in self.journal.refused]
        places = [p for p in open_ones if p not in self.journal.shut]
        if self.goal.kind == "pick" and self.skips_key:
            others = [p for p in places if kind_of(p) != self.goal.place]
            return next((p for p in others if kind_of(p) in _ORDER.get(self.goal.target, ())), (others or [""])[0])
        fitting = [p for p in places if kind_of(p) == self.goal.place] or [
            p for p in open_ones if kind_of(p) == self.goal.place
        ]
        near = [p for p in fitting if p in self.journal.here]
        return self.rng.choice(near or fitting) if fitting else ""

    def _random(self) -> Iterator[str]:
        """A random move, and what an idle player does."""
        journal, draw = self.journal, self.rng.random()
        away = [p for p in journal.places if p not in journal.here]
        if draw < 0.25 and journal.here:
            yield "look"
        elif draw < 0.35:
            yield "inventory"
        elif draw < 0.5 and journal.here:
            yield f"examine {min(journal.here)}"
        if away:
            yield f"go to {self.rng.choice(away)}"
        yield "look"
