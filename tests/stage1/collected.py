"""Collect runs of made-up episodes, and ``seedbed annotate`` as a process of its own that can be killed."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import numpy as np

from seedbed.config import Config
from seedbed.track.run import Run
from seedbed.track.store import write_part
from seedbed.types import Action, Prompt, StopReason, Task, Trajectory, Turn


def turn(seen: str, response: str, action: Action, answer: str) -> Turn:
    prompt = Prompt((("task", "Your task is to: x"), ("skill", ""), ("observation", seen)))
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
        reward=0.0,
    )


def episode(attempt: int = 0, won: bool = True, goal: str | None = None) -> Trajectory:
    """Two turns, the second invalid, played by version 4; its goal is its own unless one is given."""
    turns = (
        turn(
            "A room with a fridge.", "<action>open fridge 1</action>", Action("open fridge 1", True), "It holds a mug."
        ),
        turn("It holds a mug.", "take it", Action("take it", False), "Nothing happens."),
    )
    return Trajectory(
        task=Task("t1", "household", "train", "pick"),
        attempt=attempt,
        goal=f"put mug {attempt:03d} on the desk" if goal is None else goal,
        turns_K=turns,
        stop=StopReason.WON if won else StopReason.STEP_CAP,
        reward=1.0 * won,
        layout="windowed",
        version=4,
        seed=0,
    )


def episodes(count: int) -> list[Trajectory]:
    """Different prompts of one length."""
    return [episode(attempt) for attempt in range(count)]


def collected(path: Path, trajectories: list[Trajectory]) -> Run:
    run = Run.new(path)
    run.begin(Config(), "collect")
    write_part(run.trajectories, "c0000", trajectories)
    return Run.open(path, "collect")


def seedbed(arguments: list[str], environment: dict[str, str], log: str) -> None:
    """``python -m seedbed ARGUMENTS``, in a process that has loaded the libraries already."""
    os.environ.update(environment)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.argv = ["seedbed", *arguments]
    runpy.run_module("seedbed", run_name="__main__", alter_sys=True)
