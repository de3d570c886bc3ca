"""GRPO: the outcome of the group is the only signal (paper 1.1, RL term; the arm "w/o self-evolving OPD").

    L = sum over sampled tokens of weight * PPO-clip(ratio, A),    A from ``advantages.py``

No skill, no second context, no distillation.
"""

from __future__ import annotations

from typing import Literal

from seedbed.algo.advantages import AdvantageSettings, advantage_streams
from seedbed.types import Batch, Streams


class GrpoSettings(AdvantageSettings):
    name: Literal["grpo"] = "grpo"


class Grpo:
    """See ``base.Algorithm``."""

    name = "grpo"
    needs_skills = False
    coefficient = 0.0
    gate = None

    def __init__(self, settings: GrpoSettings) -> None:
        self.settings = settings

    def streams(self, batch: Batch) -> tuple[list[Streams], dict[str, int]]:
        """Advantages only."""
        return advantage_streams(batch, self.settings)
