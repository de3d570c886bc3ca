"""What does a skill change? The same sampled tokens, with their log-probs in both contexts side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from seedbed.track.store import TokenValues
from seedbed.types import Skill, Trajectory, UserError
from seedbed.view.rundir import RunDirectory, Scored, is_scored
from seedbed.view.text import visible

WIDE = 0.1  #: a |gap| above this is more than rounding: the skill said something about the token
LOW = -0.5  #: a gap below this: the skill speaks against the token

Texts = Callable[[Sequence[int]], list[str]]


@dataclass(frozen=True, slots=True)
class TokenShift:
    """One sampled token. Log-probs in nats; all values NaN where it was not scored in both contexts."""

    turn: int
    text: str
    ordinary: float
    skill: float
    gate: float
    advantage: float

    @property
    def gap(self) -> float:
        return self.skill - self.ordinary


@dataclass(frozen=True, slots=True)
class GapSummary:
    """Gaps of all scored tokens of some trajectories; means and shares are NaN without any."""

    trajectories: int
    tokens: int
    mean: float
    mean_abs: float
    share_wide: float  #: |gap| > ``WIDE``
    share_low: float  #: gap < ``LOW``


def token_shifts(trajectory: Trajectory, values: TokenValues, sharpness: float, texts: Texts) -> list[TokenShift]:
    """Every sampled token in turn order; gate is ``sigmoid(sharpness * gap)`` (paper 1.1)."""
    words = [(k, text) for k, turn in enumerate(trajectory.turns_K) for text in texts(turn.response_ids_T.tolist())]
    columns = zip(words, values.ordinary_T.tolist(), values.skill_T.tolist(), values.advantage_T.tolist(), strict=True)
    return [
        TokenShift(k, text, ordinary, skill, _sigmoid(sharpness * (skill - ordinary)), advantage)
        for (k, text), ordinary, skill, advantage in columns
    ]


def summarise(scored: Sequence[Scored]) -> GapSummary:
    """Tokens are pooled over trajectories."""
    gaps = [values.skill_T - values.ordinary_T for _, values in scored]
    gap = np.concatenate([np.zeros(0, np.float32), *gaps]).astype(np.float64)
    gap = gap[np.isfinite(gap)]
    if not len(gap):
        return GapSummary(0, 0, math.nan, math.nan, math.nan, math.nan)
    return GapSummary(
        sum(is_scored(v) for _, v in scored),
        len(gap),
        float(gap.mean()),
        float(np.abs(gap).mean()),
        float((np.abs(gap) > WIDE).mean()),
        float((gap < LOW).mean()),
    )


def mean_abs_gap(values: TokenValues) -> float:
    """-1 if nothing was scored."""
    gap = np.abs(values.skill_T - values.ordinary_T)
    return float(np.nanmean(gap)) if np.isfinite(gap).any() else -1.0


def pick(scored: Sequence[Scored], trajectory: str | None = None) -> Scored:
    """The named trajectory, or the one with the largest mean |gap|. Raises ``UserError``."""
    if trajectory is None:
        return max(scored, key=lambda pair: mean_abs_gap(pair[1]))
    for pair in scored:
        if pair[0].id == trajectory:
            if not is_scored(pair[1]):
                raise UserError(
                    f"trajectory {trajectory!r} has no scores in the skill context (no valid skill, or it "
                    f"was cut): choose another with --trajectory"
                )
            return pair
    names = [t.id for t, _ in scored]
    near = (get_close_matches(trajectory, names, n=1, cutoff=0.1) or names[:1])[0]
    raise UserError(f"no trajectory {trajectory!r} in this update; did you mean {near!r}?")


def chosen_update(run: RunDirectory, update: int | None) -> int:
    """The asked update, or the last with scores. Raises ``UserError`` if nothing was scored in both contexts."""
    if update is None:
        update = run.scored_update()
    if update is None or not any(is_scored(values) for _, values in run.trajectories(update)):
        where = f"{run.path}" if update is None else f"update {update} of {run.path}"
        name = run.setting("algo.name", "unknown")
        raise UserError(
            f"{where} holds no tokens scored with a skill (algo.name is {name!r}): only a method that uses "
            f"skills, with at least one valid skill, has a shift to show"
        )
    return update


def shift_view(run: RunDirectory, update: int | None, trajectory: str | None, top: int) -> RenderableType:
    """The whole answer of ``seedbed shift`` for the terminal. Raises ``UserError``."""
    update = chosen_update(run, update)
    scored = run.trajectories(update)
    chosen, values = pick(scored, trajectory)
    tokens = token_shifts(chosen, values, float(run.setting("algo.sharpness", 5.0)), run.token_texts())
    widest = sorted((t for t in tokens if math.isfinite(t.gap)), key=lambda t: -abs(t.gap))[:top]
    return Group(
        _heading(chosen, run.skills(update).get(chosen.id), update),
        _token_table(tokens, "every sampled token"),
        _token_table(widest, f"the {len(widest)} largest |gap| of this episode"),
        _summary_table(scored, update),
    )


def print_shift(console: Console, run: RunDirectory, update: int | None, trajectory: str | None, top: int) -> None:
    console.print(shift_view(run, update, trajectory, top))


def _heading(trajectory: Trajectory, skill: Skill | None, update: int) -> Text:
    text = Text()
    text.append(f"update {update}, episode {visible(trajectory.id)}\n", "bold")
    text.append(
        f"task: {visible(trajectory.goal)}\noutcome: {trajectory.stop.value}, return {trajectory.reward:g}, "
        f"{len(trajectory.turns_K)} turns\n"
    )
    if skill is None:
        return text.append("skill: not in skills.jsonl\n", "red")
    return text.append(f"skill ({skill.kind}, {skill.status}, by {visible(skill.source)}): ").append(
        visible(skill.text) + "\n", "italic"
    )


def _token_table(tokens: Sequence[TokenShift], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("turn", "token", "log p", "log p with skill", "gap", "gate"):
        table.add_column(name, justify="left" if name == "token" else "right")
    for t in tokens:
        style = "blue" if t.gap > WIDE else "dark_orange" if t.gap < -WIDE else ""
        table.add_row(
            str(t.turn),
            Text(visible(repr(t.text)[1:-1]) or "(part of a character)"),
            _number(t.ordinary),
            _number(t.skill),
            Text(_number(t.gap, "+"), style),
            _number(t.gate),
        )
    return table


def _summary_table(scored: Sequence[Scored], update: int) -> Table:
    table = Table(title=f"all scored tokens of update {update}", title_justify="left")
    for name in ("episodes of", "scored", "tokens", "mean gap", "mean |gap|", f"|gap| > {WIDE}", f"gap < {LOW}"):
        table.add_column(name, justify="right")
    whole = [pair for pair in scored if not pair[0].faulty]
    for name, part in (
        ("all", whole),
        ("won", [p for p in whole if p[0].won]),
        ("lost", [p for p in whole if not p[0].won]),
    ):
        s = summarise(part)
        table.add_row(
            name,
            f"{s.trajectories} of {len(part)}",
            str(s.tokens),
            _number(s.mean, "+"),
            _number(s.mean_abs),
            _percent(s.share_wide),
            _percent(s.share_low),
        )
    return table


def _number(value: float, sign: str = "") -> str:
    return f"{round(value, 3) + 0.0:{sign}.3f}" if math.isfinite(value) else "-"  # + 0.0: never "-0.000"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if math.isfinite(value) else "-"


def _sigmoid(x: float) -> float:
    if math.isnan(x):
        return x
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
