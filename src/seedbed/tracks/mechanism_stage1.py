"""Step 2: what is Stage 1, as records? Trajectories, external analyzer, annotations, a fine-tuned checkpoint."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

from seedbed.prompts.analyzer import kind_of
from seedbed.track.run import Run
from seedbed.track.store import read_skills
from seedbed.tracks import chain
from seedbed.tracks.again import weights_of
from seedbed.tracks.paged import PagedStep, quoted, require, table
from seedbed.train.collect import read_collected
from seedbed.train.model import folder_hashes, resolve
from seedbed.view.rundir import read_json
from seedbed.view.trace import chain_text

_RUNS = ("collect", "sft")
_TRACED = 12  #: rows followed to their task at every check


class StageOne(PagedStep):
    name = "stage1"
    title = "Stage 1 drawn from records: trajectories, external analyzer, annotations, SFT checkpoint"
    done_when = (
        "every successful episode has a workflow and every failed one an avoidance, rows of the fine-tuning are "
        "followed to their task by hash, and the checkpoint's weights are not the base policy's"
    )
    page = "stage1.md"
    makes = ("collect", "sft", "stage1.svg")

    def make(self, folder: Path) -> None:
        config = self.config()
        chain.play(folder, config)
        chain.teach(folder, config)
        chain.draw(folder, "stage1.svg", *_RUNS)

    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        chain.drawn(folder, "stage1.svg", *_RUNS)
        body, evidence = stage_one(folder)
        return f"![what was made of what, as recorded](stage1.svg)\n\n{body}", evidence


def stage_one(folder: Path) -> tuple[str, dict[str, Any]]:
    """(body, evidence) of the Stage-1 chain in ``collect/`` and ``sft/``. Raises ``Broken``."""
    collected, tuned = Run.open(folder / "collect", "collect"), Run.open(folder / "sft", "sft")
    played = {t.id: t for t in read_collected(collected)}
    skills = {s.trajectory: s for s, _ in read_skills(collected.skills)}
    for trajectory in played.values():
        chain.complete(trajectory)
        if not trajectory.faulty:
            skill = skills.get(trajectory.id)
            require(skill is not None, f"{trajectory.id} has no skill in collect/skills.jsonl")
            require(skill.kind == kind_of(trajectory), f"{trajectory.id} has a {skill.kind}, won: {trajectory.won}")
    kinds = Counter(s.kind for s in skills.values() if s.valid)
    won = sum(t.won for t in played.values())
    require(kinds["workflow"] > 0, "no episode was won, so there is no workflow: collect more (collect.tasks)")
    require(kinds["avoidance"] > 0, "no episode was lost, so there is no avoidance: collect more (collect.tasks)")
    lineage = chain.traced(folder, _TRACED)
    base, policy = folder_hashes(resolve("tiny")), chain.last_policy(folder / "sft")
    for run in (collected, tuned):
        require(run.manifest["model"] == base, f"{run.path.name}/ did not start from the tiny model's files")
    require(weights_of(policy) != weights_of("tiny"), "the checkpoint in sft/ has the base policy's weights")
    history, summary = tuned.history(), read_json(collected.path / "annotate.json")
    require(bool(history), "sft/metrics.jsonl holds no epoch")
    rows = Counter(row["split"] for row in lineage.rows.values())
    drawn = table(
        ("record", "what it holds", "sha256"),
        [
            ("base policy", "the tiny model, acts", _short(weights_of("tiny"))),
            ("trajectories", f"{len(played)} episodes, {won} won", _joined(collected.trajectories, "*.jsonl")),
            ("external analyzer", f"`{summary['author']}`, reads every finished episode", "-"),
            (
                "annotations",
                f"{kinds['workflow']} workflows, {kinds['avoidance']} avoidances",
                _digest(collected.skills),
            ),
            (
                "Stage-1 rows",
                f"{rows['train']} to train, {rows['validation']} held out",
                _digest(folder / "sft" / "sft_data.jsonl"),
            ),
            ("SFT checkpoint", f"after {history[-1]['update']} epochs, acts and analyses", _short(weights_of(policy))),
        ],
    )
    first = chain_text(lineage.chain(min(lineage.rows))).plain
    parsed = [row["parse_rate"] for row in history]
    body = "\n\n".join(
        [
            "Read downward, each record is made from those above it:",
            drawn,
            "The analyzer is a table of rules here, in the place of an external language model; its answers go the "
            "same way.",
            "What the policy writes itself when it is asked about held-out episodes, epoch by epoch, parses in "
            + ", ".join("-" if p is None else f"{p:.0%}" for p in parsed)
            + f" of cases; held-out loss {history[-1]['validation_loss']:.3f}.",
            f"One row, followed to its task (any other: `seedbed trace`; {_TRACED} rows are followed at every check):",
            quoted(first),
        ]
    )
    evidence = {
        "episodes": len(played),
        "won": won,
        "workflows": kinds["workflow"],
        "avoidances": kinds["avoidance"],
        "rows": len(lineage.rows),
        "parse_rate": parsed[-1],
        "checkpoint": weights_of(policy),
    }
    return body, evidence


def _digest(path: Path) -> str:
    return f"`{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}`"


def _joined(folder: Path, pattern: str) -> str:
    return ", ".join(_digest(path) for path in sorted(folder.glob(pattern)))


def _short(weights: dict[str, str]) -> str:
    return ", ".join(f"`{digest[:16]}`" for digest in weights.values())
