"""From outcome to advantage: how much better did this turn's episode end than its siblings?

    A = (R - mean) / (std + epsilon)        or        A = R - mean

R is the episode return minus ``invalid_penalty`` if the turn's action had no valid format; A is the same for all
sampled tokens of the turn. Sources: paper 1.1 (RL term) for the formula, with mean and population std over the group's
trajectories; the official code, our default, takes them over the *turns* of the group (its rows in the windowed
layout), so long episodes weigh more, with the sample std. Ours: statistics are over turns in both layouts, so merged
and split rows agree; a tied group and a single survivor get exactly 0; faulty episodes are left out; float64.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from seedbed.types import Batch, Streams

TIE = 1e-9  #: rewards closer than this (relative above 1) are the same reward


class AdvantageSettings(BaseModel):
    """How group advantages are taken; the base of every method with an outcome reward."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    statistics: Literal["rows", "trajectories"] = "rows"  #: "trajectories": the first turn's R stands for each
    deviation: Literal["sample", "population"] = "sample"
    normalise: Literal["mean_std", "mean"] = "mean_std"
    epsilon: float = Field(1e-6, gt=0)
    invalid_penalty: float = Field(0.1, ge=0)


def group_advantages(
    groups_R: Sequence[Hashable], members_R: Sequence[Hashable], rewards_R: Sequence[float], how: AdvantageSettings
) -> np.ndarray:
    """Advantage of each turn, float64 [R], from its group id, trajectory id and reward.

    Groups are found by id, never by position. With ``how.statistics == "trajectories"`` the first turn listed of a
    trajectory stands for it; otherwise the order of the turns does not change a bit of the result.
    """
    rewards = np.asarray(rewards_R, np.float64)
    advantages_R = np.zeros(len(rewards))
    rows_of: dict[Hashable, list[int]] = defaultdict(list)
    for row, group in enumerate(groups_R):
        rows_of[group].append(row)
    for rows in rows_of.values():
        first = {members_R[row]: row for row in reversed(rows)}
        if len(first) < 2:  # a single survivor has nothing to be compared with
            continue
        basis = np.sort(rewards[rows if how.statistics == "rows" else list(first.values())])
        tolerance = TIE * max(1.0, np.abs(basis).max())
        centred = rewards[rows] - basis.mean()
        centred[np.abs(centred) <= tolerance] = 0.0
        if how.normalise == "mean_std":
            # rounding noise over epsilon would otherwise become an advantage of order 1
            tied = np.ptp(basis) <= tolerance
            spread = basis.std(ddof=how.deviation == "sample") + how.epsilon
            centred = np.zeros(len(rows)) if tied else centred / spread
        advantages_R[rows] = centred
    return advantages_R


def advantage_streams(batch: Batch, how: AdvantageSettings) -> tuple[list[Streams], dict[str, int]]:
    """One ``Streams`` per row with the advantage filled in, and counts of the groups without an outcome signal.

    ``groups_tied``: all survivors ended with the same return, of them ``groups_all_won`` and ``groups_none_won``, and
    ``groups_penalty_only``, where invalid actions are the only difference (mean_std blows that up to full size).
    ``groups_single``: fewer than two survivors.
    """
    turns = [
        (t, k)
        for group in batch.groups_P
        for t in group.survivors_G
        for k, turn in enumerate(t.turns_K)
        if len(turn.response_ids_T)
    ]
    rewards = [t.reward - how.invalid_penalty * (not t.turns_K[k].action.valid) for t, k in turns]
    values = group_advantages([t.task.id for t, _ in turns], [t.id for t, _ in turns], rewards, how)
    advantage_of = {(t.id, k): value for (t, k), value in zip(turns, values, strict=True)}
    streams = []
    for sample in batch.samples:
        advantage_T = np.zeros(len(sample.ids_T), np.float32)
        for k in sample.turns:
            advantage_T[sample.sampled_T & (sample.turn_T == k)] = advantage_of.get((sample.trajectory.id, k), 0.0)
        streams.append(Streams(advantage_T))
    counts = dict.fromkeys(
        ("groups", "groups_single", "groups_tied", "groups_all_won", "groups_none_won", "groups_penalty_only"), 0
    )
    for group in batch.groups_P:
        returns = [t.reward for t in group.survivors_G]
        single = len(returns) < 2
        tied = not single and bool(np.ptp(returns) <= TIE * max(1.0, np.abs(returns).max()))
        wins = sum(t.won for t in group.survivors_G)
        counts["groups"] += 1
        counts["groups_single"] += single
        counts["groups_tied"] += tied
        counts["groups_all_won"] += tied and wins == len(returns)
        counts["groups_none_won"] += tied and wins == 0
        counts["groups_penalty_only"] += tied and any(
            advantage_of.get((t.id, k)) for t in group.survivors_G for k in range(len(t.turns_K))
        )
    return streams, counts
