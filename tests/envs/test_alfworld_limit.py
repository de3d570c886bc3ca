"""The official engine bears one worker, plays there as anywhere else, and ends its own episode when it hangs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs.alfworld import data, official
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.types import Trajectory

SETTINGS = RolloutSettings(max_prompt_tokens=20_000, max_turns=3)


def spin(_: Path) -> None:
    while True:
        pass


@pytest.fixture
def one_game(real_games, tmp_path, monkeypatch) -> Iterator[None]:
    packages = official.packages
    game = next(game for game in real_games.content if game.startswith("valid_seen/"))
    path = tmp_path / "json_2.1.1" / game / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_bytes(real_games.content[game])
    monkeypatch.setattr(data, "SIZES", dict.fromkeys(data.SIZES, 0) | {"valid_seen": 1})
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    yield
    packages.cache_clear()  # other tests do without them


def play(renderer: Renderer, environment: AlfWorld, attempts: int) -> tuple[Trajectory, ...]:
    def reply(prompt: str) -> str:
        return "<think>why not</think><action>" + ("look" if "look" in prompt[-2000:] else "inventory") + "</action>"

    engine, tasks = ScriptedEngine(renderer, reply), environment.tasks("valid_seen")
    (group,) = collect_groups(engine, environment, renderer, SETTINGS, tasks, attempts, seed=0)
    return group.attempts_G


def test_live_it_plays_in_a_worker_as_the_native_engine_does(one_game, renderer: Renderer):
    pytest.importorskip("textworld", reason="the official engine (extra 'alfworld') is not installed")
    environment = AlfWorld(backend="textworld")
    assert environment.threads == 1 and AlfWorld().threads is None
    (theirs,), (ours,) = play(renderer, environment, 1), play(renderer, AlfWorld(), 1)
    assert not theirs.faulty and len(theirs.turns_K) == 3
    assert [(t.prompt, t.observation) for t in theirs.turns_K] == [(t.prompt, t.observation) for t in ours.turns_K]


def test_a_hang_ends_its_episode(one_game, renderer: Renderer, monkeypatch):
    monkeypatch.setattr(official, "packages", lambda: None)
    monkeypatch.setattr(official, "start", spin)
    environment = AlfWorld(backend="textworld")
    environment.patience_s = 0.1
    assert [t.cause for t in play(renderer, environment, 3)] == ["TimeoutError: no answer within 0.1 s"] * 3
