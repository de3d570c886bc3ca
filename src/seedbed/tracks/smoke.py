"""Track 2: does every part of the method run and agree with itself, small? Its scores are not the paper's."""

from __future__ import annotations

from collections.abc import Sequence

from seedbed.tracks.paged import PagedStep
from seedbed.tracks.smoke_arms import Arms
from seedbed.tracks.smoke_pin import Pin
from seedbed.tracks.smoke_stage1 import StageOneSubset
from seedbed.tracks.smoke_vanilla import Vanilla

#: beside the preset ``tiny``: a third of the demo
SETTINGS = ("collect.tasks=18", "train.updates=3", "train.tasks=6", "eval.every=3", "eval.attempts=1")


def steps(settings: Sequence[str] = ()) -> tuple[PagedStep, ...]:
    """The track with other settings; tests make it small."""
    chosen = (*SETTINGS, *settings)
    return Pin(chosen), Vanilla(chosen), StageOneSubset(chosen), Arms(chosen)


STEPS = steps()
