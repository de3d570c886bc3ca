"""ALFWorld as an environment: real splits from game files, generated splits from seeds, one engine for both.

The option ``backend`` picks the engine of the real games: ``native`` (ours) or ``textworld`` (the official one).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, Literal, get_args

from seedbed.envs.alfworld import data, generate, official
from seedbed.envs.alfworld.game import HouseholdGame
from seedbed.envs.alfworld.official import OfficialGame
from seedbed.envs.alfworld.problem import parse_game
from seedbed.envs.alfworld.world import KINDS, World
from seedbed.envs.base import Environment, Game, register
from seedbed.envs.project import project_tag
from seedbed.prompts.base import Wording
from seedbed.types import Action, Task, UserError

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
    (60,000 tasks) and ``generated_valid`` (6,000) need nothing. ``require_think`` and ``strict_format`` decide which
    responses are invalid (``project_tag``); reasoning is required only where the prompt asks for it.
    """

    instance_names = r"\b[a-z]+ \d+\b"
    wording = Wording(role="You are an agent in a household and act in it by short text commands.")

    def __init__(self, backend: Backend = "native", require_think: bool = True, strict_format: bool = False) -> None:
        """Raises ``UserError`` for an unknown backend."""
        if backend not in get_args(Backend):
            raise UserError(f"env.options.backend={backend!r} is unknown: use one of {', '.join(get_args(Backend))}")
        self.backend, self.require_think, self.strict_format = backend, require_think, strict_format
        if backend == "textworld":
            self.threads = 1  # its parser keeps state of the process: two games at once break each other

    def tasks(self, split: str) -> Sequence[Task]:
        """Real games sorted by id; generated ones with the six kinds taking turns."""
        if split in generate.SIZES:
            return _generated(split)
        if split not in data.SIZES:
            raise UserError(f"environment 'alfworld' has no split {split!r}; use one of {', '.join(SPLITS)}")
        return [_task(game) for game in data.find_games().ids(split)]

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Unpacks an archive of games, and imports the official engine, once."""
        if self.backend == "textworld":
            official.packages()
        if real := [task for task in tasks if task.split not in generate.SIZES]:
            data.find_games().path(real[0].id)

    def open(self, task: Task) -> Game:
        if self.backend == "native":
            return HouseholdGame(self.world(task))
        if task.split in generate.SIZES:
            raise UserError(
                f"split {task.split!r} has no files for backend 'textworld' to play: use env.options.backend=native"
            )
        return OfficialGame(data.find_games().path(task.id))

    def project(self, response: str, require_think: bool) -> Action:
        return project_tag(response, require_think and self.require_think, strict_format=self.strict_format)

    def source(self, task: Task) -> dict[str, str]:
        """The game file, named from the root of the games; a generated task has none."""
        if task.split in generate.SIZES:
            return {}
        content = data.find_games().read(task.id)
        return {"file": f"{task.id}/{data.FILE}", "sha256": sha256(content).hexdigest()}

    def facts(self, task: Task) -> dict[str, Any]:
        """What a score depends on beside the task: engine, format of the games and which responses are valid.

        The format is read off ``task``: a download is of one format. ``other`` can be played on ``textworld`` only.
        """
        try:
            dialect = self.world(task).dialect
            words = {"format": "generated" if task.split in generate.SIZES else dialect.format, "put": dialect.put}
        except UserError:
            if self.backend == "native":
                raise
            words = {"format": "other"}
        engine = {"backend": self.backend} | (official.versions() if self.backend == "textworld" else {})
        return engine | words | {"require_think": self.require_think, "strict_format": self.strict_format}

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
