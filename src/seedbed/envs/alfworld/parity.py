"""Does the native engine equal the official one, and how much faster is it? Walks recorded there, replayed here.

A walk has the form of the recorded transcripts that the tests replay: ``game``, ``first``, ``adm0`` and ``steps``, each
step being (command, text, admissible commands, score, done, won).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, zip_longest
from random import Random
from time import process_time
from typing import Any

from seedbed.envs.alfworld import official
from seedbed.envs.alfworld.data import SIZES, GameFiles
from seedbed.envs.alfworld.env import family
from seedbed.envs.alfworld.game import Engine
from seedbed.envs.alfworld.problem import parse_game

Walk = dict[str, Any]

GUIDED = 1 / 3  #: share of the walks that start with the stored walkthrough
#: Malformed commands, each made from one that is admissible at that moment. The padded one is well-formed after all.
MALFORMED: tuple[Callable[[str], str], ...] = (
    lambda _: "",
    lambda _: "   ",
    lambda _: "dance",
    lambda _: "go to",
    lambda _: "take from",
    lambda _: "go to nowhere 1",
    lambda _: "put apple 1 in/on table 1",
    lambda _: "wait",
    lambda command: command.upper(),
    lambda command: f"{command}.",
    lambda command: f"> {command}",
    lambda command: f"{command} 1",
    lambda command: command[:-1],
    lambda command: command.replace(" ", "  ") + "!",
    lambda command: f"  {command}\t",
    lambda command: f"{command}\n{command}",
    lambda command: f"I will {command}",
    lambda command: command.rpartition(" ")[0],
    lambda command: f"{command} ü椅",
    lambda command: f"{command} " * 50 + "?",
)


@dataclass(slots=True)
class Tally:
    """What was compared and what was equal; times are CPU seconds."""

    games: int = 0
    steps: int = 0
    equal: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("first", "text", "admissible", "outcome"), 0))
    differences: list[str] = field(default_factory=list)  #: the first few
    official_load: float = 0.0
    official_step: float = 0.0
    native_load: float = 0.0
    native_step: float = 0.0

    @property
    def exact(self) -> bool:
        return not self.differences

    @property
    def load_ratio(self) -> float:
        return self.official_load / self.native_load

    @property
    def step_ratio(self) -> float:
        return self.official_step / self.native_step


def choose(files: GameFiles, splits: Sequence[str], games: int, rng: Random) -> list[str]:
    """Games with the task kinds of all splits taking turns, drawn without repetition."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for split in splits:
        for game in files.ids(split):
            groups[split, family(game)].append(game)
    for group in groups.values():
        rng.shuffle(group)
    turns = (game for row in zip_longest(*groups.values()) for game in row if game)
    return [game for game, _ in zip(turns, range(games), strict=False)]


def record(files: GameFiles, game: str, steps: int, rng: Random, guided: bool, tally: Tally) -> Walk:
    """Play ``steps`` random admissible commands on the official engine, with a malformed one after every third.

    A ``guided`` walk starts with the stored walkthrough (if there is one), so that winning and playing on are compared.
    """
    began = process_time()
    env, state = official.start(files.path(game))
    tally.official_load += process_time() - began
    walk: Walk = {"game": game, "first": state["feedback"], "adm0": list(state["admissible_commands"]), "steps": []}
    plan = list(parse_game(files.read(game), game).walkthrough) if guided else []
    malformed = cycle(MALFORMED[rng.randrange(len(MALFORMED)) :] + MALFORMED)
    for number in range(steps):
        valid = plan.pop(0) if plan else rng.choice(state["admissible_commands"])
        for command in (valid, next(malformed)(valid)) if number % 3 == 2 else (valid,):
            began = process_time()
            state, score, done = env.step(command)
            tally.official_step += process_time() - began
            admissible = list(state["admissible_commands"])
            walk["steps"].append([command, state["feedback"], admissible, score, done, state["won"]])
    env.close()
    return walk


def replay(files: GameFiles, walk: Walk, tally: Tally) -> None:
    """Play a walk on the native engine and compare everything."""
    game = walk["game"]
    began = process_time()
    engine = Engine(parse_game(files.read(game), game))
    first, listed = engine.intro, engine.admissible
    tally.native_load += process_time() - began
    seen = []
    began = process_time()
    for command, *_ in walk["steps"]:
        text = engine.step(command)
        seen.append((text, engine.admissible, engine.score, engine.won))
    tally.native_step += process_time() - began
    tally.games += 1
    _count(tally, "first", (first, listed), (walk["first"], walk["adm0"]), f"{game}, start")
    for number, (ours, theirs) in enumerate(zip(seen, walk["steps"], strict=True)):
        command, text, admissible, score, done, won = theirs
        where = f"{game}, step {number}, {command!r}"
        tally.steps += 1
        _count(tally, "text", ours[0], text, where)
        _count(tally, "admissible", ours[1], admissible, where)
        _count(tally, "outcome", (ours[2], ours[3], ours[3]), (score, done, won), where)


def _count(tally: Tally, what: str, ours: object, theirs: object, where: str) -> None:
    if ours == theirs:
        tally.equal[what] += 1
    elif len(tally.differences) < 20:
        tally.differences.append(f"{where}: {what} is {ours!r}, officially {theirs!r}")


def compare(
    files: GameFiles, games: int, steps: int, seed: int, splits: Sequence[str] = tuple(SIZES)
) -> Iterator[tuple[Walk, Tally]]:
    """Record one walk after another, then replay them all; yields after each of either, twice a game.

    The native engine plays when all is recorded: between two official steps it would be timed on cold caches.
    """
    tally, walks = Tally(), []
    official.packages()  # or importing them would be timed as loading the first game
    for game in choose(files, splits, games, Random(seed)):
        rng = Random(f"{seed}/{game}")
        walks.append(record(files, game, steps, rng, rng.random() < GUIDED, tally))
        yield walks[-1], tally
    for walk in walks:
        replay(files, walk, tally)
        yield walk, tally
