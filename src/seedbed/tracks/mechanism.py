"""Track 1: what is the method made of? Four steps on the tiny model; every quantity is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from seedbed.tracks.mechanism_boundary import Boundary
from seedbed.tracks.mechanism_gap import SupervisionGap
from seedbed.tracks.mechanism_stage1 import StageOne
from seedbed.tracks.mechanism_stage2 import StageTwo
from seedbed.tracks.paged import PagedStep

#: beside the preset ``tiny``: a third of the demo, one optimiser step an update so that its loss can be computed again
SETTINGS = (
    "collect.tasks=18",
    "train.updates=3",
    "train.tasks=6",
    "train.minibatch_rows=1000000",
    "train.checkpoint_every=1",
    "eval.attempts=1",
)


def steps(settings: Sequence[str] = ()) -> tuple[PagedStep, ...]:
    """The track with other settings; tests make it small."""
    chosen = (*SETTINGS, *settings)
    return SupervisionGap(chosen), StageOne(chosen), StageTwo(chosen), Boundary(chosen)


STEPS = steps()
