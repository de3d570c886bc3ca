"""How turns become training rows, token for token.

Windowed layout: one row per turn. Transcript layout: consecutive turns merge into one row as long as each prompt
extends the previous prompt plus response, so every token is computed once; where a chat template breaks the prefix the
row splits. Merged and split rows hold the same sampled tokens in the same contexts, hence the same loss.

Example, transcript of two turns (P prompt, A sampled, the observation is P again)::

    turn 0   P P P | A A
    turn 1   P P P   A A   P P | A A A
    row      P P P   A A   P P   A A A      turns (0, 1), prompt_len 3
"""

from __future__ import annotations

import numpy as np

from seedbed.types import Origin, Sample, Trajectory


def build_samples(trajectory: Trajectory, stop_id: int, merge: bool = True) -> list[Sample]:
    """The rows of one trajectory; none for a fault or an episode without a sampled token.

    ``stop_id`` tells a template's end of turn from the policy's own: after a response that did not end itself that
    token is ``FORCED`` and never trains. ``merge=False`` gives one row per turn in either layout (the slow path of
    tests).
    """
    if trajectory.faulty:
        return []
    rows: list[list[int]] = []
    for k, turn in enumerate(trajectory.turns_K):
        if merge and rows and trajectory.layout == "transcript" and not turn.prefix_break:
            rows[-1].append(k)
        else:
            rows.append([k])
    samples = [_row(trajectory, tuple(turns), stop_id) for turns in rows]
    return [s for s in samples if s.sampled_T.any()]


def _row(trajectory: Trajectory, turns: tuple[int, ...], stop_id: int) -> Sample:
    last = trajectory.turns_K[turns[-1]]
    ids_T = np.concatenate([last.prompt_ids_T, last.response_ids_T]).astype(np.int32)
    origin_T = np.full(len(ids_T), Origin.PROMPT, np.int8)
    turn_T = np.full(len(ids_T), -1, np.int16)
    logprobs_T = np.full(len(ids_T), np.nan, np.float32)
    for k in turns:
        turn = trajectory.turns_K[k]
        start, end = len(turn.prompt_ids_T), len(turn.prompt_ids_T) + len(turn.response_ids_T)
        if not np.array_equal(ids_T[start:end], turn.response_ids_T):
            raise AssertionError(
                f"{trajectory.id}: the prompt of a later turn does not hold the tokens sampled in turn {k}"
            )
        origin_T[start:end], turn_T[start:end], logprobs_T[start:end] = Origin.SAMPLED, k, turn.logprobs_T
        open_ended = len(turn.response_ids_T) == 0 or turn.response_ids_T[-1] != stop_id
        if open_ended and end < len(ids_T) and ids_T[end] == stop_id:
            origin_T[end] = Origin.FORCED
    prompt_len = len(trajectory.turns_K[turns[0]].prompt_ids_T)
    return Sample(trajectory, turns, ids_T, origin_T, turn_T, logprobs_T, prompt_len)
