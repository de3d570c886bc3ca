"""SEED: the policy's own hindsight skill re-scores its tokens, and the gap gates a distillation term.

    gap  = sg[logp(y | H(h, s)) - logp(y | h)]          paper 1.1
    gate = sigmoid(sharpness * gap)                     paper 1.1, beta_opd = 5
    L    = L_grpo + coefficient * mean over OPD tokens of gate * (sg[logp(y | H(h, s))] - logp(y | h))

Every sampled token of every trajectory with a valid skill takes part, won or lost, reasoning and tags included
(official code). Without a valid skill, or where the skill did not fit the prompt limit, a row trains by GRPO alone.
The teacher is scored once, by the weights that played (official code), while the gap uses the current policy. What the
term does: its gradient is the gate-weighted likelihood of the policy's *own* tokens. At gap 0 the gate is 0.5, so a
skill that changes nothing still pushes up whatever was sampled; a token the skill dislikes is pushed up less, never
down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from seedbed.algo.advantages import AdvantageSettings, advantage_streams
from seedbed.types import Batch, Streams

if TYPE_CHECKING:
    from torch import Tensor


class SeedSettings(AdvantageSettings):
    name: Literal["seed"] = "seed"
    coefficient: float = Field(0.01, ge=0)  #: lambda_opd
    sharpness: float = Field(5.0, ge=0)  #: beta_opd; 0 is the constant gate 0.5


class Seed:
    """See ``base.Algorithm``."""

    name = "seed"
    needs_skills = True

    def __init__(self, settings: SeedSettings) -> None:
        self.settings = settings
        self.coefficient = settings.coefficient

    def gate(self, gap: Tensor) -> Tensor:
        """sigmoid(sharpness * gap), in (0, 1)."""
        return (self.settings.sharpness * gap).sigmoid()

    def streams(self, batch: Batch) -> tuple[list[Streams], dict[str, int]]:
        """Advantages plus teacher and mask. Counts rows and tokens that distil, and the rows that do not, by cause."""
        streams, counts = advantage_streams(batch, self.settings)
        counts |= dict.fromkeys(("opd_rows", "opd_tokens", "opd_rows_no_skill", "opd_rows_cut", "opd_not_finite"), 0)
        for row, sample, scores in zip(streams, batch.samples, batch.scores, strict=True):
            skill = batch.skills.get(sample.trajectory.id)
            if skill is None or not skill.valid:
                counts["opd_rows_no_skill"] += 1
            elif scores.skill_T is None:
                counts["opd_rows_cut"] += 1
            else:
                # a token without a finite teacher must leave the denominator too, so it is dropped before weighting
                row.opd_mask_T = sample.sampled_T & np.isfinite(scores.skill_T)
                row.teacher_T = scores.skill_T
                tokens = int(row.opd_mask_T.sum())
                counts["opd_rows"] += 1
                counts["opd_tokens"] += tokens
                counts["opd_not_finite"] += int(sample.sampled_T.sum()) - tokens
        return streams, counts
