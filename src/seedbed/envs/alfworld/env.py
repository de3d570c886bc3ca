"""ALFWorld as an environment: real splits from game files, generated splits from seeds, one engine for both.

The option ``backend`` picks the engine of the real games: ``native`` (ours) or ``textworld`` (the official one).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, get_args

from seedbed.envs.alfworld import data, generate
from seedbed.envs.alfworld.game import HouseholdGame
from seedbed.envs.alfworld.official import OfficialGame
from seedbed.envs.alfworld.problem import parse_game
from seedbed.envs.alfworld.world import KINDS, World
from seedbed.envs.base import Environment, Game, register
from seedbed.prompts.base import Wording
from seedbed.types import Task, UserError

Backend = Literal["native", "textworld"]
SPLITS = (*data.SIZES, *generate.SIZES)

#: First word of a game's directory name -> task type.
_FAMILIES = {
    "pick_and_place_simple": "pick",
    "look_at_obj_in_light": "look",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "two",
}


@register("alfworld")
class AlfWorld(Environment):
    """Household tasks in text (ALFWorld, text games of formats 2.1.1 and 2.1.2).

    Splits: ``train``, ``valid_seen``, ``valid_unseen``, ``valid_train`` need the game files; ``generated_train``
    (60,000 tasks) and ``generated_valid`` (6,000) need nothing.
    """

    wording = Wording(role="You are an agent in a household and act in it by short text commands.")

    def __init__(self, backend: Backend = "native") -> None:
        """Raises ``UserError`` for an unknown backend."""
        if backend not in get_args(Backend):
            raise UserError(f"env.options.backend={backend!r} is unknown: use one of {', '.join(get_args(Backend))}")
        self.backend = backend

    def tasks(self, split: str) -> Sequence[Task]:
        """Real games sorted by id; generated ones with the six kinds taking turns."""
        if split in generate.SIZES:
            return _generated(split)
        if split not in data.SIZES:
            raise UserError(f"environment 'alfworld' has no split {split!r}; use one of {', '.join(SPLITS)}")
        return [_task(game) for game in data.find_games().ids(split)]

    def open(self, task: Task) -> Game:
        if self.backend == "native":
            return HouseholdGame(self.world(task))
        if task.split in generate.SIZES:
            raise UserError(
                f"split {task.split!r} has no files for backend 'textworld' to play: use env.options.backend=native"
            )
        return OfficialGame(data.find_games().path(task.id))

    def world(self, task: Task) -> World:
        """The facts of a task. Raises ``UserError`` if its file is missing, broken or of another format."""
        if task.split in generate.SIZES:
            split, kind, index = task.id.split("/")
            return generate.generate(split, kind, int(index))
        files = data.find_games()
        return parse_game(files.read(task.id), str(files.path(task.id)))

    def walkthroughs(self, split: str) -> Iterator[tuple[Task, HouseholdGame, tuple[str, ...]]]:
        """Every game of a split with the commands that win it; ``all`` means the four real splits.

        An archive of games is read through without unpacking it. Raises ``UserError`` at a game that stores none.
        """
        if split in generate.SIZES:
            for task in self.tasks(split):
                world = self.world(task)
                yield task, HouseholdGame(world), world.walkthrough
            return
        if split != "all" and split not in data.SIZES:
            raise UserError(f"environment 'alfworld' has no split {split!r}; use one of {', '.join(SPLITS)}, all")
        for game, content in data.find_games().stream(split):
            world = parse_game(content, game)
            if not world.walkthrough:
                raise UserError(f"{game} stores no walkthrough (format 2.1.1 has none): replay games of format 2.1.2")
            yield _task(game), HouseholdGame(world), world.walkthrough


def family(game: str) -> str:
    """The task type of a game id, out of its directory's name."""
    return _FAMILIES[game.split("/")[1].partition("-")[0]]


def _task(game: str) -> Task:
    return Task(game, "alfworld", game.partition("/")[0], family(game))


@cache
def _generated(split: str) -> tuple[Task, ...]:
    return tuple(
        Task(f"{split}/{kind}/{index:06d}", "alfworld", split, kind)
        for index in range(generate.SIZES[split])
        for kind in KINDS
    )
