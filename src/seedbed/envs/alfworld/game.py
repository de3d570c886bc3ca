"""How is a household game played? Commands, effects, winning, and an episode on top.

``Engine`` equals the official text engine step for step (observation, admissible list, score, won), which is checked
against recorded transcripts. ``HouseholdGame`` is one episode of it in the terms of ``envs/base.py``.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict

from seedbed.envs.alfworld import sentences as say
from seedbed.envs.alfworld.world import World
from seedbed.envs.base import Game
from seedbed.types import Observation

_TOOLS = {"clean": ("sink", "sinkbasin"), "heat": ("microwave",), "cool": ("fridge",)}
_ABLE = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}
_BLADES = ("knife", "butterknife")

WIN_REWARD = 10.0  #: return of a won episode (paper code: 10 on success, else 0)

_Move = tuple[str, int, int]  #: verb, thing or receptacle, second thing or receptacle


class Engine:
    """The raw game. It plays on after winning and can un-win; ``score`` is a level, not a difference.

    State is public to read: ``at`` (location), ``held`` (thing or None), ``contents`` (things of each receptacle in id
    order), ``opened``, ``clean``, ``hot``, ``cool``, ``sliced``, ``toggled`` (sets of positions in the world's lists).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.at = world.start
        self.held: int | None = None
        self.contents: list[list[int]] = [[] for _ in world.receptacles]
        self.opened: set[int] = set()
        self.clean: set[int] = set()
        self.hot: set[int] = set()
        self.cool = {o for o, thing in enumerate(world.things) if "cool" in thing.properties}
        self.sliced: set[int] = set()
        self.toggled: set[int] = set()
        self._present = {(o, where) for o, thing in enumerate(world.things) for where in thing.at}
        self._gone: set[tuple[int, int]] = set()  # (thing, receptacle it was taken out of)
        for o, thing in enumerate(world.things):
            for r in thing.inside:
                self.contents[r].append(o)
        goal = world.goal
        self._targets = [r for r, place in enumerate(world.receptacles) if place.kind == goal.target]
        self._wanted = {
            o
            for o, thing in enumerate(world.things)
            if thing.kind == goal.thing and (goal.kind not in _ABLE or _ABLE[goal.kind] in thing.properties)
        }
        self._lamps = {
            o for o, thing in enumerate(world.things) if thing.kind == goal.target and "toggleable" in thing.properties
        }
        self._standing: dict[int, list[int]] = defaultdict(list)  # location -> receptacles there
        for r, place in enumerate(world.receptacles):
            if place.at is not None:
                self._standing[place.at].append(r)
        travel = sorted((f"go to {world.receptacles[r].name}", r) for here in self._standing.values() for r in here)
        self._always: dict[str, _Move] = {text: ("go", r, -1) for text, r in travel} | {
            verb: (verb, -1, -1) for verb in ("inventory", "look", *(("help",) if world.dialect.help else ()))
        }
        self._moves: dict[str, _Move] | None = None
        self.won = self._is_won()

    @property
    def room(self) -> str:
        """The first observation without banner and task. (``look`` at the start says something else.)"""
        return say.room([place.name for place in self.world.receptacles if place.at is not None])

    @property
    def intro(self) -> str:
        """The first observation as the official engine prints it."""
        return f"{say.WELCOME}\n\n{self.room}\n\nYour task is to: {self.world.task}"

    @property
    def score(self) -> int:
        return int(self.won)

    @property
    def admissible(self) -> list[str]:
        """Every command that does something now, in ascending string order (so ``cabinet 10`` before ``cabinet 2``)."""
        return sorted(self._current_moves())

    def step(self, command: str) -> str:
        """Play one command and return what is seen. One that is not admissible changes nothing."""
        move = self._current_moves().get(command.strip())
        if move is None:
            return say.NOTHING_HAPPENS
        text = getattr(self, f"_{move[0]}")(*move[1:])
        self._moves = None
        self.won = self._is_won()
        return text

    # ---- what can be done

    @property
    def _here(self) -> list[int]:
        return self._standing.get(self.at, [])

    def _current_moves(self) -> dict[str, _Move]:
        if self._moves is None:
            self._moves = self._list_moves()
        return self._moves

    def _list_moves(self) -> dict[str, _Move]:
        moves, world = self._always.copy(), self.world
        for r in self._here:
            del moves[f"go to {world.receptacles[r].name}"]
            self._add_moves_at(r, moves)
        if self.held is not None:
            held = world.things[self.held]
            moves[f"examine {held.name}"] = ("examine", self.held, -1)
            if held.kind in _BLADES:  # reaches everything listed here, also behind doors
                for o, thing in enumerate(world.things):
                    if "sliceable" in thing.properties and (o, self.at) in self._present:
                        moves[f"slice {thing.name} with {held.name}"] = ("slice", o, self.held)
        return moves

    def _add_moves_at(self, r: int, moves: dict[str, _Move]) -> None:
        place, things = self.world.receptacles[r], self.world.things
        moves[f"examine {place.name}"] = ("view", r, -1)
        if place.openable:
            verb = "close" if r in self.opened else "open"
            moves[f"{verb} {place.name}"] = (verb, r, -1)
        accessible = not place.openable or r in self.opened
        for o in self.contents[r]:
            name, _, _, _, properties, _ = things[o]
            if "toggleable" in properties:  # also behind a closed door
                moves[f"use {name}"] = ("use", o, -1)
            if accessible and self.held is None and "pickupable" in properties:
                moves[f"take {name} from {place.name}"] = ("take", o, r)
        if self.held is None:
            return
        held = things[self.held]
        if accessible and (place.kind, held.kind) in self.world.fits:
            moves[self.world.dialect.put.format(thing=held.name, place=place.name)] = ("put", self.held, r)
        for verb, kinds in _TOOLS.items():  # needs no open door
            if place.kind in kinds and _ABLE[verb] in held.properties:
                moves[f"{verb} {held.name} with {place.name}"] = (verb, self.held, r)

    # ---- what it does

    def _look(self, _a: int, _b: int) -> str:
        if not self._here:
            return say.room(())
        floor = [
            thing.name
            for o, thing in enumerate(self.world.things)
            if (o, self.at) in self._present
            for r in self._here
            if (o, r) in self._gone
        ]
        return say.facing([self.world.receptacles[r].name for r in self._here], floor)

    def _inventory(self, _a: int, _b: int) -> str:
        return say.inventory(None if self.held is None else self.world.things[self.held].name)

    def _help(self, _a: int, _b: int) -> str:
        return self.world.help

    def _view(self, r: int, _b: int) -> str:
        place = self.world.receptacles[r]
        return say.view(
            place.name, place.openable, r in self.opened, [self.world.things[o].name for o in self.contents[r]]
        )

    def _go(self, r: int, _b: int) -> str:
        place = self.world.receptacles[r]
        self.at = place.at
        where = self.world.locations[self.at] if self.world.dialect.numbered_arrival else place.name
        return f"You arrive at {where}. {self._view(r, -1)}"

    def _open(self, r: int, _b: int) -> str:
        self.opened.add(r)
        return f"You open the {self.world.receptacles[r].name}. {self._view(r, -1)}"

    def _close(self, r: int, _b: int) -> str:
        self.opened.discard(r)
        return f"You close the {self.world.receptacles[r].name}."

    def _take(self, o: int, r: int) -> str:
        self.contents[r].remove(o)  # a thing in two receptacles stays in the other one
        self._gone.add((o, r))
        self._present.discard((o, self.at))  # only here: a thing listed elsewhere stays listed there
        self.held = o
        return f"You pick up the {self.world.things[o].name} from the {self.world.receptacles[r].name}."

    def _put(self, o: int, r: int) -> str:
        if o not in self.contents[r]:
            insort(self.contents[r], o)
        self._gone.discard((o, r))
        self._present.add((o, self.at))
        self.held = None
        return self.world.dialect.placed.format(thing=self.world.things[o].name, place=self.world.receptacles[r].name)

    def _clean(self, o: int, r: int) -> str:
        self.clean.add(o)
        return self._treated("clean", o, r)

    def _heat(self, o: int, r: int) -> str:
        self.hot.add(o)
        self.cool.discard(o)
        return self._treated("heat", o, r)

    def _cool(self, o: int, r: int) -> str:
        self.cool.add(o)
        self.hot.discard(o)
        return self._treated("cool", o, r)

    def _treated(self, verb: str, o: int, r: int) -> str:
        return f"You {verb} the {self.world.things[o].name} using the {self.world.receptacles[r].name}."

    def _use(self, o: int, _b: int) -> str:
        self.toggled.add(o)  # nothing ever turns off
        return f"You turn on the {self.world.things[o].name}."

    def _slice(self, o: int, blade: int) -> str:
        self.sliced.add(o)
        return f"You sliced the {self.world.things[o].name} with the {self.world.things[blade].name}."

    def _examine(self, o: int, _b: int) -> str:
        thing = self.world.things[o]
        if "vessel" in thing.properties:
            return say.vessel(thing.name, [self.world.things[inner].name for inner in thing.holds])
        return say.inspected(
            thing.name, clean=o in self.clean, hot=o in self.hot, cool=o in self.cool, sliced=o in self.sliced
        )

    # ---- winning

    def _is_won(self) -> bool:
        kind = self.world.goal.kind
        if kind == "look":
            return self.held in self._wanted and any(
                o in self.toggled and o in self._lamps for r in self._here for o in self.contents[r]
            )
        good = self._wanted
        if kind in _ABLE:
            good = good & {"clean": self.clean, "heat": self.hot, "cool": self.cool}[kind]
        needed = 2 if kind == "two" else 1
        return len(good) >= needed and any(len(good.intersection(self.contents[r])) >= needed for r in self._targets)


class HouseholdGame(Game):
    """One episode. ``help`` is played when asked for but not listed (paper code: the prompt leaves it out)."""

    def __init__(self, world: World) -> None:
        self.engine = Engine(world)
        self.goal = world.task

    def start(self) -> Observation:
        return observation(self.engine.room, self.engine.admissible, self.engine.won)

    def step(self, action: str) -> Observation:
        text = self.engine.step(action)
        return observation(text, self.engine.admissible, self.engine.won)


def observation(text: str, admissible: list[str], won: bool) -> Observation:
    """What a policy is shown and paid, whichever engine played."""
    listed = tuple([command for command in admissible if command != "help"])
    return Observation(text, listed, WIN_REWARD if won else 0.0, done=won, won=won)
