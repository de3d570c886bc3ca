"""Which curves does a run have? From ``metrics.jsonl`` lines, every key optional, all runs over one pair of axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from seedbed.view.charts import Series, line_chart, seconds_chart
from seedbed.view.headline import Stage

#: (title, keys over one pair of axes, whether a share in 0..1)
_CURVES: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("Stage-1 loss", ("loss",), False),
    ("Stage-1 loss on held-out tasks", ("validation_loss",), False),
    ("success in training", ("success",), True),
    ("episode return", ("return",), False),
    ("turns an episode", ("episode_length",), False),
    ("valid actions", ("valid_actions",), True),
    ("entropy (nats a token, in training)", ("entropy",), False),
    ("analyzer answers that parse", ("skill_parse_rate",), True),
    ("distillation loss", ("loss_opd",), False),
    ("mean |gap| (nats)", ("gap_abs",), False),
    ("share of tokens with |gap| > 0.1", ("gap_wide",), True),
    ("mean gate", ("gate_mean",), False),
    ("KL to the start of RL", ("kl",), False),
    ("sampler and trainer: mean |log p difference|", ("sampler_diff_mean",), False),
    ("sampler and trainer: largest |log p difference|", ("sampler_diff_max",), False),
    ("clipped tokens", ("clip_share",), True),
    ("gradient norm of the policy term", ("grad_probe_policy",), False),
    ("gradient norm of the distillation term", ("grad_probe_opd",), False),
    ("groups whose attempts all ended alike", ("groups_tied",), False),
    ("tokens trained an update", ("tokens_trained",), False),
)


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Health:
    """What went wrong or was left out in one run: counts over all updates."""

    label: str
    updates: int
    faults: int
    stops: Sequence[tuple[str, int]]
    skill_statuses: Sequence[tuple[str, int]]
    skill_cut: int
    warnings: Sequence[tuple[str, int, int]]  #: text, times, first update


def figures(found: Sequence[Stage]) -> list[Figure]:
    """One figure a metric that any of the stages logged, then held-out success, then seconds by phase of each run."""
    histories = [(stage, stage.run.metrics) for stage in found if stage.run]
    out = []
    for title, keys, percent in _CURVES:
        lines = [
            Series(stage.label, [(row["update"], row.get(key)) for row in history], stage.style)
            for stage, history in histories
            for key in keys
        ]
        out.append(Figure(title, line_chart(title, lines, percent=percent)))
    held_out = "success on the panel during training"
    lines = [line for stage, _ in histories for line in _held_out(stage)]
    out.append(Figure(held_out, line_chart(held_out, lines, percent=True)))
    for stage, history in histories:
        total: Counter[str] = Counter()
        for row in history:
            total.update(row.get("seconds", {}))
        out.append(Figure(f"seconds by phase, {stage.label}", seconds_chart(f"seconds, {stage.label}", total)))
    return [figure for figure in out if figure.svg]


def health(stage: Stage) -> Health:
    """Counts of one stage that has a run."""
    history = stage.run.metrics if stage.run else []
    said: dict[str, list[int]] = {}
    for row in history:
        for warning in row.get("warnings", []):
            said.setdefault(warning, []).append(row["update"])
    warnings = [(text, len(updates), updates[0]) for text, updates in said.items()]
    return Health(
        stage.label,
        len(history),
        sum(row.get("faults", 0) for row in history),
        _counted(history, "stops"),
        _counted(history, "skill_statuses"),
        sum(row.get("skill_cut", 0) for row in history),
        warnings,
    )


def _held_out(stage: Stage) -> list[Series]:
    """One line a panel and temperature, from the stored evaluations of the stage's run."""
    by_test: dict[str, list[tuple[float, float | None]]] = {}
    for result in stage.run.evaluations if stage.run else []:
        name = f"{stage.label}, {result['panel']}, T={result['temperature']:g}"
        by_test.setdefault(name, []).append((result["policy_version"], result["summary"]["micro"]["value"]))
    return [Series(name, points, stage.style) for name, points in by_test.items()]


def _counted(history: Sequence[dict[str, Any]], key: str) -> list[tuple[str, int]]:
    total: Counter[str] = Counter()
    for row in history:
        total.update(row.get(key, {}))
    return total.most_common()
