"""A deleted or edited artefact turns exactly the steps red that depend on it; every file belongs to one step."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from small import Made, files

from seedbed.tracks.base import next_step, states
from seedbed.tracks.paged import NOT_RECORDS

#: files of a track's folder that no step answers for, beside those that viewers write, and why
EXEMPT = {"track.json": "says whose folder this is; without it the command refuses the folder"}


def test_a_finished_track_is_green_and_nothing_is_left_to_do(track: Made) -> None:
    found = states(track.steps, track.folder)
    assert {name: finding.state for name, finding in found.items()} == dict.fromkeys(found, "done")
    assert all(finding.evidence for finding in found.values()) and next_step(track.steps, track.folder) is None


def test_every_file_belongs_to_exactly_one_step(track: Made) -> None:
    owners = Counter(name for step in track.steps for name in track.owned(step.name))
    assert set(owners.values()) == {1}
    left = {name for name in files(track.folder) - owners.keys() if Path(name).name not in NOT_RECORDS}
    assert left == EXEMPT.keys()


def test_a_step_needs_nothing_but_its_own_files_and_those_of_the_steps_it_names(track: Made, tmp_path: Path) -> None:
    for step in track.steps:
        alone = tmp_path / step.name
        for name in sorted(track.above(step.name)):
            for file in track.owned(name):
                (alone / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(track.folder / file, alone / file)
        assert step.check(alone).state == "done", step.name


def test_each_file_deleted_or_edited_fails_the_step_that_made_it(copy: Made) -> None:
    for step in copy.steps:
        for name in copy.owned(step.name):
            path = copy.folder / name
            content = path.read_bytes()
            path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
            edited = step.check(copy.folder)
            path.unlink()
            deleted = step.check(copy.folder)
            path.write_bytes(content)
            assert edited.state == deleted.state == "failed", name
            assert name in edited.why and name in deleted.why


def test_a_broken_step_turns_those_red_that_build_on_it_and_no_other(copy: Made) -> None:
    for step in copy.steps:
        path = copy.folder / step.files(copy.folder)[0]
        content = path.read_bytes()
        path.write_bytes(content + b" ")
        found = states(copy.steps, copy.folder)
        path.write_bytes(content)
        assert {name for name, finding in found.items() if finding.state == "failed"} == copy.below(step.name)
        assert all(finding.state == "done" for name, finding in found.items() if name not in copy.below(step.name))


def test_a_file_that_was_added_is_seen_and_a_report_is_not(copy: Made) -> None:
    step = next(step for step in copy.steps if "seed" in step.makes)
    folder = copy.folder / "seed"
    (folder / "report.html").write_text("a page for people")
    assert step.check(copy.folder).state == "done"
    (folder / "more.json").write_text("{}")
    assert "more.json was added" in step.check(copy.folder).why


def test_a_step_that_was_cut_short_is_not_done(copy: Made) -> None:
    step = copy.steps[1]
    (copy.folder / step.page).unlink()
    assert step.check(copy.folder).state == "failed" and next_step(copy.steps, copy.folder) is step
    step.clear(copy.folder)
    assert step.check(copy.folder).state == "open"
