"""The tutorials are followed to the letter: every command in them is run, on the small tracks."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from small import Made
from typer.testing import CliRunner

from seedbed.cli import app
from seedbed.commands.show import show
from seedbed.commands.track import TRACKS, track
from seedbed.tracks import mechanism as mechanism_track
from seedbed.tracks import smoke as smoke_track
from seedbed.tracks.paged import PagedStep

EXPENSIVE = {"eval"}  #: plays the whole panel: it is run with the small track's settings instead


def commands(page: Path) -> list[list[str]]:
    """Every line of the fenced blocks, as words."""
    blocks = re.findall(r"^```\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def complete():
    """The whole command line, with the commands of the tracks whether or not it lists them already."""
    names = {command.name for command in app.registered_commands}
    for function in (track, show):
        if function.__name__ not in names:
            app.command(name=function.__name__)(function)
    return app


@pytest.mark.parametrize("name", ["mechanism", "smoke"])
def test_every_command_of_the_tutorial_runs(
    name: str, complete, request, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Made = request.getfixturevalue(name)
    shutil.copytree(made.folder, tmp_path / "runs" / f"track-{name}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr({"mechanism": mechanism_track, "smoke": smoke_track}[name], "STEPS", made.steps)
    ran = 0
    for words in commands(root / "docs" / "tracks" / f"{name}.md"):
        assert words[0] == "seedbed"
        small = ["rollout.max_turns=2"] if words[1] in EXPENSIVE else []
        result = CliRunner().invoke(complete, [*words[1:], *small])
        assert result.exit_code == 0, (words, result.output, result.exception)
        assert result.output.strip()
        ran += 1
    assert ran >= 4


@pytest.mark.parametrize("steps", [mechanism_track.STEPS, smoke_track.STEPS], ids=["mechanism", "smoke"])
def test_the_tutorial_names_every_step_and_its_page(steps: tuple[PagedStep, ...], root: Path) -> None:
    name = "mechanism" if steps is mechanism_track.STEPS else "smoke"
    text = (root / "docs" / "tracks" / f"{name}.md").read_text("utf-8")
    assert name in TRACKS
    for step in steps:
        assert f"`{step.name}`" in text and f"`{step.page}`" in text
