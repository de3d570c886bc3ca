"""``seedbed panel list | show | check``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from seedbed.commands.panel import app
from seedbed.envs import panels
from seedbed.envs.alfworld.game import HouseholdGame
from seedbed.types import UserError


def run(*args: str):
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def own(monkeypatch, tmp_path):
    """A folder of panels with one in it, to be spoilt."""
    (tmp_path / "household-120.json").write_bytes((panels.DIRECTORY / "household-120.json").read_bytes())
    monkeypatch.setattr(panels, "DIRECTORY", tmp_path)
    return tmp_path / "household-120.json"


def test_list_names_size_and_hash():
    lines = run("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(panels.panel_names())
    (line,) = [line for line in lines if line.startswith("alfworld-unseen-134 ")]
    assert line.split()[1:3] == ["alfworld", "134"] and "pick 24" in line
    assert panels.load_panel("alfworld-unseen-134").hash[:12] in line


def test_show_gives_hash_and_ids():
    head, *lines = run("show", "household-120").stdout.splitlines()
    panel = panels.load_panel("household-120")
    assert head == f"# household-120: 120 tasks of alfworld, sha256 {panel.hash}"
    assert lines == [f"{task.kind} {task.id}" for task in panel.tasks]
    assert isinstance(run("show", "nothing").exception, UserError)


def test_check_opens_every_task(monkeypatch, tmp_path):
    started = []
    plain = HouseholdGame.start
    monkeypatch.setattr(HouseholdGame, "start", lambda self: started.append(1) or plain(self))
    result = run("check", "household-120")
    assert (result.exit_code, result.stdout) == (0, "household-120: hash ok; all 120 tasks open\n")
    assert len(started) == 120
    monkeypatch.delenv("SEEDBED_DATA", raising=False)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    result = run("check", "alfworld-seen-140")
    assert result.exit_code == 0 and "hash ok; tasks not opened: no ALFWorld games" in result.stdout


def test_check_finds_an_edited_file_and_a_task_that_is_not_there(own):
    content = json.loads(own.read_text())
    content["tasks"][7][1] = "generated_valid/look/9999"
    own.write_text(json.dumps(content))
    result = run("check")
    assert result.exit_code == 1 and "household-120: BROKEN: panel file" in result.stdout
    tasks = tuple(panels.Task(t, "alfworld", "generated_valid", kind) for kind, t in content["tasks"])
    own.write_text(json.dumps(content | {"sha256": panels._hash(tasks)}))
    result = run("check")
    assert result.exit_code == 1 and "BROKEN: task 'generated_valid/look/9999' is not in split" in result.stdout
