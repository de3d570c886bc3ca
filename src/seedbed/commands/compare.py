"""``seedbed compare``: is one way of training better than another, or is it noise?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import stdev
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from seedbed.evaluate.paired import contrast, discordance, first_attempts, level, mcnemar, power_sentence, seed_rates
from seedbed.evaluate.stats import Difference, noise_floor, won_by_task
from seedbed.track.store import replace_file
from seedbed.types import UserError
from seedbed.view.compared import KEYS, Arm, read_arms, unlike
from seedbed.view.verdict import FEW_TASKS

_out = Console(highlight=False)


def compare(
    arms: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|NAME=RUN,RUN,...",
            help="results of seedbed eval --out, train runs with eval/, or checkpoints of those; NAME= makes an arm of "
            "one or more of them, one a training seed; the first is what the others are compared with",
        ),
    ],
    update: Annotated[int | None, typer.Option(min=1, help="of train runs this evaluation; default the last")] = None,
    allow: Annotated[list[str] | None, typer.Option(help=f"accept a difference in: {', '.join(KEYS)}")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="write everything as JSON")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write table and sentences as Markdown")] = None,
) -> None:
    """Compare evaluations of the same tasks: paired intervals, McNemar, what is noise. Unequal panels, prompts,
    temperatures or training budgets are refused unless named with --allow.

    Examples:

      seedbed compare runs/grpo runs/seed

      seedbed compare grpo=runs/g0,runs/g1,runs/g2 seed=runs/s0,runs/s1,runs/s2 --markdown table.md
    """
    found = read_arms(arms, update)
    if len(found) < 2:
        raise UserError("one arm is nothing to compare with: name two or more, the one to compare with first")
    record = comparison(found, allow or [])
    _out.print(_table(record))
    for sentence in record["sentences"]:
        _out.print(f"- {sentence}", markup=False)
    for path, text in ((json_, json.dumps(record, indent=1) + "\n"), (markdown, _markdown(record))):
        if path:
            replace_file(path, lambda p, text=text: p.write_text(text, "utf-8"))


def comparison(arms: list[Arm], allowed: list[str]) -> dict[str, Any]:
    """Everything that is shown, JSON-able. Raises ``UserError`` where arms differ and were not ``allowed`` to."""
    runs = [run for arm in arms for run in arm.runs]
    accepted = unlike(runs, allowed)
    kinds = {e["task"]: e["kind"] for run in runs for e in run.result["episodes"]}
    averages = {"micro": None, "macro": kinds}
    won = [[won_by_task(run.result["episodes"]) for run in arm.runs] for arm in arms]
    rows: list[dict[str, Any]] = []
    verdicts = []
    for place, arm in enumerate(arms):
        row: dict[str, Any] = {"name": arm.name, "runs": [_run(run) for run in arm.runs]}
        for name, by in averages.items():
            rates = seed_rates(won[place], by) if len(arm.runs) > 1 else []
            row[name] = _plain(level(won[place], by)) | {"by_seed": rates, "seed_deviation": _deviation(rates)}
        if place:
            gaps = {name: contrast(won[place], won[0], by) for name, by in averages.items()}
            row["difference"] = {name: gap.as_json() for name, gap in gaps.items()}
            single = len(arm.runs) == len(arms[0].runs) == 1
            verdicts += _alike(arms[0], arm)
            firsts = [first_attempts(a.runs[0].result["episodes"]) for a in (arm, arms[0])]
            row["mcnemar"] = _plain(mcnemar(*firsts)) if single else None
            verdicts += [_verdict(arms[0].name, arm.name, name, gap) for name, gap in gaps.items()]
        rows.append(row)
    first = runs[0].result
    head = {key: first[key] for key in ("panel", "panel_hash", "temperature")}
    tasks = len(won[0][0])
    limits = _limits(arms, rows, tasks, discordance(won[0], won[1]))
    sentences = [*accepted, *_budgets(arms), *verdicts, *limits]
    return {**head, "tasks": tasks, "arms": rows, "accepted": accepted, "sentences": sentences}


def _verdict(first: str, name: str, average: str, gap: Difference) -> str:
    """What one paired interval says."""
    half = 100 * (gap.high - gap.low) / 2
    says = (
        "the interval excludes 0"
        if gap.excludes_zero
        else f"no difference is shown: under about {half:.0f} points is noise at this size"
    )
    return (
        f"{name} minus {first}, {average}: {100 * gap.value:+.1f} points (95 % interval {100 * gap.low:+.1f} to "
        f"{100 * gap.high:+.1f}, of {gap.covers}; {gap.tasks} paired tasks"
        f"{f', {gap.dropped} left out' if gap.dropped else ''}): {says}."
    )


def _alike(first: Arm, arm: Arm) -> list[str]:
    """A warning if two runs of different arms are one policy: a setting that did nothing, or the same file twice."""
    hashes = {run.result.get("transcripts_hash"): run.source for run in first.runs}
    return [
        f"Warning: {run.source} and {hashes[mark]} played every episode alike, word for word: what sets the arms apart "
        "had no effect."
        for run in arm.runs
        if (mark := run.result.get("transcripts_hash")) and mark in hashes
    ]


def _budgets(arms: list[Arm]) -> list[str]:
    """What every run spent on RL, equal ones together, and whether they started alike."""
    spent: dict[str, list[str]] = {}
    for arm in arms:
        known = [run.budget for run in arm.runs if run.budget]
        if len(known) < len(arm.runs):
            text = "budget unknown"
        else:
            parts = [_range([b[key] for b in known], word) for key, word in _SPENT.items()]
            text = ", ".join(parts)
        spent.setdefault(text, []).append(arm.name)
    out = [f"{', '.join(names)}: {text}." for text, names in spent.items()]
    starts = {json.dumps(run.start, sort_keys=True) for arm in arms for run in arm.runs if run.start}
    if len(starts) > 1:
        out.append("Not all runs started from the same weights: what made those is part of the difference.")
    return out


_SPENT = {
    "updates": "updates",
    "tasks": "tasks an update",
    "attempts": "attempts a task",
    "episodes": "episodes",
    "tokens_sampled": "sampled tokens",
}


def _range(values: list[Any], word: str) -> str:
    low, high = (f"{v:,}" if isinstance(v, int) else str(v) for v in (min(values), max(values)))
    if low == high == "1":
        word = re.sub(r"s\b", "", word, count=1)
    return f"{low} {word}" if low == high else f"{low} to {high} {word}"


def _limits(arms: list[Arm], rows: list[dict[str, Any]], tasks: int, discordant: float) -> list[str]:
    """What such numbers cannot show."""
    success = rows[0]["micro"]["value"] or 0.0
    out = [noise_floor(tasks, success).removesuffix(".") + " if tasks are not paired."]
    out.append(power_sentence(tasks, success, discordant))
    if tasks < FEW_TASKS:
        out.append(f"{tasks} tasks are too few for these intervals to be trusted.")
    seeds = {arm.name: len(arm.runs) for arm in arms}
    if single := [name for name, count in seeds.items() if count == 1]:
        out.append(f"One training seed of {', '.join(single)}: what another would score is not in these intervals.")
    if two := [name for name, count in seeds.items() if count == 2]:
        out.append(f"Two training seeds of {', '.join(two)} say little about a third: take three or more.")
    if len(arms) > 2:
        chance = 1 - 0.95 ** (len(arms) - 1)
        out.append(
            f"{len(arms) - 1} arms are compared with {arms[0].name}: were all alike, at least one interval would "
            f" still exclude 0 in up to {chance:.0%} of cases."
        )
    out.append("Micro counts every task alike, macro every kind of task: compare a number only with one of its name.")
    return out


def _table(record: dict[str, Any]) -> Table:
    out = Table(title=_title(record), box=box.SIMPLE)
    for place, name in enumerate(_columns(record)):
        out.add_column(name, justify="left" if place < 2 else "right", no_wrap=place > 1, overflow="fold")
    for cells in _rows(record):
        out.add_row(*cells)
    return out


def _markdown(record: dict[str, Any]) -> str:
    lines = [_title(record), "", f"| {' | '.join(_columns(record))} |", "|" + "---|" * len(_columns(record))]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in _rows(record)]
    return "\n".join([*lines, "", *(f"- {sentence}" for sentence in record["sentences"])]) + "\n"


def _title(record: dict[str, Any]) -> str:
    return (
        f"panel {record['panel']} ({record['tasks']} tasks, hash {record['panel_hash'][:12]}), "
        f"temperature {record['temperature']:g}; per cent ± standard error [95 % interval]"
    )


def _columns(record: dict[str, Any]) -> list[str]:
    return ["arm", "average", "success", f"minus {record['arms'][0]['name']}", "McNemar p"]


def _rows(record: dict[str, Any]) -> list[list[str]]:
    """Two rows an arm: micro and macro."""
    out = []
    for row in record["arms"]:
        for average in ("micro", "macro"):
            e, gap, test = row[average], row.get("difference", {}).get(average), row.get("mcnemar")
            success = "nothing measured"
            if e["value"] is not None:
                success = f"{100 * e['value']:.1f} ± {100 * e['se']:.1f} [{100 * e['low']:.1f}, {100 * e['high']:.1f}]"
            versus = f"{100 * gap['value']:+.1f} [{100 * gap['low']:+.1f}, {100 * gap['high']:+.1f}]" if gap else ""
            p = f"{test['p']:.3f}" if test and average == "micro" else ""
            seeds = f"{len(row['runs'])} seed{'s' if len(row['runs']) > 1 else ''}"
            out.append([row["name"] if average == "micro" else seeds, average, success, versus, p])
    return out


def _run(run: Any) -> dict[str, Any]:
    facts = {"source": run.source, "seed": run.seed, "budget": run.budget}
    return {**facts, "attempts": run.result.get("attempts"), "evaluation_seed": run.result.get("seed")}


def _plain(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _deviation(rates: list[float]) -> float | None:
    """Standard deviation between seeds, of a sample."""
    return stdev(rates) if rates else None
