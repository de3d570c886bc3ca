"""The example of ``docs/add_an_environment.md`` is played through the real rollout loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs.base import Environment, make_environment
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.types import StopReason, Trajectory, UserError

BYTES = RolloutSettings(max_prompt_tokens=4096, max_new_tokens=200, max_turns=8)  # one token a byte


@pytest.fixture
def counter() -> Environment:
    return make_environment("counter_env:Counter")


def play(
    environment: Environment, renderer: Renderer, reply: Callable[[str], str], settings: RolloutSettings = BYTES
) -> dict[str, Trajectory]:
    """One episode of every training task, by goal sentence."""
    engine, tasks = ScriptedEngine(renderer, reply), environment.tasks("train")
    groups = collect_groups(engine, environment, renderer, settings, tasks, attempts=1, seed=0)
    return {group.attempts_G[0].goal: group.attempts_G[0] for group in groups}


def careful(prompt: str) -> str:
    """Adds 2 while that does not overshoot; reads count and goal from the prompt, as a model would."""
    goal, count = int(re.search(r"count to (\d+)", prompt)[1]), int(re.findall(r"The count is (\d+)", prompt)[-1])
    return f"<think>{count} of {goal}</think><action>add {min(2, goal - count)}</action>"


@pytest.mark.parametrize("layout", ["windowed", "transcript"])
def test_a_careful_policy_wins_every_task(counter: Environment, renderer: Renderer, layout: str) -> None:
    played = play(counter, renderer, careful, BYTES.model_copy(update={"layout": layout}))
    assert {t.stop for t in played.values()} == {StopReason.WON}
    assert {goal: (len(t.turns_K), t.reward) for goal, t in played.items()} == {
        "count to 3": (2, 1.0),
        "count to 4": (2, 1.0),
        "count to 5": (3, 1.0),
        "count to 6": (3, 1.0),
        "count to 7": (4, 1.0),
        "count to 8": (4, 1.0),
    }
    assert [turn.observation for turn in played["count to 5"].turns_K] == [
        "The count is 2.",
        "The count is 4.",
        "The count is 5.",
    ]


def test_always_two_loses_exactly_the_odd_goals(counter: Environment, renderer: Renderer) -> None:
    played = play(counter, renderer, lambda _: "<think></think><action>add 2</action>")
    lost = {goal for goal, t in played.items() if t.stop is StopReason.LOST}
    assert lost == {"count to 3", "count to 5", "count to 7"}
    assert all(t.reward == (t.stop is StopReason.WON) for t in played.values())


def test_babble_is_invalid_until_the_turn_limit_and_never_a_fault(counter: Environment, renderer: Renderer) -> None:
    for trajectory in play(counter, renderer, lambda _: "I would rather not").values():
        assert trajectory.stop is StopReason.STEP_CAP and len(trajectory.turns_K) == trajectory.invalid_turns == 8
        assert trajectory.turns_K[-1].observation == "Nothing happens. The count is 0."


def test_a_cut_response_ends_the_episode_unplayed(counter: Environment, renderer: Renderer) -> None:
    for trajectory in play(counter, renderer, lambda _: "<think>" + "hm " * 100).values():
        (turn,) = trajectory.turns_K
        assert trajectory.stop is StopReason.TRUNCATED_TURN and turn.finish == "length" and turn.observation == ""
        assert len(turn.response_ids_T) == BYTES.max_new_tokens


def test_tasks_are_distinct_across_splits_and_an_unknown_split_is_named(counter: Environment) -> None:
    ids = [task.id for split in ("train", "test") for task in counter.tasks(split)]
    assert len(ids) == len(set(ids)) == 9
    with pytest.raises(UserError, match="'dev'"):
        counter.tasks("dev")


def test_the_example_is_as_short_as_the_page_says(root: Path) -> None:
    assert len((root / "docs/examples/counter_env.py").read_text().splitlines()) < 60
