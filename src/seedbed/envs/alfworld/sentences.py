"""What does the household say? Every sentence of the text game, as functions of names and lists.

Wordings are those of the ALFWorld text games (data, MIT licence), so that the native engine equals the official one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
NOTHING_HAPPENS = "Nothing happens."


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the two formats of the game files say differently. Rooms, rules, goals and all other sentences are the same.

    ``put`` (a command) and ``placed`` (its answer) are templates with ``thing`` and ``place``.
    """

    format: str  #: of the game files
    put: str
    placed: str
    numbered_arrival: bool  #: "You arrive at loc 7." instead of the receptacle's name
    help: bool  #: there is a command ``help``


MOVE = Dialect(
    "2.1.2", "move {thing} to {place}", "You move the {thing} to the {place}.", numbered_arrival=False, help=True
)
PUT = Dialect(
    "2.1.1", "put {thing} in/on {place}", "You put the {thing} in/on the {place}.", numbered_arrival=True, help=False
)


def listed(items: Sequence[str]) -> str:
    """``nothing``; one item; or items with commas, also before the ``and`` of two."""
    if not items:
        return "nothing"
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])}, and {items[-1]}"


def things(names: Sequence[str]) -> str:
    """The same with articles, which are always ``a``."""
    return listed([f"a {name}" for name in names])


def room(names: Sequence[str]) -> str:
    return f"You are in the middle of a room. Looking quickly around you, you see {things(names)}."


def facing(receptacles: Sequence[str], floor: Sequence[str]) -> str:
    return f"You are facing the {listed(receptacles)}. Next to it, you see {things(floor)}."


def view(receptacle: str, openable: bool, opened: bool, contents: Sequence[str]) -> str:
    if not openable:
        return f"On the {receptacle}, you see {things(contents)}."
    return f"The {receptacle} is open. In it, you see {things(contents)}." if opened else f"The {receptacle} is closed."


def inventory(held: str | None) -> str:
    return f"You are carrying: a {held}." if held else "You are not carrying anything."


def inspected(name: str, *, clean: bool, hot: bool, cool: bool, sliced: bool) -> str:
    """A held thing that is no vessel. Alone a cool thing is "cold", in combinations it is "cool"."""
    heat = "hot" if hot else "cool" if cool else ""
    state = " and ".join(word for word in (heat, "clean" if clean else "") if word)
    if state == "cool" and not sliced:
        state = "cold"
    state = " ".join(word for word in (state, "sliced" if sliced else "") if word)
    return f"This is a {state} {name}." if state else f"There's nothing special about {name}."


def vessel(name: str, contents: Sequence[str]) -> str:
    return f"This is a normal {name}. In it, you see {things(contents)}."
