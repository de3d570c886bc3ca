"""How is a game played on the official stack (alfworld on textworld)? Slow; for comparison, and for other grammars.

Only this file touches those packages, and only when a game is opened with it: they are the extra ``alfworld``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seedbed.envs.alfworld.game import observation
from seedbed.envs.alfworld.sentences import WELCOME
from seedbed.envs.base import Game
from seedbed.types import Observation, UserError

_TASK = "Your task is to: "


@cache
def packages() -> tuple[Any, list[Any]]:
    """``textworld`` and alfworld's two wrappers. Raises ``UserError`` if they are not installed."""
    before = os.environ.get("ALFWORLD_DATA")
    os.environ["ALFWORLD_DATA"] = before or tempfile.gettempdir()  # else alfworld makes a directory and sets this
    try:
        import textworld  # noqa: PLC0415 - an extra
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos  # noqa: PLC0415
    except ImportError as error:
        raise UserError(
            f"the official ALFWorld engine is not installed ({error}): run pip install 'seedbed[alfworld]', or use "
            "env.options.backend=native"
        ) from error
    finally:
        if before is None:
            del os.environ["ALFWORLD_DATA"]
    return textworld, [AlfredDemangler, AlfredInfos]


def start(path: Path) -> tuple[Any, Mapping[str, Any]]:
    """The loaded official environment of a game file, and its state after the reset.

    Set up as alfworld's own ``AlfredTWEnv`` does for evaluation, without its batching and step limit. Raises
    ``UserError`` if the packages are missing.
    """
    textworld, wrappers = packages()
    wanted = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    env = textworld.start(str(path), wanted, wrappers=wrappers)
    return env, env.reset()


def versions() -> dict[str, str]:
    """Of the packages that decide how a game is played there."""
    return {name: version(name) for name in ("alfworld", "textworld", "fast-downward-textworld")}


class OfficialGame(Game):
    """One episode on the official engine, seen exactly as ``HouseholdGame`` shows it."""

    def __init__(self, path: Path) -> None:
        self._env, self._state = start(path)
        self._room, _, task = self._state["feedback"].removeprefix(f"{WELCOME}\n\n").partition("\n\n")
        self.goal = task.removeprefix(_TASK)

    def start(self) -> Observation:
        return observation(self._room, self._state["admissible_commands"], self._state["won"])

    def step(self, action: str) -> Observation:
        state, _, _ = self._env.step(action)
        return observation(state["feedback"], state["admissible_commands"], state["won"])
