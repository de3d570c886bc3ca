"""How does a ``game.tw-pddl`` file become a ``World``?

All 4,027 published games share one domain and, but for the task sentence, one grammar. Two formats of them are in use:
2.1.2 (``move X to Y``, since alfworld 0.4.0) and the older 2.1.1 (``put X in/on Y``, arrivals at numbered locations, no
``help``, no stored walkthrough), with the same problems and rules. The engine hard-codes those rules, so any other
domain or grammar is refused instead of being played wrongly.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from functools import lru_cache
from hashlib import sha256

from seedbed.envs.alfworld import sentences as say
from seedbed.envs.alfworld.world import Goal, Receptacle, Thing, World
from seedbed.types import UserError

#: (sha256 of the domain, sha256 of the grammar with the task sentence cut out) -> how the game speaks.
FORMATS = {
    (
        "0af55e7f92d12b09d28515aa730e4d03fddd17228ef1fd7b18a3ee8ba49b27b9",
        "10da93e13b58e1a6039723f5d4a59ceae7c60772515bfab9fc603bafa7f8ee06",
    ): say.MOVE,
    (
        "34172c333dff7e62eb90e85367fa5519b5f31b3849e56123d96dbc0deda50e27",
        "de0a5951f63a9b4f91f174c56b77d639d55d935b828aa39d92a156b1670e0a5a",
    ): say.PUT,
}

#: Skeleton of the goal formula (its operators and predicates in order) -> task type.
_GOALS = {
    "and exists exists and inreceptacle objecttype receptacletype": "pick",
    "and exists and objecttype toggleable istoggled receptacleatlocation atlocation inreceptacle"
    " exists and objecttype holds": "look",
    "and exists exists and cleanable objecttype receptacletype isclean inreceptacle": "clean",
    "and exists exists and heatable objecttype receptacletype ishot inreceptacle": "heat",
    "and exists exists and coolable objecttype receptacletype iscool inreceptacle": "cool",
    "and exists exists and objecttype receptacletype inreceptacle"
    " exists and not = objecttype receptacletype inreceptacle": "two",
}
_RECEPTACLE_FACTS = ("receptacleatlocation", "receptacletype", "openable")
_PROPERTY = {"isreceptacleobject": "vessel", "iscool": "cool"} | {
    name: name for name in ("pickupable", "cleanable", "heatable", "coolable", "sliceable", "toggleable")
}
_THING_FACTS = ("objecttype", "objectatlocation", "inreceptacle", *_PROPERTY)
_KNOWN = {*_RECEPTACLE_FACTS, *_THING_FACTS, "atlocation", "cancontain", "inreceptacleobject"}

_TASK = re.compile(r'Your task is to: ([^"]*)"')
_HELP = re.compile(r'action help \{.*?feedback :: "\n(.*?)";', re.DOTALL)
_PARTS = re.compile(r"\(:init|\(:goal")
_OPERATOR = re.compile(r"\(\s*([a-z]+|=)[\s)]")
_TYPED = re.compile(r"\((objecttype|receptacletype) \S+ (\w+?)(?:type)?\)")


def parse_game(data: bytes | str, source: str) -> World:
    """The world of a game file's content. ``source`` is the file's name, for messages.

    Raises ``UserError`` if the content is no complete game, or has a domain, grammar or goal other than the published
    text games of formats 2.1.1 and 2.1.2.
    """
    try:
        game = json.loads(data)
        domain, grammar, problem = game["pddl_domain"], game["grammar"], game["pddl_problem"]
        walkthrough = tuple(game.get("walkthrough") or ())
        hashes = (_sha256(domain), _sha256(_TASK.sub('Your task is to: "', grammar, count=1)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{source} is not a complete ALFWorld game file ({type(error).__name__}: {error}); "
            "delete it and unpack or download the data again"
        ) from error
    if hashes not in FORMATS:
        strange = "grammar" if any(hashes[0] == known for known, _ in FORMATS) else "domain"
        raise UserError(
            f"{source} has a {strange} that this engine does not know and would play wrongly; use the ALFWorld text "
            "games of format 2.1.1 ('put X in/on Y') or 2.1.2 ('move X to Y'), or env.options.backend=textworld"
        )
    dialect = FORMATS[hashes]
    try:
        help_text = _HELP.search(grammar)[1] if dialect.help else ""
        return read_problem(problem, _TASK.search(grammar)[1], help_text, walkthrough, dialect)
    except (ValueError, AttributeError) as error:
        raise UserError(
            f"{source} holds a problem that is cut off or of an unknown shape ({error}); "
            "delete it and unpack or download the data again"
        ) from error


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def read_problem(
    problem: str, task: str, help_text: str, walkthrough: tuple[str, ...], dialect: say.Dialect = say.MOVE
) -> World:
    """The world of a PDDL problem text. Raises ``ValueError`` for anything the engine has no rule for."""
    _, init, goal = _PARTS.split(problem.lower())
    facts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for atom in init.replace(")", " ").split("(")[1:]:  # faster than a regular expression
        match atom.split():
            case [predicate, first, second]:
                facts[predicate].append((first, second))
            case [predicate, first]:
                facts[predicate].append((first, ""))
            case _:
                raise ValueError("facts that are not plain atoms")
    if unknown := facts.keys() - _KNOWN:
        raise ValueError(f"unknown facts {', '.join(sorted(unknown))}")

    # An entity is what occurs in a fact; what is only declared has no number and is never seen.
    inner = facts["inreceptacleobject"]
    receptacle_ids = sorted({i for p in _RECEPTACLE_FACTS for i, _ in facts[p]} | {r for _, r in facts["inreceptacle"]})
    thing_ids = sorted({i for p in _THING_FACTS for i, _ in facts[p]} | {i for pair in inner for i in pair})
    names = _names({*receptacle_ids, *thing_ids})
    places = {name: n for n, name in enumerate(receptacle_ids)}
    numbers = {name: n for n, name in enumerate(thing_ids)}
    locations: dict[str, int] = {}

    def location(name: str) -> int:
        return locations.setdefault(name, len(locations))

    ((_, start),) = facts["atlocation"]
    stands = {r: location(where) for r, where in facts["receptacleatlocation"]}
    kind = {i: t.removesuffix("type") for p in ("receptacletype", "objecttype") for i, t in facts[p]}
    openable = {r for r, _ in facts["openable"]}
    inside: defaultdict[str, set[int]] = defaultdict(set)
    at: defaultdict[str, set[int]] = defaultdict(set)
    holds: defaultdict[str, set[int]] = defaultdict(set)
    properties: defaultdict[str, set[str]] = defaultdict(set)
    for thing, receptacle in facts["inreceptacle"]:
        inside[thing].add(places[receptacle])
    for thing, where in facts["objectatlocation"]:
        at[thing].add(location(where))
    for small, big in inner:
        if small != big:  # 21 games list a thing in itself; it is never shown there
            holds[big].add(numbers[small])
    for predicate, label in _PROPERTY.items():
        for thing, _ in facts[predicate]:
            properties[thing].add(label)
    return World(
        task=task,
        goal=_goal(goal),
        start=location(start),
        receptacles=tuple(Receptacle(names[r], kind.get(r, ""), stands.get(r), r in openable) for r in receptacle_ids),
        things=tuple(
            Thing(
                names[o],
                kind.get(o, ""),
                tuple(sorted(inside[o])),
                tuple(sorted(at[o])),
                frozenset(properties[o]),
                tuple(sorted(holds[o])),
            )
            for o in thing_ids
        ),
        fits=_fits(tuple(facts["cancontain"])),
        help=help_text,
        walkthrough=walkthrough,
        dialect=dialect,
        locations=tuple(map(_names(set(locations)).get, locations)) if dialect.numbered_arrival else (),
    )


@lru_cache(maxsize=256)
def _fits(pairs: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    """The containment table; there are 109 different ones, shared by the games that have them."""
    return frozenset((r.removesuffix("type"), o.removesuffix("type")) for r, o in pairs)


def _names(ids: set[str]) -> dict[str, str]:
    """Display names. Within a class the first id in plain string order gets the highest number."""
    classes = {i: i.split("_bar_", 1)[0] + ("basin" if "basin" in i else "") for i in ids}
    left = Counter(classes.values())
    names = {}
    for i in sorted(ids):
        names[i] = f"{classes[i]} {left[classes[i]]}"
        left[classes[i]] -= 1
    return names


def _goal(text: str) -> Goal:
    skeleton = " ".join(_OPERATOR.findall(text))
    if skeleton not in _GOALS:
        raise ValueError(f"unknown goal {skeleton!r}")
    kind = _GOALS[skeleton]
    typed = _TYPED.findall(text)
    if kind == "look":
        (_, lamp), (_, thing) = typed
        return Goal(kind, thing, lamp)
    (_, thing), (_, target) = typed[:2]
    return Goal(kind, thing, target)
