"""``seedbed env play`` and ``seedbed env replay``, run as a person runs them without a terminal."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from seedbed.commands.env import app
from seedbed.envs.alfworld import env as alfworld
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.types import UserError

TASK = "generated_valid/heat/000004"


def run(*args: str, typed: str = ""):
    return CliRunner().invoke(app, list(args), input=typed)


def fail(*args: str) -> str:
    error = run(*args).exception
    assert isinstance(error, UserError)
    return str(error)


def plain(text: str) -> str:
    return " ".join(text.split())


def test_replay_wins_and_counts():
    result = run("replay", "alfworld", "--split", "generated_valid", "--limit", "60")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[-1] == "won 60 / 60"
    assert re.fullmatch(
        r"load [\d.]+ s CPU \([\d.]+ ms a game\), 3\d\d steps in [\d.]+ s CPU "
        r"\([\d,]+ steps/s\), [\d.]+ s in all",
        lines[-2],
    )


def test_replay_names_the_lost_and_exits_1(monkeypatch):
    real = AlfWorld.walkthroughs

    def cut(self, split):
        for task, game, commands in real(self, split):
            yield task, game, commands[:-1] if task.kind == "heat" else commands

    monkeypatch.setattr(alfworld.AlfWorld, "walkthroughs", cut)
    result = run("replay", "alfworld", "--split", "generated_valid", "--limit", "12")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "won 10 / 12"
    assert "not won: generated_valid/heat/000000" in result.stdout


def test_play_by_text_and_by_number_to_the_end():
    world = AlfWorld().world(next(t for t in AlfWorld().tasks("generated_valid") if t.id == TASK))
    game = alfworld.HouseholdGame(world)
    listed, typed = game.start().admissible, []
    for n, command in enumerate(world.walkthrough):
        typed.append(str(listed.index(command) + 1) if n % 2 else command)
        listed = game.step(command).admissible
    result = run("play", "--task", TASK, typed="\n".join(typed) + "\n")
    assert result.exit_code == 0
    assert f"Your task is to: {world.task}" in result.stdout
    assert all(command in plain(result.stdout) for command in world.walkthrough)
    assert result.stdout.splitlines()[-1] == f"won after {len(world.walkthrough)} steps"


@pytest.mark.parametrize("typed", ["inventory\nquit\nlook\n", "inventory\n"])
def test_play_ends_with_quit_or_the_end_of_input(typed):
    result = run("play", "--task", TASK, typed=typed)
    assert result.exit_code == 0
    assert "You are not carrying anything." in result.stdout
    assert result.stdout.endswith("not won after 1 step\n")


def test_play_shows_markup_like_input_as_it_is():
    result = run("play", "--task", TASK, typed="[bold]99[/]\n99\nquit\n")
    assert "[bold]99[/]" in result.stdout and plain(result.stdout).count("Nothing happens.") == 2


def test_a_seed_draws_the_same_task():
    first, again, other = (run("play", "--seed", seed, typed="quit\n").stdout for seed in ("3", "3", "4"))
    assert first == again != other


def test_mistakes_are_named():
    assert "--task 'heat/9' is not in split 'generated_valid'" in fail("play", "--task", "heat/9")
    assert "has no split 'test'" in fail("replay", "alfworld", "--split", "test")
    assert "did you mean 'alfworld'" in fail("play", "alfwrld")
    assert "stores no walkthroughs" in fail("replay", "builtins:object", "--split", "all")
