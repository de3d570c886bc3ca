"""One episode as a page shows it: prompts by slot, sampled tokens by what the skill changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from seedbed.track.store import TokenValues
from seedbed.types import Skill, Trajectory
from seedbed.view.shift import Texts, TokenShift, mean_abs_gap, token_shifts

#: |gap| in nats from which each step of the colour scale starts
EDGES = (0.02, 0.1, 0.3, 1.0)


@dataclass(frozen=True, slots=True)
class TokenView:
    text: str
    tone: str  #: CSS class: m4..m1 the skill speaks against, z no change, p1..p4 for, "masked" not scored
    title: str


@dataclass(frozen=True, slots=True)
class TurnView:
    number: int
    slots: tuple[tuple[str, str], ...]
    tokens: tuple[TokenView, ...]
    action: str
    valid: bool
    observation: str


@dataclass(frozen=True, slots=True)
class EpisodeView:
    heading: str
    id: str
    goal: str
    outcome: str
    gap_abs: float
    skill: Skill | None
    turns: tuple[TurnView, ...]


def episode_view(
    heading: str, trajectory: Trajectory, values: TokenValues, skill: Skill | None, sharpness: float, texts: Texts
) -> EpisodeView:
    """All turns with all sampled tokens in order."""
    shifts = token_shifts(trajectory, values, sharpness, texts)
    turns = tuple(
        TurnView(
            k,
            tuple((name, text) for name, text in turn.prompt.slots if text or name == "skill"),
            tuple(map(_token, [s for s in shifts if s.turn == k])),
            turn.action.text,
            turn.action.valid,
            turn.observation,
        )
        for k, turn in enumerate(trajectory.turns_K)
    )
    outcome = f"{trajectory.stop.value}, return {trajectory.reward:g}"
    return EpisodeView(heading, trajectory.id, trajectory.goal, outcome, mean_abs_gap(values), skill, turns)


def tone(gap: float) -> str:
    """The colour class of a gap; bins are closed below."""
    if not math.isfinite(gap):
        return "masked"
    step = sum(abs(gap) >= edge for edge in EDGES)
    return "z" if step == 0 else f"{'p' if gap > 0 else 'm'}{step}"


def legend() -> Sequence[tuple[str, str]]:
    """(class, words) from most against to most for."""
    spans = [f"{{0}}{a:g} to {{0}}{b:g}" for a, b in pairwise(EDGES)] + [f"beyond {{0}}{EDGES[-1]:g}"]
    numbered = list(enumerate(spans, 1))
    return [
        *((f"m{i}", span.format("−")) for i, span in reversed(numbered)),
        ("z", f"within ±{EDGES[0]:g}"),
        *((f"p{i}", span.format("+")) for i, span in numbered),
        ("masked", "not scored"),
    ]


def _token(shift: TokenShift) -> TokenView:
    facts = (
        ("log p ordinary", shift.ordinary),
        ("with skill", shift.skill),
        ("gap", shift.gap),
        ("gate", shift.gate),
        ("advantage", shift.advantage),
    )
    return TokenView(
        shift.text.replace("\n", "⏎\n") or "·",
        tone(shift.gap),
        ", ".join(f"{name} {value:.3f}" if math.isfinite(value) else f"{name} -" for name, value in facts),
    )
