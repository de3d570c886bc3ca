"""How a household episode is annotated by rules: the offline stand-in for the external analyzer of Stage 1.

``annotate`` sees what an external analyzer would see (goal, actions, observations, outcome) and nothing of the game. A
success gives a workflow, a failure an avoidance rule (paper 1.1); no text names an instance such as ``drawer 3``.
Episodes of both formats of the games get the same texts: a skill says what to do, the game how to word it. The
wordings and the detection of mistakes are ours.
"""

from __future__ import annotations

import random
import zlib

from seedbed.envs.alfworld.expert import Lesson
from seedbed.envs.alfworld.journal import NOTHING, Goal, Journal, kind_of, read_goal
from seedbed.prompts.analyzer import answer_text
from seedbed.types import Skill, Trajectory, replace

KINDS = ("pick", "look", "clean", "heat", "cool", "two")

_WORKFLOW = {
    "pick": (
        "To put an object in its place: find it, open closed places, take it, then move it to the place of the task.",
        "Search for the object and open what is closed; take it and move it straight to the place of the task.",
    ),
    "look": (
        "To examine an object with a lamp: find it, open closed places, take it, go to the lamp and use the lamp.",
        "Search for the object and open what is closed; take it, carry it to the lamp and use the lamp.",
    ),
    "clean": (
        "To clean an object: find it, open closed places, take it, clean it with the sinkbasin, then move it.",
        "Search for the object and open what is closed; take it, clean it with the sinkbasin before you move it.",
    ),
    "heat": (
        "To heat an object: find it, open closed places, take it, heat it with the microwave, then move it.",
        "Search for the object and open what is closed; take it, heat it with the microwave before you move it.",
    ),
    "cool": (
        "To cool an object: find it, open closed places, take it, cool it with the fridge, then move it.",
        "Search for the object and open what is closed; take it, cool it with the fridge before you move it.",
    ),
    "two": (
        "To put two objects in a place: find one, open closed places, take it, move it, then find and move the second.",
        "Search for one object and open what is closed; take it, move it, then do the same with the second.",
    ),
}
_AVOID = {
    ("key", "pick"): (
        "Do not move the object to any other place than the place of the task.",
        "Never put the object down in a place that the task does not name.",
    ),
    ("key", "look"): (
        "Do not stop after you take the object: go to the lamp and use the lamp.",
        "Never hold the object idly without the lamp: use the lamp.",
    ),
    ("key", "clean"): (
        "Do not move the object before you clean it with the sinkbasin.",
        "Never place the object without the sinkbasin: clean it first.",
    ),
    ("key", "heat"): (
        "Do not move the object before you heat it with the microwave.",
        "Never place the object without the microwave: heat it first.",
    ),
    ("key", "cool"): (
        "Do not move the object before you cool it with the fridge.",
        "Never place the object without the fridge: cool it first.",
    ),
    ("key", "two"): (
        "Do not stop after the first object: find and move the second.",
        "Never end with one object: find and move the second.",
    ),
    ("shut", ""): (
        "Do not leave closed places shut: open each of them and look inside.",
        "Never pass by a closed place: open it and look inside.",
    ),
    ("wrong", ""): (
        "Do not take another object: take only the object that the task names.",
        "Never take an object that the task does not name.",
    ),
    ("stray", ""): (
        "Do not waste turns on useless moves: visit each place once until you find the object.",
        "Never repeat useless moves: go on to the next place until you find the object.",
    ),
}
_WON = {
    "pick": "The object was moved to its place.",
    "look": "The object was examined with the lamp.",
    "clean": "The object was cleaned and moved.",
    "heat": "The object was heated and moved.",
    "cool": "The object was cooled and moved.",
    "two": "Both objects were moved.",
}
_LOST = {
    ("key", "pick"): "The object was moved to another place.",
    ("key", "look"): "The lamp was not used.",
    ("key", "clean"): "The object was moved but not cleaned.",
    ("key", "heat"): "The object was moved but not heated.",
    ("key", "cool"): "The object was moved but not cooled.",
    ("key", "two"): "The second object was not moved.",
    ("shut", ""): "Closed places were left shut.",
    ("wrong", ""): "Another object was taken.",
    ("stray", ""): "Turns were wasted before the end.",
}


def lessons(kind: str) -> tuple[Lesson, ...]:
    """All lessons that fit a task kind: its workflow, its own mistake, the mistakes of every kind."""
    return (
        Lesson("workflow", kind),
        Lesson("avoidance", kind, "key"),
        *(Lesson("avoidance", "", mistake) for mistake in ("shut", "wrong", "stray")),
    )


def phrase(lesson: Lesson, variant: int = 0) -> str:
    """The lesson as a sentence for the policy; ``variant`` picks one of the wordings (modulo their number)."""
    options = _WORKFLOW[lesson.kind] if lesson.flavour == "workflow" else _AVOID[lesson.mistake, lesson.kind]
    return options[variant % len(options)]


def summary(lesson: Lesson) -> str:
    """What happened in an episode that taught this lesson, in one sentence with its outcome."""
    if lesson.flavour == "workflow":
        return f"Won. {_WON[lesson.kind]}"
    return f"Lost. {_LOST[lesson.mistake, lesson.kind]}"


def right_skill(kind: str, rng: random.Random) -> str:
    """A workflow of the same task kind."""
    return phrase(Lesson("workflow", kind), rng.randrange(2))


def wrong_skill(kind: str, rng: random.Random) -> str:
    """A workflow of another task kind."""
    return phrase(Lesson("workflow", rng.choice([k for k in KINDS if k != kind])), rng.randrange(2))


def annotate(trajectory: Trajectory) -> Skill:
    """The hindsight skill of a finished household episode. Raises ``ValueError`` if the goal is not of this game."""
    lesson = diagnose(trajectory)
    skill = Skill(
        trajectory.id,
        lesson.flavour,
        "ok",
        phrase(lesson, zlib.crc32(trajectory.id.encode())),
        summary(lesson),
        source="rules",
        version=trajectory.version,
    )
    return replace(skill, raw=answer_text(skill))


def diagnose(trajectory: Trajectory) -> Lesson:
    """The one lesson of an episode: its workflow if it was won, else the gravest mistake that its words show."""
    goal, journal = read_goal(trajectory.goal), Journal()
    journal.start(trajectory.turns_K[0].prompt.text)
    for turn in trajectory.turns_K:
        journal.after(turn.action.text, turn.observation or NOTHING)
    return lesson_of(goal, trajectory.won, journal)


def lesson_of(goal: Goal, won: bool, journal: Journal) -> Lesson:
    """The same for a bare journal. Mistakes by falling gravity: key step, wrong object, closed places, turns."""
    if won:
        return Lesson("workflow", goal.kind)
    moved = [(thing, place) for thing, place in journal.moved if kind_of(thing) == goal.target]
    if goal.kind == "look":
        missed = any(kind_of(thing) == goal.target for thing in journal.taken) and not journal.lit
    elif goal.kind == "pick":
        missed = any(kind_of(place) != goal.place for _, place in moved)
    elif goal.kind == "two":
        missed = len({thing for thing, _ in moved}) == 1
    else:
        missed = any((goal.kind, thing) not in journal.treated for thing, _ in moved)
    if missed:
        return Lesson("avoidance", goal.kind, "key")
    if any(kind_of(thing) != goal.target for thing in journal.taken):
        return Lesson("avoidance", "", "wrong")
    return Lesson("avoidance", "", "shut" if journal.shut else "stray")
