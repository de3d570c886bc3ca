"""The same evaluation twice, in other batch sizes and from a directory that lists its files in another order."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seedbed.config import RolloutSettings
from seedbed.engines.base import Completion, Request, Sampling
from seedbed.envs import panels
from seedbed.envs.alfworld.data import SIZES, find_games
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.evaluate.run import evaluate

SETTINGS = RolloutSettings(max_turns=8, max_prompt_tokens=20_000, max_new_tokens=200, think=False)
ACTION = re.compile(r"'((?:go to|take|move|open|close|examine|use|clean|heat|cool|slice|look|inventory)[^']*)'")
Policy = Callable[[list[str], random.Random], str]


def by_chance(listed: list[str], rng: random.Random) -> str:
    return rng.choice(listed)


def by_rule(listed: list[str], _: random.Random) -> str:
    """Take what is there, else open it, else walk on."""
    return next((a for verb in ("take", "open", "go to") for a in listed if a.startswith(verb)), listed[0])


class Player:
    """An engine that plays a policy on the admissible actions in the prompt; chance comes from the request's seed."""

    version = 0

    def __init__(self, renderer, policy: Policy) -> None:
        self.renderer, self.policy = renderer, policy

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> Completion:
        tokenizer = self.renderer.tokenizer
        listed = ACTION.findall(tokenizer.decode(request.prompt_ids_T.tolist()).rpartition("admissible actions")[2])
        text = f"<action>{self.policy(listed, random.Random(request.seed))}</action>"
        ids = [*tokenizer.encode(text, add_special_tokens=False), self.renderer.stop_id]
        return Completion(np.asarray(ids, np.int32), np.zeros(len(ids), np.float32), "stop")


@pytest.fixture
def tree(real_games, tmp_path) -> Callable[[str, bool], Path]:
    """Makes an ``ALFWORLD_DATA`` of the seen games, written in id order or against it."""

    def make(name: str, backwards: bool) -> Path:
        games = sorted((g for g in real_games.content if g.startswith("valid_seen/")), reverse=backwards)
        assert len(games) == SIZES["valid_seen"]
        for game in games:
            folder = tmp_path / name / "json_2.1.1" / game
            folder.mkdir(parents=True)
            (folder / "game.tw-pddl").write_bytes(real_games.content[game])
        return tmp_path / name

    return make


@pytest.mark.parametrize("policy", [by_chance, by_rule])
def test_an_evaluation_repeats_whatever_the_batch_and_the_order_of_files(policy, renderer, tree, monkeypatch):
    whole = panels.load_panel("alfworld-seen-140")
    panel = replace(whole, tasks=whole.tasks[::7])
    assert len(panel.tasks) == 20

    def play(at_once: int) -> dict:
        engine = Player(renderer, policy)
        return evaluate(
            engine, AlfWorld(), renderer, SETTINGS, panel, attempts=1, temperature=1.0, seed=5, at_once=at_once
        )

    monkeypatch.setenv("ALFWORLD_DATA", str(tree("forwards", False)))
    result = play(20)
    assert play(20) == result
    assert play(7) == result
    monkeypatch.setenv("ALFWORLD_DATA", str(tree("backwards", True)))
    plain = Path.glob
    monkeypatch.setattr(Path, "glob", lambda self, pattern: sorted(plain(self, pattern), reverse=True))
    assert [t.id for t in AlfWorld().tasks("valid_seen")] == [t.id for t in whole.tasks]
    assert panels.build_panel(whole.name) == (panels.DIRECTORY / f"{whole.name}.json").read_text()
    assert play(3) == result
    assert json.loads(json.dumps(result)) == result
    assert result["panel_hash"] == whole.hash and result["summary"]["faults"] == 0
    assert result["summary"]["valid_action_rate"] == 1.0 and result["summary"]["mean_turns"] > 4
    assert next(iter(find_games().counts().items())) == ("train", 0)
