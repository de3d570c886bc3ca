"""What can be known of a household episode from its goal sentence and its observations alone.

Nothing here looks into a game: the scripted player (``expert.py``) and the rule annotator (``skills/rules.py``) see the
same words as a policy. Sentence forms are those of ALFWorld's text games, both formats and generated ones alike. Ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from seedbed.envs.alfworld.sentences import MOVE, PUT, Dialect

NOTHING = "Nothing happens."
APPLIANCES = {"clean": ("sinkbasin",), "heat": ("microwave",), "cool": ("fridge",)}
LAMPS = ("desklamp", "floorlamp")

_GOALS = (
    ("look", r"examine the (?P<target>\w+) with the (?P<place>\w+)"),
    ("look", r"look at (?P<target>\w+) under the (?P<place>\w+)"),
    ("two", r"(?:put|find) two (?P<target>\w+) (?:and put them )?(?:in|on) (?P<place>\w+)"),
    ("clean", r"(?:clean some|put a clean) (?P<target>\w+) (?:and put it )?(?:in|on) (?P<place>\w+)"),
    ("heat", r"(?:heat some|put a hot) (?P<target>\w+) (?:and put it )?(?:in|on) (?P<place>\w+)"),
    ("cool", r"(?:cool some|put a cool) (?P<target>\w+) (?:and put it )?(?:in|on) (?P<place>\w+)"),
    ("pick", r"put (?:a|an|some) (?P<target>\w+) (?:in|on) (?P<place>\w+)"),
)
_ITEM = re.compile(r"\ban? (\w+ \d+)")
_VIEW = re.compile(
    r"On the (?P<on>\w+ \d+), you see (?P<a>[^.]*)\.|"
    r"The (?P<open>\w+ \d+) is open\. In it, you see (?P<b>[^.]*)\.|The (?P<closed>\w+ \d+) is closed\."
)
_TAKEN = re.compile(r"You pick up the (\w+ \d+) from the (\w+ \d+)\.")
_MOVED = re.compile(r"You (?:move|put) the (\w+ \d+) (?:to|in/on) the (\w+ \d+)\.")
_NUMBERED = re.compile(r"You arrive at loc \d+\.")
_TREATED = re.compile(r"You (clean|heat|cool) the (\w+ \d+) using the (\w+ \d+)\.")
_CLOSED = re.compile(r"You close the (\w+ \d+)\.")
_LIT = re.compile(r"You turn on the (\w+ \d+)\.")


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal sentence read. ``place`` is the receptacle class to deliver to, or the lamp class of a ``look`` task."""

    kind: str  #: pick, look, clean, heat, cool or two
    target: str  #: object class
    place: str


def read_goal(text: str) -> Goal:
    """Raises ``ValueError`` for a sentence that is none of ALFWorld's twelve forms."""
    for kind, pattern in _GOALS:
        if found := re.search(pattern, text):
            return Goal(kind, found["target"], found["place"])
    raise ValueError(f"not a household goal: {text!r}")


def kind_of(name: str) -> str:
    """``mug 1`` -> ``mug``."""
    return name.rpartition(" ")[0]


@dataclass(slots=True)
class Journal:
    """Running beliefs of one episode. Feed ``start`` once, then ``after`` with every action and its answer."""

    places: list[str] = field(default_factory=list)  #: receptacles named in the first observation, in its order
    here: set[str] = field(default_factory=set)  #: receptacles at the current location
    contents: dict[str, list[str]] = field(default_factory=dict)  #: last seen, by receptacle
    shut: set[str] = field(default_factory=set)  #: seen closed and not opened since
    held: str = ""
    treated: set[tuple[str, str]] = field(default_factory=set)  #: (treatment, object)
    lit: set[str] = field(default_factory=set)
    moved: list[tuple[str, str]] = field(default_factory=list)  #: (object, receptacle), in order of delivery
    taken: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  #: actions after which nothing happened
    actions: list[str] = field(default_factory=list)
    dialect: Dialect = MOVE  #: which format speaks; the first arrival tells, and nothing can be put down before it

    def start(self, observation: str) -> None:
        """Read the list of receptacles out of the first observation (a whole prompt holding it will do)."""
        found = re.search(r"you see ([^.]*)\.", observation)
        self.places = _ITEM.findall(found[1]) if found else []

    def after(self, action: str, observation: str) -> None:
        self.actions.append(action)
        if observation.startswith(NOTHING):
            self.refused.append(action)
            if action.startswith("go to ") and action[6:] in self.places:
                self.here.add(action[6:])  # two receptacles can share a location; one is then refused as already here
            return
        if observation.startswith("You arrive at "):
            self.here = {action.removeprefix("go to ")}
            self.dialect = PUT if _NUMBERED.match(observation) else MOVE
        if found := _TAKEN.search(observation):
            self.held = found[1]
            self.taken.append(found[1])
            self.contents[found[2]] = [o for o in self.contents.get(found[2], []) if o != found[1]]
        elif found := _MOVED.search(observation):
            self.held = ""
            self.moved.append((found[1], found[2]))
            self.contents.setdefault(found[2], []).append(found[1])
        elif found := _TREATED.search(observation):
            self.treated.add((found[1], found[2]))
        elif found := _LIT.search(observation):
            self.lit.add(found[1])
        elif found := _CLOSED.search(observation):
            self.shut.add(found[1])
        elif found := _VIEW.search(observation):
            if found["closed"]:
                self.shut.add(found["closed"])
            else:
                place = found["on"] or found["open"]
                self.contents[place] = _ITEM.findall(found["a"] or found["b"])
                self.shut.discard(place)

    @property
    def visited(self) -> set[str]:
        return set(self.contents) | self.shut

    def open_here(self) -> list[str]:
        """Receptacles within reach that are not known to be closed."""
        return [place for place in self.places if place in self.here and place not in self.shut]
