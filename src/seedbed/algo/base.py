"""What an algorithm is: it turns a scored batch into per-token streams and, if it distils, a gate.

An algorithm annotates and never touches a model, an optimiser or a loss; the trainer executes (``loss.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from seedbed.types import Batch, Streams

if TYPE_CHECKING:
    from torch import Tensor

    Gate = Callable[[Tensor], Tensor]  #: gap (teacher minus policy log-prob) -> weight of that token's distillation


class Algorithm(Protocol):
    """One training method. Built from its settings by ``seedbed.algo.make_algorithm``."""

    @property
    def name(self) -> str: ...

    @property
    def needs_skills(self) -> bool:
        """Whether trajectories must be analysed and rows scored in the skill context before ``streams``."""

    @property
    def coefficient(self) -> float:
        """Weight of the distillation term. At 0 the trainer leaves the term out, so training equals GRPO to the bit."""

    @property
    def gate(self) -> Gate | None:
        """The gate of ``loss.opd_loss``, elementwise; None if the method does not distil."""

    def streams(self, batch: Batch) -> tuple[list[Streams], dict[str, int]]:
        """One ``Streams`` per row of ``batch.samples``, in order, and counters for the log; changes nothing."""
