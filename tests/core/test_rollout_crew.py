"""Episodes of a batch play at once: workers change nothing, and one that breaks or hangs ends alone (T10)."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random

import numpy as np
import pytest
from corehelp import Corridor, play

from seedbed.algo import GrpoSettings, make_algorithm
from seedbed.config import AnalyzerSettings, Config, EnvSettings, RolloutSettings, TrainSettings
from seedbed.engines.base import Completion, Request, Sampling
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.base import Game, environment_from
from seedbed.evaluate.run import episode_line, summarise
from seedbed.render import Renderer
from seedbed.rollout import check_faults, collect_groups
from seedbed.samples import build_samples
from seedbed.skills.analyze import analyze
from seedbed.track.store import write_part
from seedbed.types import Batch, Group, Observation, StopReason, Task, UserError


def advantages(renderer: Renderer, group: Group) -> list[float]:
    """One of each episode that is trained on, best first. (Rewards are 0 and 10 here, the stated values are of 0 and 1,
    so epsilon is 10 times as large.)
    """
    batch = Batch([group], samples=[s for t in group.attempts_G for s in build_samples(t, renderer.stop_id)])
    how = GrpoSettings(statistics="trajectories", invalid_penalty=0.0, epsilon=1e-5)
    streams, _ = make_algorithm(how).streams(batch)
    found = [float(stream.advantage_T[row.sampled_T][0]) for row, stream in zip(batch.samples, streams, strict=True)]
    return sorted(found, reverse=True)


class Haunted(Corridor):
    """Wins for the games of some ``numbers`` (in the order of opening) at step 4; troubles for others."""

    threads = None
    patience_s = 0.5

    def __init__(self, wins: tuple[int, ...], troubles: dict[int, str]) -> None:
        super().__init__(wins=wins)
        self.troubles, self.numbers, self.games = troubles, count(), {}

    def open(self, task: Task) -> Game:
        number = next(self.numbers)
        self.games[number] = HauntedWalk(task, number in self.wins, self.troubles.get(number, ""))
        return self.games[number]

    @property
    def calls(self) -> list[int]:
        """Steps asked of each game."""
        return [self.games[number].calls for number in sorted(self.games)]


class HauntedWalk(Game):
    def __init__(self, task: Task, wins: bool, trouble: str) -> None:
        self.goal, self.wins, self.trouble, self.calls = f"reach {task.id}", wins, trouble, 0

    def start(self) -> Observation:
        if self.trouble == "hangs at once":
            threading.Event().wait()
        return Observation("A long corridor.")

    def step(self, action: str) -> Observation:
        self.calls += 1
        if self.calls == 3:
            if self.trouble == "hangs":
                while True:
                    pass
            if self.trouble == "waits":
                threading.Event().wait()
            if self.trouble == "raises":
                raise ConnectionError("the corridor collapsed")
            if self.trouble == "says nothing":
                return None
        won = self.wins and self.calls == 4
        return Observation(f"Step {self.calls}.", reward=10.0 * won, done=won, won=won)


@pytest.mark.parametrize("trouble", ["raises", "hangs", "waits", "says nothing", "hangs at once"])
def test_one_of_eight_breaks(renderer: Renderer, trouble: str) -> None:
    """T10: rewards 1 1 0 0 0 0 0 and a fault at step 3 give mean 2/7, deviation 0.487950, over the seven."""
    environment = Haunted((0, 1), {7: trouble})
    (group,) = play(renderer, environment, attempts=8, tasks=1)
    stops = Counter(t.stop for t in group.attempts_G)
    assert stops == {StopReason.WON: 2, StopReason.STEP_CAP: 5, StopReason.FAULT: 1}
    (broken,) = [t for t in group.attempts_G if t.faulty]
    assert broken.cause == {
        "raises": "ConnectionError: the corridor collapsed",
        "says nothing": "TypeError: the game answered with NoneType, not with an Observation",
    }.get(trouble, "TimeoutError: no answer within 0.5 s")
    assert len(broken.turns_K) == (0 if trouble == "hangs at once" else 3)
    assert advantages(renderer, group) == pytest.approx([1.463847] * 2 + [-0.585539] * 5, abs=2e-6)
    assert build_samples(broken, renderer.stop_id) == []
    assert all(broken.cause not in turn.prompt.text for t in group.attempts_G for turn in t.turns_K)
    skills = analyze(ScriptedEngine(renderer, lambda _: "{}"), renderer, group.attempts_G, AnalyzerSettings())
    assert set(skills) == {t.id for t in group.survivors_G}
    summary = summarise([episode_line(t) for t in group.attempts_G])
    assert (summary["micro"]["value"], summary["faults"], summary["errors_as_failures"]["value"]) == (2 / 7, 1, 2 / 8)
    check_faults(group.attempts_G, TrainSettings(max_fault_share=1 / 8))
    with pytest.raises(UserError, match="1 of 8 episodes broke .* over train.max_fault_share=0.12: the environment"):
        check_faults(group.attempts_G, TrainSettings(max_fault_share=0.12))


def test_a_game_that_hung_is_never_called_again_and_its_worker_is_replaced(renderer: Renderer) -> None:
    """Two workers, four hangs: without fresh ones nothing would go on. Then the same task is won in the same place."""
    environment = Haunted((4, 5, 6, 7), {0: "hangs", 1: "waits", 2: "raises", 3: "hangs at once"})
    environment.workers = 2
    (group,) = play(renderer, environment, attempts=8, tasks=1)
    assert Counter(t.stop for t in group.attempts_G) == {StopReason.WON: 4, StopReason.FAULT: 4}
    assert environment.calls == [3, 3, 3, 0, 4, 4, 4, 4]
    environment.wins, environment.troubles = range(1000), {}
    (group,) = play(renderer, environment, attempts=8, tasks=1)
    assert all(t.won for t in group.attempts_G)
    time.sleep(0.1)
    assert environment.calls == [3, 3, 3, 0, *[4] * 12]


def test_running_out_of_the_games_own_time_is_a_failure_and_stays_in_the_group(renderer: Renderer) -> None:
    """T10: what the policy can cause is no fault. Two wins of eight: mean 0.25, deviation 0.462910."""
    (group,) = play(renderer, Corridor(win_at=2, wins=(0, 1), lose_at=3), attempts=8, tasks=1)
    assert Counter(t.stop for t in group.attempts_G) == {StopReason.WON: 2, StopReason.LOST: 6}
    assert advantages(renderer, group) == pytest.approx([1.620182] * 2 + [-0.540060] * 6, abs=2e-6)


class Jittery(AlfWorld):
    """The same games with answers after random waits, and a count of who uses them."""

    def __init__(self, workers: int, threads: int | None = None) -> None:
        super().__init__()
        self.workers, self.threads, self.used_by = workers, threads, set()

    def open(self, task: Task) -> Game:
        game = super().open(task)
        play_on = game.step

        def step(action: str) -> Observation:
            self.used_by.add(threading.get_ident())
            time.sleep(0.003 * Random().random())
            return play_on(action)

        game.step = step
        return game


def anything(prompt: str) -> str:
    """One of the legal actions, by the prompt."""
    listed = re.findall(r"'([^'\n]+)'", prompt.rpartition("admissible")[2]) or ["look"]
    return f"<action>{listed[int(sha256(prompt.encode()).hexdigest(), 16) % len(listed)]}</action>"


@pytest.mark.parametrize("layout", ["windowed", "transcript"])
def test_workers_change_no_bit_of_an_episode(renderer: Renderer, tmp_path: Path, layout: str) -> None:
    how = {"layout": layout, "list_admissible": True, "max_prompt_tokens": 20_000, "reply": anything}

    def stored(workers: int, threads: int | None = None) -> bytes:
        environment = Jittery(workers, threads)
        environment.tasks = lambda split: AlfWorld().tasks("generated_train")
        groups = play(renderer, environment, attempts=2, tasks=8, **how)
        place = tmp_path / f"{workers}-{threads}"
        write_part(place, "p", [t for g in groups for t in g.attempts_G])
        assert len(environment.used_by) <= (threads or workers) and threading.get_ident() not in environment.used_by
        return (place / "p.jsonl").read_bytes() + (place / "p.safetensors").read_bytes()

    one = stored(1)
    assert one.count(b"Nothing happens") < 10, "the policy plays"
    assert stored(4) == stored(16) == stored(16, threads=1) == one


def test_what_the_first_game_loads_is_there_for_the_others(renderer: Renderer) -> None:
    class Lazy(Corridor):
        threads, loaded, loads = None, False, 0

        def open(self, task: Task) -> Game:
            if not self.loaded:
                self.loads += 1
                time.sleep(0.05)
                self.loaded = True
            return super().open(task)

    environment = Lazy()
    assert len(play(renderer, environment, attempts=8)) == 2
    assert environment.loads == 1 and environment.opened == 16


def test_the_settings_reach_the_environment() -> None:
    assert (AlfWorld.workers, AlfWorld.patience_s) == (Config().env.workers, Config().env.patience_s)
    environment = environment_from(EnvSettings(name="alfworld", workers=3, patience_s=7, options={"backend": "native"}))
    assert (environment.workers, environment.patience_s, environment.threads) == (3, 7.0, None)


class Slots(ScriptedEngine):
    """Notes the cache slots of the requests of each call."""

    def __init__(self, renderer: Renderer) -> None:
        super().__init__(renderer, lambda prompt: f"<action>say {len(prompt) % 7}</action>")
        self.calls: list[list[int]] = []

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        self.calls.append([request.slot for request in requests])
        return super().generate(requests, sampling)


def test_every_episode_has_a_slot_of_its_own_and_keeps_it(renderer: Renderer) -> None:
    """Three tasks, three attempts: 9 slots. The walkers 0 and 4 win at step 2 and leave theirs free."""
    engine, world = Slots(renderer), Corridor(win_at=2, wins=(0, 4))
    how = RolloutSettings(
        layout="transcript", max_turns=4, max_new_tokens=64, max_prompt_tokens=4000, think=False, list_admissible=False
    )
    groups = collect_groups(engine, world, renderer, how, world.tasks("train")[:3], 3, seed=0)
    assert [len(t.turns_K) for g in groups for t in g.attempts_G] == [2, 4, 4, 4, 2, 4, 4, 4, 4]
    left = [*range(9)], [1, 2, 3, 5, 6, 7, 8]
    assert engine.calls == [left[0], left[0], left[1], left[1]]


def test_images_without_text_are_refused_before_anything_is_generated(renderer: Renderer) -> None:
    class Picture(Corridor):
        text = ""

        def open(self, task: Task) -> Game:
            game = super().open(task)
            first = replace(game.start(), text=self.text, image=np.zeros((2, 2, 3), np.uint8))
            game.start = lambda: first
            return game

    def never(prompt: str) -> str:
        raise AssertionError("generated")

    with pytest.raises(UserError, match="shows images only.* set env.options.observation=text"):
        play(renderer, Picture(), reply=never)
    captioned = Picture()
    captioned.text = "A door."
    assert play(renderer, captioned)[0].attempts_G[0].turns_K
