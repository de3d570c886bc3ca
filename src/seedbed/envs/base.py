"""What an environment must provide: tasks, single-use games, wording, and a reading of responses as actions.

An environment is one object that outlives episodes; a game is one episode of one task and is never reset. See
``docs/add_an_environment.md`` for a complete example in under sixty lines.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from seedbed.envs.project import project_tag
from seedbed.prompts.base import Wording
from seedbed.types import Action, Observation, Task, Trajectory, UserError

if TYPE_CHECKING:
    from seedbed.config import EnvSettings


class Game(ABC):
    """One episode. ``start`` is called once, then ``step`` until ``done`` or the turn limit, one call at a time.

    An exception out of either, or no answer for ``env.patience_s``, is a *fault*: it ends this episode only and is
    never trained as a failure. A bad action of the policy is not a fault: answer it with an observation.
    """

    goal: str  #: the task as one sentence, e.g. "put a clean mug in shelf"

    @abstractmethod
    def start(self) -> Observation:
        """The first observation, without the goal."""

    @abstractmethod
    def step(self, action: str) -> Observation:
        """Play one action."""


class Environment(ABC):
    """A family of tasks under one name.

    ``open`` and the calls of different games come from several threads at once; everything else from one.
    """

    name: str
    wording: Wording
    workers: int = 16  #: games that may be in a call at once: ``env.workers``
    patience_s: float = 300.0  #: a call that takes longer is given up as a fault: ``env.patience_s``
    threads: int | None = None  #: greatest number of workers that the games bear; 1 if what they use is not thread-safe
    waits_s: float = 0.0  #: longest that one call may wait by limits of its own, which the patience must not cut off
    instance_names: str = ""  #: pattern of names that only one game has ("drawer 3"): a skill should not carry them

    @abstractmethod
    def tasks(self, split: str) -> Sequence[Task]:
        """All tasks of a split in a fixed order. Raises ``UserError`` for an unknown split."""

    def prepare(self, tasks: Sequence[Task]) -> None:  # noqa: B027 - nothing unless overridden
        """Load what their games share and takes long. Called before they are opened, with no time limit; then cheap."""

    @abstractmethod
    def open(self, task: Task) -> Game:
        """A fresh game. Raises ``UserError`` if the task's data is missing or broken."""

    def secrets(self, task: Task) -> tuple[str, ...]:
        """Texts that give this very task away (gold answers): an audit looks for them in skills."""
        return ()

    def source(self, task: Task) -> dict[str, str]:
        """The ``file`` a task is of and its ``sha256``, for tracing rows back to it; nothing unless overridden."""
        return {}

    def facts(self, task: Task) -> dict[str, Any]:
        """What decides the meaning of a score on ``task`` beside the task: data format, engine, rules. JSON values.

        Stored as ``env_facts`` with every evaluation and in the manifest of runs that play; nothing unless overridden.
        """
        return {}

    def measures(self, trajectory: Trajectory) -> dict[str, float]:
        """What else an evaluation should report of a finished episode, beside success; nothing unless overridden."""
        return {}

    def project(self, response: str, require_think: bool) -> Action:
        """Read a response as an action: the first ``<action>`` block after the reasoning (``project_tag``)."""
        return project_tag(response, require_think)


_REGISTRY: dict[str, Callable[..., Environment]] = {}
_SHIPPED = (  #: modules that register themselves when imported
    "seedbed.envs.alfworld.env",
    "seedbed.envs.ezpoints.env",
    "seedbed.envs.search.env",
    "seedbed.envs.sokoban.env",
    "seedbed.envs.webshop.env",
)


def register(name: str) -> Callable[[type[Environment]], type[Environment]]:
    """Class decorator: make an environment available under ``env.name``."""

    def add(cls: type[Environment]) -> type[Environment]:
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return add


def environment_from(settings: EnvSettings) -> Environment:
    """The environment of a configuration. See ``make_environment``."""
    environment = make_environment(settings.name, **settings.options)
    environment.workers, environment.patience_s = settings.workers, settings.patience_s
    return environment


def make_environment(name: str, **options: object) -> Environment:
    """Build an environment by registered name, or by ``module:Class`` for one of your own.

    Raises ``UserError`` naming the nearest known name.
    """
    if ":" in name:
        module, _, attr = name.partition(":")
        try:
            made: Callable[..., Environment] = getattr(importlib.import_module(module), attr)
        except (ImportError, AttributeError) as error:
            raise UserError(f"env.name {name!r} cannot be imported: {error}") from error
        return _made(made, name, options)
    for module in _SHIPPED:
        importlib.import_module(module)
    if name not in _REGISTRY:
        near = get_close_matches(name, _REGISTRY, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"unknown environment {name!r}{hint} (known: {', '.join(sorted(_REGISTRY))})")
    return _made(_REGISTRY[name], name, options)


def _made(make: Callable[..., Environment], name: str, options: dict[str, object]) -> Environment:
    try:
        return make(**options)
    except TypeError as error:
        raise UserError(f"environment {name!r} does not take these options: {error}") from error
