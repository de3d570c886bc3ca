"""Charts put values where they belong, leave holes where nothing was logged, and escape their labels."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rundirs import EVIL

from seedbed.view.charts import Interval, Series, interval_chart, line_chart, nice_ticks, seconds_chart
from seedbed.view.episode import EDGES, legend, tone
from seedbed.view.text import visible


def test_points_are_in_proportion():
    drawn = ET.fromstring(line_chart("t", [Series("a", [(1, 0.0), (2, 1.0), (3, 0.5)])], percent=True))
    dots = [(float(c.get("cx")), float(c.get("cy"))) for c in drawn.iter("circle")]
    assert dots[1][0] == pytest.approx((dots[0][0] + dots[2][0]) / 2, abs=0.1)
    assert dots[2][1] == pytest.approx((dots[0][1] + dots[1][1]) / 2, abs=0.1)
    assert dots[0][1] > dots[1][1]  # the page's y axis points down
    assert [c.find("title").text for c in drawn.iter("circle")][1] == "a, update 2: 100 %"


@pytest.mark.parametrize("hole", [None, math.nan, math.inf, "x", True])
def test_a_missing_value_breaks_the_line(hole):
    drawn = ET.fromstring(line_chart("t", [Series("a", [(1, 1.0), (2, 2.0), (3, hole), (4, 1.0), (5, 1.5)])]))
    assert [len(p.get("points").split()) for p in drawn.iter("polyline")] == [2, 2]


def test_nothing_to_draw_is_nothing():
    assert line_chart("t", [Series("a", [(1, None)])]) == ""
    assert seconds_chart("t", {"a": 0.0}) == ""


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_enclose_the_values_in_few_round_steps(low, span):
    ticks = nice_ticks(low, low + span)
    slack = 1e-6 * span + 1e-9 * abs(low)
    assert ticks[0] <= low + slack and ticks[-1] >= low + span - slack
    assert 2 <= len(ticks) <= 8
    if len(ticks) > 1 and abs(low) < 1e3 * span:
        step = ticks[1] - ticks[0]
        assert float(f"{step:.6e}".split("e")[0]) in (1, 2, 5)


def test_a_flat_line_has_an_axis_around_it():
    assert nice_ticks(3.0, 3.0)[0] < 3 < nice_ticks(3.0, 3.0)[-1]
    assert nice_ticks(0.0, 0.0) == sorted(nice_ticks(0.0, 0.0))


def test_labels_are_escaped_and_the_svg_is_well_formed():
    charts = [
        line_chart(EVIL, [Series(EVIL, [(1, 1.0), (2, 2.0)])], x_name=EVIL),
        seconds_chart(EVIL, {EVIL: 2.0}),
        interval_chart(EVIL, [Interval(EVIL, 0.5, 0.4, 0.6)]),
    ]
    for chart in charts:
        root = ET.fromstring(chart.encode("utf-8"))
        assert {e.tag for e in root.iter()} <= {"svg", "g", "line", "text", "title", "circle", "polyline", "rect"}
        assert not [name for e in root.iter() for name in e.attrib if name.startswith("on")]


def test_interval_bars_end_at_the_bounds():
    drawn = ET.fromstring(interval_chart("t", [Interval("a", 0.5, 0.25, 1.0)]))
    ticks = {t.text: float(t.get("x")) for t in drawn.iter("text") if t.get("class") == "tick"}
    bar = next(e for e in drawn.iter("line") if e.get("class") == "bar")
    assert (float(bar.get("x1")), float(bar.get("x2"))) == (ticks["25%"], ticks["100%"])
    assert float(next(drawn.iter("circle")).get("cx")) == ticks["50%"]


def test_tones_follow_the_edges_and_the_legend_names_each_once():
    assert [tone(g) for g in (0.0, 0.019, 0.02, 0.1, -0.1, 0.31, -1.0, 7.0)] == [
        "z",
        "z",
        "p1",
        "p2",
        "m2",
        "p3",
        "m4",
        "p4",
    ]
    assert tone(math.nan) == "masked"
    named = [name for name, _ in legend()]
    assert named == ["m4", "m3", "m2", "m1", "z", "p1", "p2", "p3", "p4", "masked"]
    words = dict(legend())
    assert words["m4"] == f"beyond −{EDGES[-1]:g}" and words["p2"] == "+0.1 to +0.3" and words["m1"] == "−0.02 to −0.1"


@given(st.text())
def test_visible_text_can_always_be_written_and_is_stable(text):
    shown = visible(text)
    shown.encode("utf-8")
    assert visible(shown) == shown
    assert not set("\x1b\u202e\u2028\x00\u200f") & set(shown)


def test_visible_leaves_ordinary_text_alone():
    assert visible("a\tb\né漢😀 <b>") == "a\tb\né漢😀 <b>"
    assert visible("\ud800\u200f") == "⟨U+D800⟩⟨U+200F⟩"
