"""What of each benchmark is on this machine, and which one command brings what is missing?

Every benchmark has a module ``health`` with ``check() -> list[Finding]``. It reads, and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

#: benchmark -> module with its ``check``
CHECKS = {
    "alfworld": "seedbed.envs.alfworld.health",
    "webshop": "seedbed.envs.webshop.health",
    "search": "seedbed.envs.search.health",
    "sokoban": "seedbed.envs.sokoban.health",
    "ezpoints": "seedbed.envs.ezpoints.health",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of a benchmark. ``optional`` is missing, but nothing of the paper's needs it."""

    part: str  #: e.g. "game files"
    state: Literal["ok", "missing", "optional"]
    detail: str  #: what is there, or what is not
    mend: str = ""  #: the one command that brings it; empty where nothing is to be done


def examine(benchmark: str) -> list[Finding]:
    """Findings about a benchmark of ``CHECKS``; none if this version does not have it."""
    module = CHECKS[benchmark]
    try:
        return import_module(module).check()
    except ModuleNotFoundError as error:
        if not module.startswith(str(error.name)):
            raise
        return []
