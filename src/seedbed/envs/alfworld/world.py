"""What one household game consists of before anything was done in it: the frozen facts the engine plays on.

Made from a real game file (``problem.py``) or drawn from a seed (``generate.py``); the engine cannot tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from seedbed.envs.alfworld.sentences import MOVE, Dialect


class Receptacle(NamedTuple):
    """A place that holds things. Its position in ``World.receptacles`` is its identity."""

    name: str  #: as shown, e.g. ``drawer 3``
    kind: str  #: type in the goal and the containment table, e.g. ``drawer``
    at: int | None  #: location; None: nobody can go there
    openable: bool  #: starts closed


class Thing(NamedTuple):
    """Anything that is not a receptacle. Its position in ``World.things`` is its identity."""

    name: str
    kind: str
    inside: tuple[int, ...]  #: receptacles it lies in at the start; two happens, none means out of reach
    at: tuple[int, ...]  #: locations it counts as being at; may differ from where its receptacle stands
    properties: frozenset[str]  #: of ``PROPERTIES``
    holds: tuple[int, ...]  #: for a vessel: other things listed in it (a fixed list, also when they have left)


#: What a thing can be. ``cool`` is the only changeable one that may hold at the start (things out of a fridge).
PROPERTIES = frozenset({"pickupable", "cleanable", "heatable", "coolable", "sliceable", "toggleable", "vessel", "cool"})


@dataclass(frozen=True, slots=True)
class Goal:
    """When a game is won. ``kind`` is the task type: pick, look, clean, heat, cool or two."""

    kind: str
    thing: str  #: kind of the thing to place or to look at
    target: str  #: kind of the receptacle to place it in, or of the lamp


@dataclass(frozen=True, slots=True)
class World:
    """Everything about a game that never changes. Lists are in ascending id order, the order of every sentence."""

    task: str  #: the task sentence after "Your task is to: ", full stop included
    goal: Goal
    start: int  #: the agent's first location
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    fits: frozenset[tuple[str, str]]  #: (receptacle kind, thing kind) pairs that ``move`` allows
    help: str  #: answer to ``help``
    walkthrough: tuple[str, ...]  #: commands that win, if any are known
    dialect: Dialect = MOVE
    locations: tuple[str, ...] = ()  #: names of the locations where the dialect shows them


KINDS = ("pick", "look", "clean", "heat", "cool", "two")
