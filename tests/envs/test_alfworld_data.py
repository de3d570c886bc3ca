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


def tree(root: Path) -> Path:
    for game in GAMES:
        (root / "json_2.1.1" / game).mkdir(parents=True)
        (root / "json_2.1.1" / game / "game.tw-pddl").write_text(game)
    return root


def archive(root: Path, *more: tuple[str, bytes]) -> Path:
    root.mkdir(parents=True)
    members = [(f"json_2.1.1/{game}/game.tw-pddl", game.encode()) for game in GAMES]
    with tarfile.open(root / data.ARCHIVE, "w:xz") as tar:
        for name, content in (*members, *more):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
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
    with pytest.warns(UserWarning, match="holds 2 games of split 'valid_seen', the published split has 140"):
        tasks = AlfWorld().tasks("valid_seen")
    assert [(t.id, t.kind) for t in tasks] == [(GAMES[1], "look"), (GAMES[0], "two")]
    assert data.find_games().read(GAMES[2]) == GAMES[2].encode()
    with pytest.raises(UserError, match=r"no games of split 'valid_unseen' \(found train 1, valid_seen 2, "):
        AlfWorld().tasks("valid_unseen")
    with pytest.raises(UserError, match=r"trial_0/game\.tw-pddl cannot be read"):
        data.find_games().read("valid_seen/pick_two_obj_and_place-Watch-None-Dresser-205/trial_0")


def test_task_families_outside_the_text_games_are_left_out(monkeypatch, tmp_path):
    root = tree(tmp_path)
    for name in ("pick_and_place_with_movable_recep-Pen-Mug-Desk-3", "pick_and_place_simple-AppleSliced-None-Fridge-1"):
        (root / "json_2.1.1/train" / name / "trial_1").mkdir(parents=True)
        (root / "json_2.1.1/train" / name / "trial_1/game.tw-pddl").write_text("")
    monkeypatch.setenv("ALFWORLD_DATA", str(root))
    with pytest.warns(UserWarning):
        assert data.find_games().ids("train") == [GAMES[2]]


@pytest.mark.filterwarnings("ignore:.*not comparable")
def test_an_archive_is_unpacked_once_and_streamed_without(monkeypatch, tmp_path):
    archive(tmp_path / "alfworld", ("../evil", b"x"), ("json_2.1.1/train/notes.txt", b"x"))
    monkeypatch.setenv("SEEDBED_DATA", str(tmp_path))
    files = data.find_games()
    assert dict(files.stream("all")) == {game: game.encode() for game in GAMES}
    assert [game for game, _ in files.stream("train")] == [GAMES[2]]
    assert not (tmp_path / "cache").exists()
    assert files.ids("valid_seen") == sorted(GAMES[:2])
    assert files.read(GAMES[0]) == GAMES[0].encode()
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
