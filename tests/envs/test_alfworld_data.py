"""Finding real games: directories, archives, and everything that can be wrong with them. Contents here are dummies."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from random import Random

import pytest

from seedbed.envs.alfworld import data
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.types import UserError

MARK = '{"pddl_problem": "\\"solvable\\": false", "solvable": true, "walkthrough": []}'
GAMES = [
    "valid_seen/pick_two_obj_and_place-Watch-None-Dresser-205/trial_2",
    "valid_seen/look_at_obj_in_light-Bowl-None-DeskLamp-316/trial_1",
    "train/pick_cool_then_place_in_recep-Pan-None-Shelf-1/trial_9",
]


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.delenv("SEEDBED_DATA", raising=False)
    monkeypatch.setenv("SEEDBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(data, "SIZES", {"train": 1, "valid_seen": 2, "valid_unseen": 0, "valid_train": 0})


def content(game: str) -> str:
    return f"{game} {MARK}"


def tree(root: Path) -> Path:
    for game in GAMES:
        (root / "json_2.1.1" / game).mkdir(parents=True)
        (root / "json_2.1.1" / game / "game.tw-pddl").write_text(content(game))
    return root


def archive(root: Path, *more: tuple[str, bytes]) -> Path:
    root.mkdir(parents=True)
    members = [(f"json_2.1.1/{game}/game.tw-pddl", content(game).encode()) for game in GAMES]
    with tarfile.open(root / data.ARCHIVE, "w:xz") as tar:
        for name, text in (*members, *more):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return root / data.ARCHIVE


def test_nothing_set_says_what_to_do():
    with pytest.raises(UserError, match=r"neither ALFWORLD_DATA nor SEEDBED_DATA is set; run .*generated_train"):
        AlfWorld().tasks("valid_seen")


def test_a_set_but_empty_place_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SEEDBED_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"there is no .*alfworld/json_2\.1\.1 and no .*\.tar\.xz; "):
        data.find_games()
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "typo"))
    with pytest.raises(UserError, match=r"there is no .*typo/json_2\.1\.1; "):
        data.find_games()


def test_the_official_directory_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("ALFWORLD_DATA", str(tree(tmp_path / "official")))
    monkeypatch.setenv("SEEDBED_DATA", str(tmp_path))
    tasks = AlfWorld().tasks("valid_seen")
    assert [(t.id, t.kind) for t in tasks] == [(GAMES[1], "look"), (GAMES[0], "two")]
    assert data.find_games().read(GAMES[2]) == content(GAMES[2]).encode()
    with pytest.raises(UserError, match=r"trial_0/game\.tw-pddl cannot be read"):
        data.find_games().read("valid_seen/pick_two_obj_and_place-Watch-None-Dresser-205/trial_0")


def test_where_the_download_goes_when_it_is_told_nothing_is_found_too(tmp_path):
    tree(tmp_path / "home" / ".cache" / "alfworld")
    assert len(AlfWorld().tasks("valid_seen")) == 2


def test_partial_data_is_an_error_that_says_what_was_found(monkeypatch, tmp_path):
    root = tree(tmp_path)
    monkeypatch.setenv("ALFWORLD_DATA", str(root))
    (root / "json_2.1.1" / GAMES[0] / "game.tw-pddl").unlink()
    with pytest.raises(
        UserError, match=r"not hold the whole split 'valid_seen': found train 1, valid_seen 1, .*splits have train 1, v"
    ):
        AlfWorld().tasks("valid_seen")
    assert len(AlfWorld().tasks("train")) == 1  # the others stay usable


def test_games_that_nobody_can_win_and_other_families_are_left_out(monkeypatch, tmp_path):
    root = tree(tmp_path)
    extra = {
        "pick_and_place_with_movable_recep-Pen-Mug-Desk-3": MARK,
        "pick_and_place_simple-AppleSliced-None-Fridge-1": MARK,
        "pick_and_place_simple-Plunger-None-Cabinet-406": MARK.replace("true", "false"),
        "pick_and_place_simple-Mug-None-Desk-308": '{"pddl_problem": ""}',  # never tried: the official code skips it
    }
    for name, text in extra.items():
        (root / "json_2.1.1/train" / name / "trial_1").mkdir(parents=True)
        (root / "json_2.1.1/train" / name / "trial_1/game.tw-pddl").write_text(text)
    monkeypatch.setenv("ALFWORLD_DATA", str(root))
    files = data.find_games()
    assert files.ids("train") == [game for game, _ in files.stream("train")] == [GAMES[2]]
    assert files.counts() == data.SIZES


def test_an_archive_is_unpacked_once_and_streamed_without(monkeypatch, tmp_path):
    archive(tmp_path / "alfworld", ("../evil", b"x"), ("json_2.1.1/train/notes.txt", b"x"))
    monkeypatch.setenv("SEEDBED_DATA", str(tmp_path))
    files = data.find_games()
    assert dict(files.stream("all")) == {game: content(game).encode() for game in GAMES}
    assert [game for game, _ in files.stream("train")] == [GAMES[2]]
    assert files.counts() == data.SIZES
    assert not (tmp_path / "cache").exists()
    assert files.ids("valid_seen") == sorted(GAMES[:2])
    assert files.read(GAMES[0]) == content(GAMES[0]).encode()
    (made,) = (tmp_path / "cache" / "alfworld").iterdir()  # no scratch directory is left
    assert sorted(p.name for p in made.rglob("*") if p.is_file()) == ["game.tw-pddl"] * 3
    assert not (tmp_path / "evil").exists()


def test_a_damaged_archive_leaves_nothing_behind(monkeypatch, tmp_path):
    path = archive(tmp_path / "alfworld", (f"json_2.1.1/{GAMES[2]}0/game.tw-pddl", Random(0).randbytes(50_000)))
    path.write_bytes(path.read_bytes()[:-20_000])
    monkeypatch.setenv("SEEDBED_DATA", str(tmp_path))
    for use in (lambda files: files.ids("train"), lambda files: list(files.stream("all"))):
        with pytest.raises(UserError, match=r"\.tar\.xz is damaged or incomplete .*; copy it again"):
            use(data.find_games())
    assert list((tmp_path / "cache" / "alfworld").iterdir()) == []


def test_an_unknown_split_lists_the_known_ones():
    for use in (AlfWorld().tasks, lambda split: list(AlfWorld().walkthroughs(split))):
        with pytest.raises(UserError, match=r"no split 'valid'; use one of train, valid_seen, .*generated_valid"):
            use("valid")
