"""What an environment must provide: tasks, single-use games, wording, and a reading of responses as actions.

An environment is one object that outlives episodes; a game is one episode of one task and is never reset. See
``docs/add_an_environment.md`` for a complete example in under sixty lines.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from seedbed.envs.project import project_tag
from seedbed.prompts.base import Wording
from seedbed.types import Action, Observation, Task, Trajectory, UserError


class Game(ABC):
    """One episode. ``start`` is called once, then ``step`` until ``done`` or the turn limit.

    An exception out of either is a *fault*: it ends this episode only and is never trained as a failure. A bad action
    of the policy is not a fault: answer it with an observation.
    """

    goal: str  #: the task as one sentence, e.g. "put a clean mug in shelf"

    @abstractmethod
    def start(self) -> Observation:
        """The first observation, without the goal."""

    @abstractmethod
    def step(self, action: str) -> Observation:
        """Play one action."""


class Environment(ABC):
    """A family of tasks under one name."""

    name: str
    wording: Wording

    @abstractmethod
    def tasks(self, split: str) -> Sequence[Task]:
        """All tasks of a split in a fixed order. Raises ``UserError`` for an unknown split."""

    @abstractmethod
    def open(self, task: Task) -> Game:
        """A fresh game. Raises ``UserError`` if the task's data is missing or broken."""

    def measures(self, trajectory: Trajectory) -> dict[str, float]:
        """What else an evaluation should report of a finished episode, beside success; nothing unless overridden."""
        return {}

    def project(self, response: str, require_think: bool) -> Action:
        """Read a response as an action: the first ``<action>`` block after the reasoning (``project_tag``)."""
        return project_tag(response, require_think)


_REGISTRY: dict[str, Callable[..., Environment]] = {}
_SHIPPED = (  #: modules that register themselves when imported
    "seedbed.envs.alfworld.env",
    "seedbed.envs.search.env",
    "seedbed.envs.webshop.env",
)


def register(name: str) -> Callable[[type[Environment]], type[Environment]]:
    """Class decorator: make an environment available under ``env.name``."""

    def add(cls: type[Environment]) -> type[Environment]:
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return add


def make_environment(name: str, **options: object) -> Environment:
    """Build an environment by registered name, or by ``module:Class`` for one of your own.

    Raises ``UserError`` naming the nearest known name.
    """
    if ":" in name:
        module, _, attr = name.partition(":")
        try:
            return getattr(importlib.import_module(module), attr)(**options)
        except (ImportError, AttributeError) as error:
            raise UserError(f"env.name {name!r} cannot be imported: {error}") from error
    for module in _SHIPPED:
        importlib.import_module(module)
    if name not in _REGISTRY:
        near = get_close_matches(name, _REGISTRY, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"unknown environment {name!r}{hint} (known: {', '.join(sorted(_REGISTRY))})")
    try:
        return _REGISTRY[name](**options)
    except TypeError as error:
        raise UserError(f"environment {name!r} does not take these options: {error}") from error
