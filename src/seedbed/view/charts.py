"""Lines, intervals and bars as inline SVG: no script, no network. Numbers show on hover; colours are the page's.

Series are told apart by colour (blue, orange, green, purple: safe for the common colour-vision deficiencies) and dash
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
    left, width, step = 150, 560, 24
    bottom = step * len(rows) + 6
    x_at = _scale(0, 1, left, width - 20)
    body = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        body.append(_rule("rule", x_at(tick), 6, x_at(tick), bottom))
        body.append(_text("tick", x_at(tick), bottom + 16, f"{tick:.0%}", "middle"))
    for i, row in enumerate(rows):
        y = step * i + step / 2 + 6
        words = f"{row.label}: {_amount(row.value, True)} (95 % {_amount(row.low, True)} to {_amount(row.high, True)})"
        parts = [
            _text("label", left - 10, y + 4, _short(row.label, 24), "end"),
            _rule("bar", x_at(row.low), y, x_at(row.high), y),
            Markup('<circle cx="{}" cy="{}" r="4.5"/>').format(_r(x_at(row.value)), _r(y)),
        ]
        body.append(_group(row.style, words, parts))
    return _svg(title, width, bottom + 24, body)


def seconds_chart(title: str, seconds: Mapping[str, float]) -> Markup:
    """One bar a phase, longest first."""
    kept = sorted(((name, s) for name, s in seconds.items() if _finite(s) and s > 0), key=lambda item: -item[1])
    if not kept:
        return Markup("")
    left, step, total = 110, 20, sum(s for _, s in kept)
    x_at = _scale(0, kept[0][1], left, _WIDTH - 60)
    body = []
    for i, (name, s) in enumerate(kept):
        y = step * i + 6
        bar = Markup('<rect x="{}" y="{}" width="{}" height="13" rx="2"/>').format(left, y, _r(max(1, x_at(s) - left)))
        label = _text("label", left - 8, y + 11, _short(name, 18), "end")
        amount = _text("tick", x_at(s) + 5, y + 11, f"{s:.1f} s", "start")
        body.append(_group(0, f"{name}: {s:.1f} s, {s / total:.0%} of {total:.1f} s", [label, bar, amount]))
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
        words = f"{series.name}, {x_name} {x:g}: {_amount(y, percent)}"
        dot = Markup('<circle cx="{}" cy="{}" r="2.6"><title>{}</title></circle>')
        dots.append(dot.format(_r(x_at(x)), _r(y_at(y)), words))
    lines = [Markup('<polyline points="{}"/>').format(" ".join(run)) for run in runs if len(run) > 1]
    return _group(series.style, "", [*lines, *dots])


def _y_axis(ticks: Sequence[float], y_at: _Scale, percent: bool) -> Markup:
    rules = [_rule("rule", _LEFT, y_at(t), _WIDTH - _RIGHT, y_at(t)) for t in ticks]
    return _joined([*rules, *(_text("tick", _LEFT - 6, y_at(t) + 3.5, _amount(t, percent), "end") for t in ticks)])


def _x_axis(low: float, high: float, x_at: _Scale, name: str) -> Markup:
    y = _HEIGHT - _BOTTOM + 15
    ends = [_text("tick", x_at(x), y, f"{x:g}", "middle") for x in sorted({low, high})]
    return _joined([*ends, _text("tick", (_LEFT + _WIDTH - _RIGHT) / 2, y, name if low != high else "", "middle")])


def _group(style: int, words: str, parts: Sequence[Markup]) -> Markup:
    """Elements of one colour; ``words`` show on hover."""
    title = Markup("<title>{}</title>").format(words) if words else ""
    return Markup('<g class="s{}">{}{}</g>').format(style % 4, title, _joined(parts))


def _text(css: str, x: float, y: float, words: str, anchor: str) -> Markup:
    form = Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>')
    return form.format(css, _r(x), _r(y), anchor, words)


def _rule(css: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    form = Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>')
    return form.format(css, _r(x1), _r(y1), _r(x2), _r(y2))


def _joined(parts: Sequence[Markup]) -> Markup:
    return Markup("").join(parts)


def _svg(title: str, width: int, height: int, body: Sequence[Markup]) -> Markup:
    drawn = Markup('<svg role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}">{}</svg>').format(
        title, width, height, width, Markup("").join(body)
    )
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
