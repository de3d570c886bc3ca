"""Small hand-made episodes for the tests of the mathematics: real types, no model, no environment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seedbed.types import (
    Action,
    Batch,
    Group,
    Origin,
    PairedScores,
    Prompt,
    Sample,
    Skill,
    StopReason,
    Task,
    Trajectory,
    Turn,
)


def episode(
    task: str, attempt: int, reward: float, valid: Sequence[bool] = (True,), *, tokens: int = 3, fault: bool = False
) -> Trajectory:
    """An episode with one turn per entry of ``valid`` and ``tokens`` sampled tokens a turn."""
    turns = tuple(
        Turn(
            Prompt((("task", "t"), ("skill", ""))),
            np.array([1, 2], np.int32),
            np.arange(tokens, dtype=np.int32),
            np.full(tokens, -1.0, np.float32),
            "stop",
            "look",
            Action("look", ok),
        )
        for ok in valid
    )
    stop = StopReason.FAULT if fault else StopReason.WON if reward > 0 else StopReason.LOST
    return Trajectory(Task(task, "toy", "train", "look"), attempt, "look", turns, stop, reward, "windowed", 0, 0)


def row(trajectory: Trajectory, turns: Sequence[int]) -> Sample:
    """One row holding the given turns: prompt of two tokens, then per turn its response and two prompt tokens."""
    origin, turn_T = [Origin.PROMPT] * 2, [-1, -1]
    for k in turns:
        n = len(trajectory.turns_K[k].response_ids_T)
        origin += [Origin.SAMPLED] * n + [Origin.PROMPT] * 2
        turn_T += [k] * n + [-1, -1]
    origin_T = np.array(origin, np.int8)
    logprobs_T = np.where(origin_T == Origin.SAMPLED, -1.0, np.nan).astype(np.float32)
    return Sample(
        trajectory,
        tuple(turns),
        np.arange(len(origin), dtype=np.int32),
        origin_T,
        np.array(turn_T, np.int16),
        logprobs_T,
        2,
    )


def batch(episodes: Sequence[Trajectory], *, merged: bool = False) -> Batch:
    """Groups by task id in order of first sight; one row a turn, or one row an episode if ``merged``."""
    tasks = {t.task.id: t.task for t in episodes}
    groups = [Group(task, tuple(t for t in episodes if t.task.id == name)) for name, task in tasks.items()]
    samples = []
    for t in episodes:
        if not t.faulty:
            turns = range(len(t.turns_K))
            samples += [row(t, turns)] if merged else [row(t, [k]) for k in turns]
    return Batch(groups, samples=samples)


def with_skills(made: Batch, skills: dict[str, str], skill_logp: float = -0.5) -> Batch:
    """Scores for every row, and a valid skill for each trajectory id in ``skills`` with a text."""
    for name, text in skills.items():
        made.skills[name] = Skill(name, "workflow", "ok" if text else "no_json", text)
    for sample in made.samples:
        ordinary_T = np.where(sample.sampled_T, -1.0, np.nan).astype(np.float32)
        skill = made.skills.get(sample.trajectory.id)
        scored = skill is not None and skill.valid
        skill_T = np.where(sample.sampled_T, skill_logp, np.nan).astype(np.float32) if scored else None
        made.scores.append(PairedScores(ordinary_T, skill_T, 0))
    return made
