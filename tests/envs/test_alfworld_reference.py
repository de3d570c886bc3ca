"""The engine against the official one: recorded transcripts, and the walkthroughs stored in the game files."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from seedbed.envs.alfworld.data import SIZES
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.alfworld.game import Engine, HouseholdGame
from seedbed.envs.alfworld.problem import parse_game
from seedbed.types import UserError


def test_every_recorded_step_is_equal(transcripts, real_games):
    for episode in transcripts:
        game = episode["game"].removesuffix("/game.tw-pddl")
        engine = Engine(parse_game(real_games.content[game], game))
        assert engine.intro == episode["first"], game
        assert engine.admissible == episode["adm0"], game
        for number, (command, text, admissible, reward, done, won) in enumerate(episode["steps"]):
            where = f"{game}, step {number}, {command!r}"
            assert engine.step(command) == text, where
            assert engine.admissible == admissible, where
            assert (engine.score, engine.won, engine.won) == (reward, done, won), where
    assert sum(len(episode["steps"]) for episode in transcripts) >= 1000


def test_counts_of_the_published_splits(real_games):
    assert Counter(game.partition("/")[0] for game in real_games.ids) == SIZES


def test_stored_walkthroughs_win_with_their_last_command(real_games):
    """All validation games and a tenth of train; ``seedbed env replay alfworld --split all`` does the rest."""
    assert len(real_games.content) > 800
    for name, content in real_games.content.items():
        world = parse_game(content, name)
        game = HouseholdGame(world)
        seen = game.start()
        assert not seen.won and seen.text.startswith("You are in the middle of a room.")
        assert world.task not in seen.text and world.task.endswith(".")
        for command in world.walkthrough:
            assert command in seen.admissible and "help" not in seen.admissible, (name, command)
            assert (seen.won, seen.done, seen.reward) == (False, False, 0.0), (name, command)
            seen = game.step(command)
        assert (seen.won, seen.done, seen.reward) == (True, True, 10.0), name


def test_a_real_task_opens_from_its_file(real_games, monkeypatch, tmp_path):
    name, content = next((n, c) for n, c in real_games.content.items() if n.startswith("valid_unseen/pick_heat"))
    path = tmp_path / "json_2.1.1" / name / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    monkeypatch.setitem(SIZES, "valid_unseen", 1)
    (task,) = AlfWorld().tasks("valid_unseen")
    assert (task.id, task.kind) == (name, "heat")
    game = AlfWorld().open(task)
    assert game.goal == parse_game(content, name).task
    assert game.start().text == game.engine.room
    path.write_bytes(content[:1000])
    with pytest.raises(UserError, match=rf"{path} is not a complete ALFWorld game file"):
        AlfWorld().open(task)


def test_a_changed_real_file_is_refused_or_named(real_games):
    name, content = next(iter(real_games.content.items()))
    game = json.loads(content)
    with pytest.raises(UserError, match=r"room\.tw-pddl.*not a complete ALFWorld game file"):
        parse_game(content[:-40], "room.tw-pddl")
    for key, what in (("pddl_domain", "domain"), ("grammar", "grammar")):
        with pytest.raises(UserError, match=rf"{what} that this engine does not know.*format 2\.1\.1 .*2\.1\.2"):
            parse_game(json.dumps(game | {key: game[key] + " "}), "room.tw-pddl")
    other_task = game["grammar"].replace(parse_game(content, name).task, "do something else.")
    assert parse_game(json.dumps(game | {"grammar": other_task}), name).task == "do something else."
    for broken in (
        game["pddl_problem"][:3000],
        game["pddl_problem"].replace("(isToggled", "(not (isToggled"),
        game["pddl_problem"].replace("(:init", "(:init (isSliced apple1)"),
    ):
        with pytest.raises(UserError, match="cut off or of an unknown shape"):
            parse_game(json.dumps(game | {"pddl_problem": broken}), "room.tw-pddl")
