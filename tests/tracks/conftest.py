"""Both CPU tracks, made once and small: the same steps with other settings."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from small import SMALL, Made

from seedbed.commands.track import claim, make
from seedbed.tracks import mechanism as mechanism_track
from seedbed.tracks import smoke as smoke_track
from seedbed.tracks.paged import PagedStep


def made(folder: Path, name: str, steps: Sequence[PagedStep]) -> Made:
    torch.set_num_threads(1)
    claim(folder, name)
    make(steps, folder, name, every=True)
    return Made(name, folder, tuple(steps))


@pytest.fixture(scope="session")
def mechanism(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("mechanism"), "mechanism", mechanism_track.steps(SMALL))


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("smoke"), "smoke", smoke_track.steps((*SMALL, "eval.every=1")))


@pytest.fixture(params=["mechanism", "smoke"])
def track(request: pytest.FixtureRequest) -> Made:
    return request.getfixturevalue(request.param)


@pytest.fixture
def copy(track: Made, tmp_path: Path) -> Made:
    """The track in a folder of its own, to be spoilt."""
    folder = tmp_path / "copy"
    shutil.copytree(track.folder, folder)
    return Made(track.name, folder, track.steps)
