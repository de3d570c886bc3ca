"""What does the paper claim about this benchmark and model, and what came of each claim here? See ``RULE``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from seedbed.evaluate.stats import difference
from seedbed.repro.legs import TRAINED, Leg, Score, trained, unseen, vanilla
from seedbed.repro.plan import Plan
from seedbed.repro.tables import averages, paper_tables, reported
from seedbed.types import UserError

Status = Literal["reproduced", "partly", "not", "not attempted"]
STATUSES: tuple[Status, ...] = ("reproduced", "partly", "not", "not attempted")
#: The same for every claim.
RULE = (
    "reproduced: the paper's value lies in the 95 % interval of a run with the paper's settings (a comparison: the "
    "paired interval is above zero). partly: it lies in the interval of a run that differs in something named (a "
    "comparison: the paper's sign, but the interval holds zero or something named differs). not: there is a result and "
    "neither holds. not attempted: there is no result."
)
_SMALL = "Qwen2.5-3B-Instruct"  #: the model of Tables 2, 6 and 7
_PRINTED = 0.05  #: the paper prints one decimal
#: Mean turns of an episode at the end of training, read off the paper's figure to about one turn.
LENGTHS = {"grpo": 16.0, "seed": 13.0}
_SMOOTHED = 13  #: updates that the paper's curves average over
_ELSEWHERE = "the paper's row is not of its own runs ({}), whose launchers play 50 turns with a history of 2"


@dataclass(frozen=True, slots=True)
class Measured:
    """A value with its 95 % interval, in per cent or turns, where it stands, and why it is another experiment."""

    value: float
    low: float
    high: float
    file: str
    n: int
    unaligned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """``measured`` is None where there is no result. ``why`` are caveats on the paper's side."""

    id: str
    says: str
    source: str
    measure: str
    paper: float
    measured: Measured | None = None
    why: tuple[str, ...] = ()
    tolerance: float = _PRINTED
    above_zero: bool = False

    @property
    def unaligned(self) -> tuple[str, ...]:
        return (*(self.measured.unaligned if self.measured else ()), *self.why)

    @property
    def status(self) -> Status:
        m = self.measured
        if m is None:
            return "not attempted"
        if self.above_zero:
            if m.low > 0 and not self.unaligned:
                return "reproduced"
            return "partly" if m.value > 0 else "not"
        if not m.low - self.tolerance <= self.paper <= m.high + self.tolerance:
            return "not"
        return "partly" if self.unaligned else "reproduced"


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a folder holds."""

    plan: Plan
    vanilla: Score | None
    legs: Mapping[str, Leg]
    unseen: Mapping[str, Score | None] = field(default_factory=dict)

    def final(self, name: str) -> Score | None:
        return self.vanilla if name == "vanilla" else self.legs[name].final


def read_results(plan: Plan) -> Results:
    """Raises ``UserError`` for a damaged or edited file."""
    far = {name: unseen(plan, name) for name in ("vanilla", "grpo", "seed")} if _is(plan, "alfworld") else {}
    return Results(plan, vanilla(plan), {name: trained(plan, name) for name in TRAINED}, far)


def claims(results: Results) -> list[Claim]:
    """In the paper's order."""
    plan = results.plan
    found = [*_final(results), *_above(results)]
    if plan.model == _SMALL:
        found += [*_shares(results), *_ablations(results)]
        if _is(plan, "alfworld"):
            found += [*_lengths(results), *_unseen(results)]
    return [*found, *_visual(results)]


def measured(score: Score | None, measure: str) -> Measured | None:
    """One number of an evaluation: ``micro``, ``macro`` or the name of a measure such as ``score``, in per cent."""
    if score is None:
        return None
    summary, episodes = score.result["summary"], score.result["episodes"]
    if measure in ("micro", "macro"):
        value = summary[measure]
        if value["value"] is None:
            return None
        numbers = (value["value"], value["low"], value["high"])
    else:
        each = [e["measures"][measure] for e in episodes if measure in e.get("measures", {})]
        if not each:
            return None
        half = 1.96 * float(np.std(each)) / len(each) ** 0.5
        numbers = (float(np.mean(each)), float(np.mean(each)) - half, float(np.mean(each)) + half)
    return Measured(*(100 * number for number in numbers), score.file, summary["n_episodes"], score.unaligned)


def printed(plan: Plan, method: str) -> list[tuple[str, float, str, tuple[str, ...]]]:
    """(measure, value, source, caveats) of a row of Table 1, with micro and macro told apart."""
    benchmark, model = plan.config.env.name, plan.model or _SMALL
    wanted = (model, method, False)
    rows = (r for r in paper_tables()["table1"]["rows"] if (r["model"], r["method"], r["skills"]) == wanted)
    row = next(rows, None)
    if row is None or benchmark not in ("alfworld", "search", "webshop"):
        return []
    why = (_ELSEWHERE.format(row["origin"]),) if "origin" in row else ()
    if benchmark == "webshop":
        score, success = reported(model, method, "webshop").values()
        return [("score", score, "paper Table 1", why), ("micro", success, "paper Table 1", why)]
    kind = next(
        a.kind
        for a in averages()
        if (a.table, a.model, a.method, a.benchmark, a.skills) == ("table1", model, method, benchmark, False)
    )
    measure = "micro" if kind == "micro" else "macro"
    if kind == "neither":
        why = (*why, "the printed average is not the mean of the printed cells")
    return [(measure, row[f"{benchmark}_average"], "paper Table 1", why)]


def _is(plan: Plan, name: str) -> bool:
    return plan.config.env.name == name


def _final(results: Results) -> Iterator[Claim]:
    for method in ("vanilla", "grpo", "seed"):
        for measure, value, source, why in printed(results.plan, method):
            says = f"{method} reaches {value:g} ({measure})"
            own = measured(results.final(method), measure)
            yield Claim(f"final-{method}-{measure}", says, source, measure, value, own, why)


def _above(results: Results) -> Iterator[Claim]:
    grpo, seed = printed(results.plan, "grpo"), printed(results.plan, "seed")
    if not grpo:
        return
    gap = seed[-1][1] - grpo[-1][1]
    kinds = "" if seed[-1][0] == grpo[-1][0] else f", {seed[-1][0]} minus {grpo[-1][0]}"
    one, other, own, why = results.final("seed"), results.final("grpo"), None, ()
    if one and other:
        try:
            found = difference(one.result, other.result)
            numbers = (100 * found.value, 100 * found.low, 100 * found.high)
            apart = tuple(dict.fromkeys((*one.unaligned, *other.unaligned)))
            own = Measured(*numbers, f"{one.file}, {other.file}", found.tasks, apart)
        except UserError as error:
            why = (str(error),)
    says = f"seed is above grpo (printed gap {gap:.1f}{kinds})"
    yield Claim("seed-above-grpo", says, "paper Table 1", "micro, paired by task", gap, own, why, above_zero=True)


def _shares(results: Results) -> Iterator[Claim]:
    """Success at shares of training, taken as shares of the updates; Table 6 does not say of what."""
    table, name = paper_tables()["table6"], results.plan.config.env.name
    if name not in ("alfworld", "webshop"):
        return
    for row in table["rows"]:
        leg, last = results.legs[row["method"]], row[name][-1]
        measure, value, _, why = printed(results.plan, row["method"])[-1]
        for share, paper in zip(table["shares"], row[name], strict=True):
            score = leg.scores.get(round(leg.updates * share / 100)) if leg.begun else None
            says = f"{row['method']} reaches {paper:g} at {share} % of the updates ({measure})"
            inherited = why if paper == last == value else ()
            key = f"share-{row['method']}-{share}"
            yield Claim(key, says, "paper Table 6", measure, paper, measured(score, measure), inherited)


def _lengths(results: Results) -> Iterator[Claim]:
    for method, paper in LENGTHS.items():
        leg, own = results.legs[method], None
        if leg.final and len(leg.rows) >= _SMOOTHED:
            each = [row["episode_length"] for row in leg.rows[-_SMOOTHED:]]
            mean, half = float(np.mean(each)), 1.96 * float(np.std(each, ddof=1)) / _SMOOTHED**0.5
            file = f"{TRAINED[method][0]}/metrics.jsonl"
            own = Measured(mean, mean - half, mean + half, file, _SMOOTHED, leg.unaligned)
        says = f"{method} ends training at about {paper:g} turns an episode"
        source = "paper, training dynamics, read off a figure"
        yield Claim(f"length-{method}", says, source, "turns", paper, own, tolerance=1.0)


def _unseen(results: Results) -> Iterator[Claim]:
    for row in paper_tables()["table7"]["rows"]:
        name = {"react": "vanilla"}.get(row["method"], row["method"])
        says = f"{row['method']} reaches {row['average']:g} on unseen games (macro)"
        own = measured(results.unseen.get(name), "macro")
        yield Claim(f"unseen-{row['method']}", says, "paper Table 7", "macro", row["average"], own)


def _ablations(results: Results) -> Iterator[Claim]:
    if not _is(results.plan, "alfworld"):
        return
    for row in paper_tables()["table2"]["rows"]:
        name = row["method"].removeprefix("seed-")
        if name == "seed":
            continue
        leg = results.legs.get(name)
        measure = next(a.kind for a in averages() if (a.table, a.method) == ("table2", row["method"]))
        why = () if leg else ("this version has no static skill library; " + row.get("note", ""),)
        says = f"seed {name.replace('-', ' ')} reaches {row['average']:g} ({measure})"
        own = measured(leg.final, measure) if leg else None
        yield Claim(f"ablation-{name}", says, "paper Table 2", measure, row["average"], own, why)


def _visual(results: Results) -> Iterator[Claim]:
    table, name = paper_tables()["table8"], results.plan.config.env.name
    if name not in table["columns"]:
        return
    why = ("played as text: this version's engine reads no images, the paper's Qwen2.5-VL-3B sees pictures",)
    for row in table["rows"]:
        method = {"react": "vanilla"}.get(row["method"], row["method"])
        paper = dict(zip(table["columns"], row["cells"], strict=True))[name]
        says = f"{row['method']} reaches {paper:g}"
        yield Claim(f"visual-{row['method']}", says, "paper Table 8", "micro", paper,
                    measured(results.final(method), "micro"), why)  # fmt: skip


def as_record(claim: Claim) -> dict[str, Any]:
    """JSON-able: the paper's value, this run's and what could not be aligned never share a field."""
    m = claim.measured
    own = None
    if m:
        own = {"value": round(m.value, 2), "interval": [round(m.low, 2), round(m.high, 2)], "n": m.n, "file": m.file}
    return {
        "id": claim.id,
        "says": claim.says,
        "source": claim.source,
        "measure": claim.measure,
        "status": claim.status,
        "paper": round(claim.paper, 2),
        "this_run": own if m and not claim.unaligned else None,
        "could_not_be_aligned": {"because": list(claim.unaligned), "result": own} if claim.unaligned else None,
    }
