"""The command shows, makes and refuses; the checks of an unknown or foreign folder never touch it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from small import Made
from typer.testing import CliRunner

from seedbed.commands.track import as_data, belongs, claim, make, track
from seedbed.tracks.base import Finding, Step, states
from seedbed.train.interrupt import Stopped
from seedbed.types import UserError

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(track)


def run(*words: str) -> tuple[int, str, BaseException | None]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output, result.exception


def test_a_track_that_was_not_begun_is_open_and_makes_no_folder(tmp_path: Path) -> None:
    status, text, _ = run("mechanism", "--dir", str(tmp_path / "new"), "--json")
    steps = json.loads(text)["steps"]
    assert status == 0 and {s["state"] for s in steps} == {"open"} and not (tmp_path / "new").exists()
    assert [s["step"] for s in steps] == ["gap", "stage1", "stage2", "boundary"]
    status, text, _ = run("smoke", "--dir", str(tmp_path / "new"))
    assert status == 0 and "4 of 4 steps are not done" in text


def test_next_makes_one_step_and_a_spoilt_one_gives_status_1(tmp_path: Path) -> None:
    folder = tmp_path / "smoke"
    status, text, _ = run("smoke", "--dir", str(folder), "--next", "--json")
    answer = json.loads(text[text.index("{") :])
    assert status == 0 and [s["state"] for s in answer["steps"]] == ["done", "open", "open", "open"]
    assert answer["steps"][0]["evidence"]["panel"]["shared_with_training"] == 0
    pinned = folder / "pinned.json"
    pinned.write_text(pinned.read_text().replace("generated_train", "generated_valid"))
    status, text, _ = run("smoke", "--dir", str(folder))
    assert status == 1 and "pinned.json was changed" in " ".join(text.replace("│", " ").split())


def test_a_folder_of_something_else_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed" / "model").write_text("weeks of training")
    _, _, error = run("mechanism", "--dir", str(tmp_path), "--all")
    assert isinstance(error, UserError) and "no folder of a track" in str(error)
    assert (tmp_path / "seed" / "model").read_text() == "weeks of training"
    claim(tmp_path / "mine", "smoke")
    belongs(tmp_path / "mine", "smoke")
    with pytest.raises(UserError, match="that of track 'smoke'"):
        claim(tmp_path / "mine", "mechanism")


def test_an_unknown_track_and_two_wishes_are_one_sentence(tmp_path: Path) -> None:
    assert "choose one of mechanism, smoke, strict" in str(run("fast")[2])
    assert "not both" in str(run("smoke", "--next", "--all", "--dir", str(tmp_path))[2])


class Counted(Step):
    """Done once its file holds enough lines; interrupted while it writes the first."""

    title, done_when, name = "counting", "two lines", "count"

    def __init__(self) -> None:
        self.interrupted = False

    def check(self, folder: Path) -> Finding:
        found = (folder / "lines").read_text() if (folder / "lines").is_file() else ""
        return Finding("done", "two") if found == "1\n2\n" else Finding("failed" if found else "open", "fewer")

    def run(self, folder: Path) -> None:
        (folder / "lines").write_text("1\n")
        if not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt
        (folder / "lines").write_text("1\n2\n")


def test_ctrl_c_says_how_to_go_on_and_the_step_is_made_again(tmp_path: Path) -> None:
    steps = (Counted(),)
    with pytest.raises(Stopped, match="--next"):
        make(steps, tmp_path, "smoke", every=True)
    assert states(steps, tmp_path)["count"].state == "failed"
    make(steps, tmp_path, "smoke", every=True)
    assert states(steps, tmp_path)["count"].state == "done"


def test_evidence_is_json(track: Made) -> None:
    found = states(track.steps, track.folder)
    assert json.loads(json.dumps(as_data(track.steps, found, track.folder, track.name)))["track"] == track.name
