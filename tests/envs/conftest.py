"""Where the real games are, for the tests that need them (they are skipped without)."""

from __future__ import annotations

import json
import lzma
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seedbed.envs.alfworld.data import ARCHIVE, GameFiles


@dataclass(frozen=True)
class RealGames:
    ids: list[str]  #: all of the archive
    content: dict[str, bytes]  #: the validation splits, a tenth of train, and what was recorded


@pytest.fixture(scope="session")
def alfworld_dir() -> Path:
    root = os.environ.get("SEEDBED_DATA")
    if not root or not (Path(root) / "alfworld").is_dir():
        pytest.skip("SEEDBED_DATA does not hold alfworld/: no real games here")
    return Path(root) / "alfworld"


@pytest.fixture(scope="session")
def transcripts(alfworld_dir: Path) -> list[dict[str, Any]]:
    """Episodes of the official engine: game, first, adm0 and steps (command, text, list, reward, done, won)."""
    file = Path(os.environ.get("SEEDBED_ALFWORLD_REF") or alfworld_dir / "ref_transcripts.json.xz")
    if not file.is_file():
        pytest.skip(f"no recorded transcripts at {file}")
    with lzma.open(file) as stream:
        return json.load(stream)


@pytest.fixture(scope="session")
def real_games(alfworld_dir: Path, transcripts: list[dict[str, Any]]) -> RealGames:
    if not (alfworld_dir / ARCHIVE).is_file():
        pytest.skip(f"no {ARCHIVE} in SEEDBED_DATA/alfworld")
    recorded = {episode["game"].removesuffix("/game.tw-pddl") for episode in transcripts}
    ids: list[str] = []
    content: dict[str, bytes] = {}
    for n, (game, data) in enumerate(GameFiles(alfworld_dir / ARCHIVE).stream("all")):
        ids.append(game)
        if not game.startswith("train/") or n % 10 == 0 or game in recorded:
            content[game] = data
    return RealGames(ids, content)
