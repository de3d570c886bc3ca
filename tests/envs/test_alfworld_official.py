"""The official engine behind the same interface, and the comparison with it (both live parts skip without it)."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from random import Random

import pytest

from seedbed.envs.alfworld import data, parity
from seedbed.envs.alfworld.data import GameFiles
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.base import make_environment
from seedbed.types import Task, UserError


@pytest.fixture
def one_game(real_games, transcripts, tmp_path, monkeypatch) -> tuple[GameFiles, dict]:
    """A tree with one recorded game, and what was recorded."""
    walk = next(walk for walk in transcripts if len(walk["steps"]) > 20)
    game = walk["game"].removesuffix("/game.tw-pddl")
    path = tmp_path / "json_2.1.1" / game / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_bytes(real_games.content[game])
    monkeypatch.setattr(data, "SIZES", dict.fromkeys(data.SIZES, 0) | {game.partition("/")[0]: 1})
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    return data.find_games(), walk | {"game": game}


def test_an_unknown_backend_and_a_split_without_files_are_named():
    with pytest.raises(UserError, match=r"backend='tw' is unknown: use one of native, textworld"):
        make_environment("alfworld", backend="tw")
    environment = make_environment("alfworld", backend="textworld")
    with pytest.raises(UserError, match=r"'generated_valid' has no files for.*backend=native"):
        environment.open(environment.tasks("generated_valid")[0])


def test_without_the_packages_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    (tmp_path / "json_2.1.1").mkdir()
    monkeypatch.setitem(sys.modules, "textworld", None)
    task = Task("valid_seen/pick_and_place_simple-Mug-None-Desk-1/trial_1", "alfworld", "valid_seen", "pick")
    with pytest.raises(UserError, match=r"not installed .*pip install 'seedbed\[alfworld\]'"):
        AlfWorld(backend="textworld").open(task)


def test_a_recorded_walk_is_compared_and_every_difference_found(one_game):
    files, walk = one_game
    tally = parity.Tally()
    parity.replay(files, walk, tally)
    steps = len(walk["steps"])
    assert tally.exact and tally.equal == {"first": 1, "text": steps, "admissible": steps, "outcome": steps}
    assert (tally.games, tally.steps) == (1, steps)
    for column, what in ((1, "text"), (2, "admissible"), (5, "outcome")):
        changed = copy.deepcopy(walk)
        changed["steps"][3][column] = "something else"
        tally = parity.Tally()
        parity.replay(files, changed, tally)
        assert not tally.exact and tally.equal[what] == steps - 1
        assert len(tally.differences) == 1 and f"step 3, {walk['steps'][3][0]!r}: {what} is" in tally.differences[0]


def test_games_are_drawn_from_all_splits_and_kinds_in_turn(real_games, tmp_path):
    for game in real_games.content:
        if game.startswith("valid_"):
            path = tmp_path / game / "game.tw-pddl"
            path.parent.mkdir(parents=True)
            path.write_bytes(real_games.content[game][-data._TAIL :])
    files = GameFiles(tmp_path)
    splits = ("valid_seen", "valid_unseen", "valid_train")
    drawn = parity.choose(files, splits, 40, Random(1))
    assert len(set(drawn)) == 40
    assert len({(game.partition("/")[0], parity.family(game)) for game in drawn[:18]}) == 18
    assert drawn == parity.choose(files, splits, 40, Random(1)) != parity.choose(files, splits, 40, Random(2))


def test_malformed_commands_are_malformed():
    """All but the one that is only padded."""
    for valid in ("go to desk 1", "look", "take mug 1 from desk 1"):
        made = [change(valid) for change in parity.MALFORMED]
        assert sum(command.strip() == valid for command in made) == 1


def test_live_the_official_engine_shows_the_same(one_game, monkeypatch):
    pytest.importorskip("textworld", reason="the official engine (extra 'alfworld') is not installed")
    files, walk = one_game
    (task,) = AlfWorld().tasks(walk["game"].partition("/")[0])
    monkeypatch.delenv("ALFWORLD_DATA")
    monkeypatch.setenv("SEEDBED_DATA", str(files.place.parent / "shared"))
    (Path(files.place.parent) / "shared").mkdir()
    (Path(files.place.parent) / "shared" / "alfworld").symlink_to(files.place.parent)
    ours, theirs = AlfWorld().open(task), AlfWorld(backend="textworld").open(task)
    assert ours.goal == theirs.goal and ours.start() == theirs.start()
    for command, *_ in walk["steps"][:6]:
        assert ours.step(command) == theirs.step(command)
    tally = parity.Tally()
    parity.replay(files, parity.record(files, walk["game"], 6, Random(0), guided=True, tally=tally), tally)
    assert tally.exact and tally.steps == 8
    assert AlfWorld().tasks(task.split) == [task]  # alfworld sets ALFWORLD_DATA when it is imported
