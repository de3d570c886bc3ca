"""Lines, intervals and bars as inline SVG: no script, no network. Numbers appear on hover; colours come from the page.

Series are told apart by colour (blue, orange, green, purple: safe for the common colour-vision deficiencies) and by dash
pattern, so a grey print works too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from seedbed.view.text import visible

_Scale = Callable[[float], float]  # value -> place on the page

_WIDTH, _HEIGHT = 340, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 12, 28


@dataclass(frozen=True, slots=True)
class Series:
    """One line: (x, y) in order of x; a y that is None or not finite is a hole in the line."""

    name: str
    points: Sequence[tuple[float, float | None]]
    style: int = 0  #: 0..3, colour and dash


@dataclass(frozen=True, slots=True)
class Interval:
    """One row of an interval chart, shares in 0..1."""

    label: str
    value: float
    low: float
    high: float
    style: int = 0


def line_chart(title: str, series: Sequence[Series], *, percent: bool = False, x_name: str = "update") -> Markup:
    """All series over one pair of axes; an empty string if there is no finite point."""
    drawn = [(s, [(x, y) for x, y in s.points if _finite(y)]) for s in series]
    drawn = [(s, points) for s, points in drawn if points]
    if not drawn:
        return Markup("")
    xs = [x for _, points in drawn for x, _ in points]
    ys = [y for _, points in drawn for _, y in points]
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0] if percent and max(ys) <= 1 and min(ys) >= 0 else nice_ticks(min(ys), max(ys))
    x_at = _scale(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT)
    y_at = _scale(ticks[0], ticks[-1], _HEIGHT - _BOTTOM, _TOP)
    body = [_y_axis(ticks, y_at, percent), _x_axis(min(xs), max(xs), x_at, x_name)]
    for s, _ in drawn:
        body.append(_line(s, x_at, y_at, percent, x_name))
    return _svg(title, _WIDTH, _HEIGHT, body)


def interval_chart(title: str, rows: Sequence[Interval]) -> Markup:
    """Points with their intervals, one row each, on an axis from 0 to 100 %."""
    label, width, step = 150, 560, 24
    height = step * len(rows) + 30
    x_at = _scale(0, 1, label, width - 20)
    body = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        body.append(Markup('<line class="rule" x1="{0}" x2="{0}" y1="6" y2="{1}"/><text class="tick" x="{0}" y="{2}" '
                           'text-anchor="middle">{3:.0%}</text>').format(_r(x_at(tick)), height - 24, height - 8, tick))
    for i, row in enumerate(rows):
        y = step * i + step / 2 + 6
        words = f"{row.label}: {_amount(row.value, True)} (95 % {_amount(row.low, True)} to {_amount(row.high, True)})"
        body.append(Markup(
            '<g class="s{style}"><title>{words}</title><text class="label" x="{lx}" y="{ty}" text-anchor="end">{label}'
            '</text><line class="bar" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/><circle cx="{c}" cy="{y}" r="4.5"/></g>').format(
            style=row.style % 4, words=words, lx=label - 10, ty=_r(y + 4), label=_short(row.label, 24), a=_r(x_at(row.low)),
            b=_r(x_at(row.high)), c=_r(x_at(row.value)), y=_r(y)))
    return _svg(title, width, height, body)


def seconds_chart(title: str, seconds: Mapping[str, float]) -> Markup:
    """One bar a phase, longest first."""
    kept = sorted(((name, s) for name, s in seconds.items() if _finite(s) and s > 0), key=lambda item: -item[1])
    if not kept:
        return Markup("")
    label, step, total = 110, 20, sum(s for _, s in kept)
    x_at = _scale(0, kept[0][1], label, _WIDTH - 60)
    body = []
    for i, (name, s) in enumerate(kept):
        y = step * i + 6
        body.append(Markup(
            '<g class="s0"><title>{name}: {s:.1f} s, {share:.0%} of {total:.1f} s</title><text class="label" x="{lx}" y="{ty}"'
            ' text-anchor="end">{short}</text><rect x="{label}" y="{y}" width="{w}" height="13" rx="2"/><text class="tick" '
            'x="{vx}" y="{ty}">{s:.1f} s</text></g>').format(
            name=name, s=s, share=s / total, total=total, lx=label - 8, ty=y + 11, short=_short(name, 18), label=label, y=y,
            w=_r(max(1.0, x_at(s) - label)), vx=_r(x_at(s) + 5)))
    return _svg(title, _WIDTH, step * len(kept) + 12, body)


def nice_ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers that enclose [low, high], about ``wanted`` steps of 1, 2 or 5 times a power of ten."""
    if high <= low:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def _line(series: Series, x_at: _Scale, y_at: _Scale, percent: bool, x_name: str) -> Markup:
    runs: list[list[str]] = [[]]
    dots = []
    for x, y in series.points:
        if not _finite(y):
            runs.append([])
            continue
        runs[-1].append(f"{_r(x_at(x))},{_r(y_at(y))}")
        dots.append(Markup('<circle cx="{}" cy="{}" r="2.6"><title>{}, {} {:g}: {}</title></circle>').format(
            _r(x_at(x)), _r(y_at(y)), series.name, x_name, x, _amount(y, percent)))
    lines = [Markup('<polyline points="{}"/>').format(" ".join(run)) for run in runs if len(run) > 1]
    return Markup('<g class="s{}">{}{}</g>').format(series.style % 4, Markup("").join(lines), Markup("").join(dots))


def _y_axis(ticks: Sequence[float], y_at: _Scale, percent: bool) -> Markup:
    return Markup("").join(
        Markup('<line class="rule" x1="{}" x2="{}" y1="{y}" y2="{y}"/><text class="tick" x="{}" y="{}" text-anchor="end">{}'
               "</text>").format(_LEFT, _WIDTH - _RIGHT, _LEFT - 6, _r(y_at(t) + 3.5), _amount(t, percent), y=_r(y_at(t)))
        for t in ticks)


def _x_axis(low: float, high: float, x_at: _Scale, name: str) -> Markup:
    ends = [low] if low == high else [low, high]
    ticks = [Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{:g}</text>').format(
        _r(x_at(x)), _HEIGHT - _BOTTOM + 15, x) for x in ends]
    middle = Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - _BOTTOM + 15, name) if low != high else Markup("")
    return Markup("").join([*ticks, middle])


def _svg(title: str, width: int, height: int, body: Sequence[Markup]) -> Markup:
    drawn = Markup('<svg role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}">{}</svg>').format(
        title, width, height, width, Markup("").join(body))
    return Markup(visible(str(drawn)))


def _scale(low: float, high: float, start: float, end: float) -> _Scale:
    span = (high - low) or 1.0
    shift = 0.5 * (end - start) if high == low else 0.0
    return lambda value: start + shift + (value - low) / span * (end - start)


def _amount(value: float, percent: bool) -> str:
    return f"{100 * value:.4g} %" if percent else f"{value:.4g}"


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _r(value: float) -> str:
    return f"{value:.1f}"
