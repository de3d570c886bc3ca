"""Small trajectories for the tests of model text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from seedbed.types import Action, Prompt, StopReason, Task, Trajectory, Turn


def _turn(seen: str, response: str, action: Action, answer: str, reward: float = 0.0) -> Turn:
    prompt = Prompt(
        (("task", "Your task is to: x"), ("skill", ""), ("now", "Current observation:"), ("observation", seen))
    )
    ids = np.arange(3, dtype=np.int32)
    return Turn(
        prompt=prompt,
        prompt_ids_T=ids,
        response_ids_T=ids,
        logprobs_T=np.zeros(3, np.float32),
        finish="stop",
        text=response,
        action=action,
        observation=answer,
        reward=reward,
    )


def _episode(won: bool, attempt: int = 0) -> Trajectory:
    turns = (
        _turn(
            "A room with a fridge.",
            "<think>look inside</think><action>open fridge 1</action>",
            Action("open fridge 1", True),
            "The fridge holds a mug.",
        ),
        _turn("The fridge holds a mug.", "take it", Action("take it", False), "Nothing happens. (last)", 7.25),
    )
    return Trajectory(
        task=Task("t1", "household", "train", "pick"),
        attempt=attempt,
        goal="put a mug on the desk",
        turns_K=turns,
        stop=StopReason.WON if won else StopReason.STEP_CAP,
        reward=7.25,
        layout="windowed",
        version=4,
        seed=0,
    )


@pytest.fixture
def episode() -> Callable[..., Trajectory]:
    """``episode(won, attempt=0)``: two turns, the second invalid, played by version 4."""
    return _episode
