"""The page about a run or a demo: one ``report.html`` that needs no network, runs no script and escapes every text.

Jinja escapes everything (autoescape is on for all templates), ``visible`` shows what would act on the page, and the
page's own policy forbids scripts and any request should one of the two be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from seedbed.evaluate.stats import noise_floor
from seedbed.track.store import replace_file
from seedbed.track.topology import topology
from seedbed.view.charts import Interval, interval_chart
from seedbed.view.curves import Figure, figures, health
from seedbed.view.episode import EpisodeView, episode_view, legend
from seedbed.view.headline import Row, Stage, rows, stages
from seedbed.view.rundir import RunDirectory
from seedbed.view.shift import mean_abs_gap, pick
from seedbed.view.text import visible
from seedbed.view.topology_svg import draw
from seedbed.view.verdict import differences, verdict


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where one run came from: facts of its manifest by group, and its difference from the paper."""

    label: str
    groups: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    paper_diff: str


def write_report(directory: Path) -> Path:
    """Write ``report.html`` into a train run or demo directory, from its files alone; returns its path.

    Raises ``UserError`` for a directory that is neither, or for a damaged file in it.
    """
    path = directory / "report.html"
    page = render(directory)
    replace_file(path, lambda temporary: temporary.write_text(page, "utf-8"))
    return path


def render(directory: Path) -> str:
    """The page as text; see ``write_report``."""
    found, demo = stages(directory)
    table = rows(found)
    runs = [stage for stage in found if stage.run]
    by_name = {stage.name: stage for stage in found}
    compared = []
    sentences = list(demo.get("sentences", []))
    if "grpo" in by_name and "seed" in by_name:
        grpo, seed = by_name["grpo"], by_name["seed"]
        compared = differences(grpo.evals, seed.evals)
        sentences = verdict(grpo.evals, seed.evals, {"grpo": grpo.entropy, "seed": seed.entropy}) + sentences
    elif table:
        first = table[-1].summary
        sentences.append(noise_floor(first["n_tasks"], first["micro"]["value"] or 0.0))
    environment = Environment(
        loader=PackageLoader("seedbed.view"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "number": _number, "interval": _interval}
    environment.filters["points"] = lambda share: f"{100 * share:+.1f}"
    return environment.get_template("report.html.j2").render(
        title="seedbed demo" if demo else f"run {directory.resolve().name}",
        demo=demo,
        rows=table,
        interval_charts=_interval_charts(table),
        compared=compared,
        sentences=list(dict.fromkeys(sentences)),
        runs=runs,
        figures=figures(found),
        topology=draw(topology([directory])) if runs else "",
        demo_seconds=_demo_seconds(demo),
        health=[health(stage) for stage in runs if stage.trained],
        episodes=[view for stage in runs for view in _episodes(stage)],
        legend=legend(),
        provenance=[_provenance(stage) for stage in runs],
    )


def _safe(value: Any) -> Any:
    """What every ``{{ }}`` goes through before it is escaped."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _interval_charts(table: list[Row]) -> list[Figure]:
    out = []
    for temperature, group in groupby(table, key=lambda row: row.temperature):
        measured = [(row, row.summary["micro"]) for row in group if row.summary["micro"]["value"] is not None]
        if measured:
            title = f"success over all episodes at temperature {temperature:g}"
            intervals = [Interval(row.label, m["value"], m["low"], m["high"], row.style) for row, m in measured]
            out.append(Figure(title, interval_chart(title, intervals)))
    return out


def _demo_seconds(demo: Mapping[str, Any]) -> list[tuple[str, float]]:
    return sorted(demo.get("seconds", {}).items(), key=lambda item: -item[1])


def _episodes(stage: Stage) -> list[EpisodeView]:
    """The episode that a skill changes most in the last update with scores, and one of the first."""
    run = stage.run
    last = run.scored_update() if run else None
    if run is None or last is None:
        return []
    first = run.scored_update(first=True)
    views = [_episode(stage.label, run, last, "last")]
    if first is not None and first != last:
        views.append(_episode(stage.label, run, first, "first"))
    return views


def _episode(label: str, run: RunDirectory, update: int, which: str) -> EpisodeView:
    scored = run.trajectories(update)
    trajectory, values = pick(scored)
    heading = f"{label}, update {update} (the {which} with scores): the episode with the largest mean |gap|"
    assert mean_abs_gap(values) >= 0
    return episode_view(
        heading,
        trajectory,
        values,
        run.skills(update).get(trajectory.id),
        float(run.setting("algo.sharpness", 5.0)),
        run.token_texts(),
    )


def _provenance(stage: Stage) -> Provenance:
    assert stage.run is not None
    facts, groups = [], []
    for key, value in stage.run.manifest.items():
        if isinstance(value, dict):
            groups.append((key, tuple((str(name), _fact(inner)) for name, inner in value.items())))
        else:
            facts.append((key, _fact(value)))
    return Provenance(stage.label, (("run", tuple(facts)), *groups), stage.run.paper_diff)


def _fact(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _interval(estimate: Mapping[str, Any]) -> str:
    return f"[{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"
