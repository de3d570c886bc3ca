"""What of ALFWorld is on this machine? (``seedbed doctor``)"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError

from seedbed.envs.alfworld import official
from seedbed.envs.alfworld.data import SIZES, GameFiles, find_games, listed
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.alfworld.problem import parse_game
from seedbed.envs.doctor import Finding
from seedbed.types import UserError

_INSTALL = "pip install 'seedbed[alfworld]'"


def check() -> list[Finding]:
    return [_native(), _files(), _official()]


def _native() -> Finding:
    environment = AlfWorld()
    game = environment.open(environment.tasks("generated_valid")[0])
    return Finding("native engine", "ok", f"generated splits need no files ({game.goal!r} opens)")


def _files() -> Finding:
    try:
        files = find_games()
    except UserError as error:
        return Finding("game files", "missing", str(error).partition(";")[0], _download())
    try:
        counts = files.counts()
    except UserError as error:
        return Finding("game files", "missing", str(error).partition(";")[0], f"rm {files.place}")
    if counts != SIZES:
        detail = f"{files.place} has {listed(counts)}; published are {listed(SIZES)}"
        return Finding("game files", "missing", detail, _download())
    try:
        return Finding("game files", "ok", f"{files.place}: {listed(counts)}, {_format(files)}")
    except UserError as error:
        return Finding("game files", "missing", str(error), _download())


def _format(files: GameFiles) -> str:
    game, content = next(files.stream("all"))
    put = parse_game(content, game).dialect.put.format(thing="X", place="Y")
    return f"format with {put!r}"


def _download() -> str:
    """``alfworld-download`` comes with the extra and fetches format 2.1.2 at the version that is pinned there."""
    place = os.environ.get("ALFWORLD_DATA")
    command = f"alfworld-download -f --data-dir {place}" if place else "alfworld-download -f"
    return command if _installed() else f"{_INSTALL} && {command}"


def _installed() -> dict[str, str]:
    try:
        return official.versions()
    except PackageNotFoundError:
        return {}


def _official() -> Finding:
    part = "backend textworld"
    if versions := _installed():
        return Finding(part, "ok", ", ".join(f"{name} {number}" for name, number in versions.items()))
    return Finding(part, "optional", "the official engine is not installed; the native one does without", _INSTALL)
