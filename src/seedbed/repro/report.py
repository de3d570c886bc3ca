"""What came of a reproduction? ``report.md``, ``report.json`` and ``record.json``, from the folder's files alone.

Three columns that never mix: what the paper reports, what this run gave with the paper's settings, and what could not
be aligned with them and why. The same files give the same bytes: nothing here tells the time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from seedbed.repro.alignment import sides
from seedbed.repro.claims import RULE, STATUSES, Results, as_record, claims, read_results
from seedbed.repro.here import PAPER
from seedbed.repro.legs import Score
from seedbed.repro.paper_diff import TITLES, cell
from seedbed.repro.plan import Plan
from seedbed.repro.tables import reported
from seedbed.track.store import replace_file

FILES = ("report.md", "report.json", "record.json")
_NONE = "-"


def report(plan: Plan, todo: Mapping[str, str]) -> dict[str, str]:
    """The three files by name. ``todo`` is the command of every step that is open."""
    results = read_results(plan)
    found = [as_record(claim) for claim in claims(results)]
    manifest = plan.folder / "manifest.json"
    record = {
        "paper": PAPER,
        "presets": list(plan.presets),
        "model": plan.model,
        "benchmark": plan.config.env.name,
        "manifest": sha256(manifest.read_bytes()).hexdigest() if manifest.is_file() else None,
        "rule": RULE,
        "claims": found,
    }
    lines = sides(plan.config, plan.reasons)
    whole = {
        **record,
        "settings": {
            "compared": len(lines),
            "unexplained": [line.key for line in lines if line.unexplained],
            "explained": {
                line.key: line.reason
                for line in lines
                if line.reason and "differs" in (line.against_paper, line.against_launcher)
            },
        },
        "data": _data(plan.folder),
        "cells": _cells(results),
        "curves": {name: _curve(results, name) for name in results.legs},
        "open": dict(todo),
    }
    texts = {"report.json": whole, "record.json": record}
    return {"report.md": _markdown(whole)} | {name: json.dumps(v, indent=1) + "\n" for name, v in texts.items()}


def write_report(plan: Plan, todo: Mapping[str, str]) -> None:
    for name, text in report(plan, todo).items():
        replace_file(plan.folder / name, lambda path, text=text: path.write_text(text, "utf-8"))


def _data(folder: Path) -> list[dict[str, Any]]:
    path = folder / "data.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else []


def _cells(results: Results) -> list[dict[str, Any]]:
    """Table 1's cells by kind of task, and both averages, of every method that the track runs."""
    plan, out = results.plan, []
    for method in ("vanilla", "grpo", "seed"):
        score = results.final(method)
        paper = reported(plan.model, method, plan.config.env.name) if plan.model else {}
        kinds = score.result["summary"]["by_kind"] if score else {}
        columns = [name for name in dict.fromkeys([*paper, *kinds]) if name not in ("score", "success")]
        for name in columns:
            out.append(_row(method, name, paper.get(name), score, kinds.get(name)))
        for name in ("micro", "macro"):
            out.append(_row(method, name, None, score, score.result["summary"][name] if score else None))
    return out


def _row(
    method: str, column: str, paper: float | None, score: Score | None, own: Mapping[str, Any] | None
) -> dict[str, Any]:
    known = own if own and own["value"] is not None else None
    value = _percent(known) if known else None
    aligned = score is not None and not score.unaligned
    return {
        "method": method,
        "column": column,
        "paper": paper,
        "this_run": value if aligned else None,
        "could_not_be_aligned": value if not aligned else None,
    }


def _percent(value: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {"value": 100 * value["value"], "interval": [100 * value["low"], 100 * value["high"]]}
    return {
        "value": round(numbers["value"], 2),
        "interval": [round(number, 2) for number in numbers["interval"]],
        **{name: value[name] for name in ("k", "n") if name in value},
    }


def _curve(results: Results, name: str) -> list[dict[str, Any]]:
    """Training success and episode length by update, with micro and macro where the panel was played."""
    leg = results.legs[name]
    out = []
    for row in leg.rows:
        point = {key: row[key] for key in ("update", "success", "episode_length") if key in row}
        if score := leg.scores.get(row["update"]):
            point |= {kind: score.result["summary"][kind]["value"] for kind in ("micro", "macro")}
        out.append(point)
    return out


def _markdown(whole: Mapping[str, Any]) -> str:
    title = TITLES.get(whole["benchmark"], whole["benchmark"])
    tally = {status: sum(c["status"] == status for c in whole["claims"]) for status in STATUSES}
    settings = whole["settings"]
    out = [
        f"# Reproduction of SEED (arXiv {PAPER['arxiv']}) on {title}",
        "",
        f"Presets {', '.join(whole['presets'])}; model {whole['model'] or 'none of the paper'}. "
        f"Manifest sha256 {whole['manifest'] or 'not frozen yet'}.",
        "",
        "Claims: " + ", ".join(f"{count} {status}" for status, count in tally.items()) + f". {RULE}",
        "",
        "## Claims",
        "",
        *_table(
            ("claim", "measure", "source", "paper-reported", "this run", "could not be aligned", "status"),
            [_claim(claim) for claim in whole["claims"]],
        ),
        "## Final scores by kind of task",
        "",
        "micro is the share of all episodes, macro the mean over kinds; the paper's averages are of one or the other.",
        "",
        *_table(
            ("method", "column", "paper-reported", "this run", "could not be aligned"),
            [
                (r["method"], r["column"], _value(r["paper"]), _own(r["this_run"]), _own(r["could_not_be_aligned"]))
                for r in whole["cells"]
            ],
        ),
        "## Curves",
        "",
        *_table(
            ("run", "update", "success in training", "turns an episode", "micro on the panel", "macro on the panel"),
            [point for name, curve in whole["curves"].items() for point in _points(name, curve)],
        ),
        "## Settings",
        "",
        f"{settings['compared']} compared, {len(settings['unexplained'])} unexplained differences"
        + (f": {', '.join(settings['unexplained'])}" if settings["unexplained"] else "")
        + ". All of them: config_diff.md.",
        "",
        *_table(("differs from paper or launcher", "reason"), list(settings["explained"].items())),
        "## Data",
        "",
        *_table(
            ("benchmark", "what", "paper", "here", "state", "source", "note"),
            [
                tuple(_value(row[name]) for name in ("benchmark", "what", "paper", "here", "state", "source", "note"))
                for row in whole["data"]
            ],
        ),
        "## Open",
        "",
        *([f"* {name}: `{command}`" for name, command in whole["open"].items()] or ["Nothing."]),
        "",
    ]
    return "\n".join(out)


def _claim(claim: Mapping[str, Any]) -> tuple[str, ...]:
    apart = claim["could_not_be_aligned"]
    text = _NONE
    if apart:
        text = "; ".join([*([_own(apart["result"])] if apart["result"] else []), *apart["because"]])
    return (
        claim["says"], claim["measure"], claim["source"], _value(claim["paper"]), _own(claim["this_run"]), text,
        claim["status"],
    )  # fmt: skip


def _points(name: str, curve: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The updates whose panel was played: all others are in report.json."""
    return [
        (name, str(p["update"]), f"{100 * p['success']:.1f}", f"{p['episode_length']:.1f}",
         f"{100 * p['micro']:.1f}", f"{100 * p['macro']:.1f}")
        for p in curve
        if p.get("micro") is not None and p.get("macro") is not None
    ]  # fmt: skip


def _own(value: Mapping[str, Any] | None) -> str:
    if not value:
        return _NONE
    low, high = value["interval"]
    n = f", n {value['n']}" if "n" in value else ""
    return f"{value['value']:.1f} [{low:.1f}, {high:.1f}]{n}" + (f", {value['file']}" if "file" in value else "")


def _value(value: Any) -> str:
    return _NONE if value in (None, "") else f"{value:g}" if isinstance(value, float) else str(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return ["Nothing yet.", ""]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return [*lines, *("| " + " | ".join(cell(str(text)) for text in row) + " |" for row in rows), ""]
