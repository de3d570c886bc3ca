"""Which results stand at the top of a page? Stages with their evaluations: of a demo, or of a single run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedbed.types import UserError
from seedbed.view.rundir import RunDirectory, read_json

_STYLE = {"grpo": 0, "seed": 1, "base": 3, "sft": 2}  #: chart style by stage name: blue, orange, purple, green


@dataclass(frozen=True, slots=True)
class Stage:
    """A policy at a point of the method, with the evaluations made of it."""

    name: str
    label: str
    evals: tuple[dict[str, Any], ...]
    run: RunDirectory | None
    parse_rate: float | None

    @property
    def style(self) -> int:
        return _STYLE.get(self.name, 0)

    @property
    def trained(self) -> bool:
        """Whether its run played episodes to train on (Stage 1 does not)."""
        return self.run is not None and any("success" in row for row in self.run.metrics)

    @property
    def entropy(self) -> float | None:
        """Token entropy in nats: from an evaluation at temperature 1, else what training logged last."""
        for result in self.evals:
            if result["temperature"] == 1 and result["summary"].get("entropy") is not None:
                return result["summary"]["entropy"]
        logged = [row["entropy"] for row in (self.run.metrics if self.run else []) if row.get("entropy") is not None]
        return logged[-1] if logged else None


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluation of one stage as a table shows it."""

    label: str
    panel: str
    temperature: float
    played: str
    summary: Mapping[str, Any]
    entropy: float | None
    parse_rate: float | None
    style: int


def stages(directory: Path) -> tuple[list[Stage], dict[str, Any]]:
    """Stages of a demo directory with its ``demo.json``, or of a run with ``{}``. Raises ``UserError`` for neither."""
    if not (directory / "demo.json").is_file():
        run = RunDirectory.open(directory)
        kind = str(run.manifest.get("kind", "run"))
        name = str(run.setting("algo.name", kind)) if kind == "train" else kind
        rates = [row["skill_parse_rate"] for row in run.metrics if row.get("skill_parse_rate") is not None]
        return [Stage(name, name, tuple(run.evaluations), run, rates[-1] if rates else None)], {}
    demo = read_json(directory / "demo.json")
    found = []
    for entry in demo.get("stages", []):
        missing = [path for path in entry.get("evals", []) if not (directory / path).is_file()]
        if missing:
            raise UserError(
                f"{directory / 'demo.json'} names the evaluation {missing[0]!r}, which is missing: run the demo again"
            )
        found.append(
            Stage(
                entry["name"],
                entry.get("label", entry["name"]),
                tuple(read_json(directory / path) for path in entry.get("evals", [])),
                RunDirectory.open(directory / entry["run"]) if entry.get("run") else None,
                entry.get("parse_rate"),
            )
        )
    return found, demo


def rows(found: list[Stage]) -> list[Row]:
    """Every evaluation, temperatures together from high to low, stages in order."""
    out = []
    for stage in found:
        for result in stage.evals:
            summary = result["summary"]
            label = stage.label if len(found) > 1 else result.get("label", f"update {result.get('policy_version', 0)}")
            entropy = summary.get("entropy") if result["temperature"] == 1 else None
            out.append(
                Row(
                    label,
                    result["panel"],
                    result["temperature"],
                    f"{summary['n_tasks']} × {result['attempts']}",
                    summary,
                    entropy,
                    stage.parse_rate if len(found) > 1 else None,
                    stage.style,
                )
            )
    return sorted(out, key=lambda row: -row.temperature)
