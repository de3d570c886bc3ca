"""What is logged about an update: numbers from the batch itself, and warnings in plain words."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from seedbed.algo.base import Algorithm
from seedbed.skills.analyze import coverage
from seedbed.types import Batch

SAMPLER_DIFF_ALARM = 1e-2  #: nats between sampler and scorer of one token; fp32 on one machine stays below 1e-4
PARSE_ALARM = 0.5


def episode_metrics(batch: Batch) -> dict[str, Any]:
    """Return, success, length and faults of the episodes. Success is over survivors; faults are counted apart."""
    everything = batch.trajectories
    alive = [t for t in everything if not t.faulty]
    kinds: dict[str, list[bool]] = defaultdict(list)
    for t in alive:
        kinds[t.task.kind].append(t.won)
    turns = sum(len(t.turns_K) for t in alive)
    return {
        "episodes": len(everything),
        "faults": len(everything) - len(alive),
        "return": float(np.mean([t.reward for t in alive])) if alive else 0.0,
        "success": float(np.mean([t.won for t in alive])) if alive else 0.0,
        "success_by_kind": {kind: float(np.mean(won)) for kind, won in sorted(kinds.items())},
        "episode_length": turns / max(len(alive), 1),
        "valid_actions": 1.0 - sum(t.invalid_turns for t in alive) / max(turns, 1),
        "stops": dict(sorted(Counter(t.stop.value for t in everything).items())),
        "tokens_sampled": sum(t.sampled_tokens for t in everything),
        "history_shortened": sum(turn.shortened for t in everything for turn in t.turns_K),
        "prefix_breaks": sum(turn.prefix_break for t in everything for turn in t.turns_K),
    }


def signal_metrics(batch: Batch, algorithm: Algorithm) -> dict[str, Any]:
    """Skills, gaps and gates of the update at the snapshot, and how far sampler and scorer are apart."""
    apart = np.concatenate(
        [
            np.abs(score.ordinary_T - sample.sampler_logprobs_T)[sample.sampled_T]
            for sample, score in zip(batch.samples, batch.scores, strict=True)
        ]
        or [np.zeros(0)]
    )
    out: dict[str, Any] = {
        "sampler_diff_mean": float(apart.mean()) if len(apart) else 0.0,
        "sampler_diff_max": float(apart.max()) if len(apart) else 0.0,
    }
    if not algorithm.needs_skills:
        return out
    covered = coverage(batch.skills, batch.trajectories)
    out |= {
        "skill_parse_rate": covered["parse_rate"],
        "skill_statuses": covered["statuses"],
        "skill_cut": sum(s.skill_cut for s in batch.scores),
    }
    gaps, won = [], []
    for sample, score, stream in zip(batch.samples, batch.scores, batch.streams, strict=True):
        if stream.opd_mask_T is not None:
            gap = score.gap_T[stream.opd_mask_T]
            gaps.append(gap)
            won.append(np.full(len(gap), sample.trajectory.won))
    tokens = sum(int(s.sampled_T.sum()) for s in batch.samples)
    gap, won = np.concatenate([np.zeros(0), *gaps]), np.concatenate([np.zeros(0, bool), *won])
    out["opd_active"] = len(gap) / max(tokens, 1)
    if len(gap):
        import torch  # noqa: PLC0415

        gate = algorithm.gate(torch.from_numpy(gap)).numpy()
        out |= {
            "gap_mean": float(gap.mean()),
            "gap_abs": float(np.abs(gap).mean()),
            "gap_wide": float((np.abs(gap) > 0.1).mean()),
            "gap_low": float((gap < -0.5).mean()),
            "gate_mean": float(gate.mean()),
            "gate_open": float((gate > 0.5).mean()),
        }
        out |= {f"gap_{name}": float(gap[at].mean()) for name, at in (("won", won), ("lost", ~won)) if at.any()}
    return out


def warnings(row: dict[str, Any]) -> list[str]:
    """What a person should look at, from one metrics row."""
    out = []
    if "opd_active" in row:
        if row["opd_active"] == 0:
            out.append(
                "no token distils: no trajectory of this update has a usable skill, so the update was GRPO alone; "
                "look at skill_statuses"
            )
        elif row.get("gap_abs") == 0:
            out.append("every gap is exactly 0: the skill context equals the ordinary one (empty skills?)")
        if row["skill_parse_rate"] < PARSE_ALARM:
            out.append(
                f"only {row['skill_parse_rate']:.0%} of the analyses parse: the analyzer is being lost; "
                "Stage-1 rows in the update (train.rehearsal_rows) or a lower train.lr usually help"
            )
        if row.get("step_skill_rows") == 0:
            out.append("analyzer.steps asks for step skills and no row of this update was taught by one")
        if row["skill_cut"]:
            out.append(f"{row['skill_cut']} rows lost their skill to the prompt limit: raise rollout.max_prompt_tokens")
    if row["history_shortened"]:
        out.append(
            f"{row['history_shortened']} prompts show less than rollout.history: raise rollout.max_prompt_tokens"
        )
    if row["sampler_diff_max"] > SAMPLER_DIFF_ALARM:
        out.append(
            f"sampler and scorer differ by up to {row['sampler_diff_max']:.2g} nats on one token: "
            "ratios and gaps are not to be trusted"
        )
    if row["faults"]:
        out.append(
            f"{row['faults']} of {row['episodes']} episodes ended by a fault and were left out; "
            "causes are in the trajectories"
        )
    if row.get("groups") and row.get("groups_tied") == row["groups"]:
        out.append(
            "every group ended in a tie: no outcome signal in this update; "
            "harder or easier tasks, or more attempts, would give one"
        )
    return out
