"""Stage-1 rows: analyzer prompt plus skill as JSON, each traceable to its trajectory.

The row of a trajectory is exactly what the analyzer will be asked later (``analyzer_context``) followed by the
annotated answer. In the transcript layout it also holds the episode's own sampled actions, which ``sft.rehearsal`` can
train along (ours: response-only training made tiny models forget how to act).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import load_file, save_file

from seedbed.prompts.analyzer import answer_text
from seedbed.render import Renderer
from seedbed.samples import build_samples
from seedbed.skills.analyze import analyzer_context
from seedbed.track.store import read_jsonl, replace_file, skill_hash
from seedbed.types import Skill, Trajectory, UserError


@dataclass(frozen=True, slots=True)
class SftRow:
    """``answer_T`` marks the annotated answer, ``action_T`` the episode's own sampled tokens (bool, row length)."""

    ids_T: np.ndarray
    answer_T: np.ndarray
    action_T: np.ndarray
    trajectory: str
    task: str


@dataclass(frozen=True, slots=True)
class SftSet:
    """Rows by split, the rows left out for their length, and the skills all of them come from."""

    train: Sequence[SftRow]
    validation: Sequence[SftRow]
    dropped: Sequence[SftRow]
    skills: Mapping[str, Skill]
    steps: int = 0  #: step skills that the rows ask for, ``analyzer.steps``

    def summary(self, max_tokens: int) -> dict[str, Any]:
        """Counts, and the lengths in tokens against the limit: the content of ``sft_set.json``."""
        lengths = np.array([len(row.ids_T) for row in (*self.train, *self.validation)])
        return {
            "rows": {"train": len(self.train), "validation": len(self.validation)},
            "tasks": {
                "train": len({row.task for row in self.train}),
                "validation": len({row.task for row in self.validation}),
            },
            "skills_not_valid": sum(not skill.valid for skill in self.skills.values()),
            "tokens": {
                "limit": max_tokens,
                "longest": int(lengths.max()),
                "median": float(np.median(lengths)),
                "total": int(lengths.sum()),
                "answers": sum(int(row.answer_T.sum()) for row in (*self.train, *self.validation)),
            },
            "dropped_too_long": [{"trajectory": r.trajectory, "tokens": len(r.ids_T)} for r in self.dropped],
        }


def build_rows(
    trajectories: Sequence[Trajectory], skills: Mapping[str, Skill], renderer: Renderer, steps: int = 0
) -> list[SftRow]:
    """One row per trajectory with a valid skill, of any length, never cut; with at most ``steps`` step skills in it.

    Raises ``UserError`` if step skills are wanted and no skill has any: the rows would teach to write none.
    """
    if steps and not any(skill.steps for skill in skills.values()):
        raise UserError(
            f"analyzer.steps={steps}, but no annotated skill has step skills: annotate with analyzer.steps={steps} by "
            "openai or policy, or set analyzer.steps=0"
        )
    rows = []
    for trajectory in trajectories:
        skill = skills.get(trajectory.id)
        if skill is None or not skill.valid:
            continue
        context = analyzer_context(trajectory, renderer, steps)
        answer = np.asarray(
            [*renderer.tokenizer.encode(answer_text(skill, steps), add_special_tokens=False), renderer.stop_id],
            np.int32,
        )
        ids = np.concatenate([context.ids_T, answer]).astype(np.int32)
        answer_T, action_T = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        answer_T[len(context.ids_T) :] = True
        for sample in (
            build_samples(trajectory, renderer.stop_id)
            if trajectory.layout == "transcript" and not context.prefix_break
            else []
        ):
            if np.array_equal(sample.ids_T, ids[: len(sample.ids_T)]):
                action_T[: len(sample.ids_T)] |= sample.sampled_T
        rows.append(SftRow(ids, answer_T, action_T, trajectory.id, trajectory.task.id))
    return rows


def within(
    rows: Sequence[SftRow], max_tokens: int, too_long: Literal["error", "drop"]
) -> tuple[list[SftRow], list[SftRow]]:
    """(rows of at most ``max_tokens`` tokens, longer ones). Raises ``UserError`` if there are longer ones and
    ``too_long`` is "error".
    """
    over = [row for row in rows if len(row.ids_T) > max_tokens]
    if over and too_long == "error":
        longest = max(over, key=lambda row: len(row.ids_T))
        raise UserError(
            f"{len(over)} of {len(rows)} Stage-1 rows are over sft.max_tokens={max_tokens} (the longest, of "
            f"{longest.trajectory}, has {len(longest.ids_T)} tokens): raise it, or leave them out with "
            "sft.too_long=drop"
        )
    return [row for row in rows if len(row.ids_T) <= max_tokens], over


def split_rows(rows: Sequence[SftRow], share: float, seed: int) -> tuple[list[SftRow], list[SftRow]]:
    """(train, validation) by task, never by sample; a pure function of task ids and seed."""
    tasks = sorted({row.task for row in rows}, key=lambda t: hashlib.blake2b(f"{seed}/{t}".encode()).digest())
    held = set(tasks[: round(share * len(tasks))])
    return [r for r in rows if r.task not in held], [r for r in rows if r.task in held]


def save_rows(folder: Path, rows: SftSet, collect_dir: Path) -> None:
    """``sft_data.jsonl`` (lineage, one line a row) and ``sft_data.safetensors`` (tokens)."""
    hashes = trajectory_hashes(collect_dir)
    both = [*((r, "train") for r in rows.train), *((r, "validation") for r in rows.validation)]
    lines = [
        {
            "index": i,
            "split": split,
            "trajectory": row.trajectory,
            "task": row.task,
            "skill_source": rows.skills[row.trajectory].source,
            "sha256": hashes[row.trajectory],
            "skill_sha256": skill_hash(rows.skills[row.trajectory]),
            "row_sha256": row_hash(row.ids_T, row.answer_T, row.action_T),
            "response": answer_text(rows.skills[row.trajectory], rows.steps),
            "tokens": len(row.ids_T),
            "collect_dir": os.path.relpath(collect_dir, folder),
        }
        for i, (row, split) in enumerate(both)
    ]
    arrays = {
        name: np.concatenate([getattr(row, f"{name}_T") for row, _ in both]).astype(kind)
        for name, kind in (("ids", np.int32), ("answer", np.uint8), ("action", np.uint8))
    }
    replace_file(folder / "sft_data.safetensors", lambda path: save_file(arrays, path))
    replace_file(
        folder / "sft_data.jsonl",
        lambda path: path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8"),
    )


def row_hash(ids_T: np.ndarray, answer_T: np.ndarray, action_T: np.ndarray) -> str:
    """sha256 of a row as it is trained: ids, and which of them count."""
    parts = (ids_T.astype("<i4"), answer_T.astype(np.uint8), action_T.astype(np.uint8))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def load_rows(folder: Path) -> list[SftRow]:
    """The training rows of a Stage-1 run. Raises ``UserError`` if the folder holds none."""
    if not (folder / "sft_data.jsonl").is_file():
        raise UserError(
            f"{folder} holds no Stage-1 rows (sft_data.jsonl): set train.rehearsal_data to the folder of an sft run"
        )
    arrays, rows, at = load_file(folder / "sft_data.safetensors"), [], 0
    for line in read_jsonl(folder / "sft_data.jsonl"):
        piece = slice(at, at := at + line["tokens"])
        if line["split"] == "train":
            rows.append(
                SftRow(
                    arrays["ids"][piece],
                    arrays["answer"][piece] > 0,
                    arrays["action"][piece] > 0,
                    line["trajectory"],
                    line["task"],
                )
            )
    return rows


def trajectory_hashes(collect_dir: Path) -> dict[str, str]:
    """sha256 of every stored trajectory line, by trajectory id."""
    out = {}
    for path in sorted((collect_dir / "trajectories").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            out[json.loads(line)["id"]] = hashlib.sha256(line.encode()).hexdigest()
    return out
