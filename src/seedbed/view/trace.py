"""Where does a Stage-1 row come from? Row -> skill -> episode -> task, each link checked against what is on disk.

A row names its episode, the sha256 of the episode's stored line, and the answer it trains. Whatever was removed or
edited since is named instead of shown.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from seedbed.track.store import parts, read_jsonl, read_part, read_skills
from seedbed.types import Skill, Trajectory, UserError
from seedbed.view.text import visible


@dataclass(frozen=True, slots=True)
class Chain:
    """The verified links of one row."""

    row: dict[str, Any]
    skill: Skill
    trajectory: Trajectory
    part: Path  #: the file that holds the episode


def trace(run: Path, sample: int) -> Chain:
    """Follow row ``sample`` of an sft run. Raises ``UserError`` naming the link that is missing or was edited."""
    path = run / "sft_data.jsonl"
    if not path.is_file():
        raise UserError(f"{run} holds no Stage-1 rows (sft_data.jsonl): give the folder of an sft run")
    rows = list(read_jsonl(path))
    row = next((r for r in rows if r["index"] == sample), None)
    if row is None:
        raise UserError(f"{path} has no row {sample}: its rows are 0 to {len(rows) - 1}")
    collected = run / row["collect_dir"]
    if not (collected / "trajectories").is_dir():
        raise UserError(
            f"the collect directory {row['collect_dir']} named by row {sample} of {path} is missing: restore it"
        )
    trajectory, part = _episode(collected / "trajectories", row)
    if trajectory.task.id != row["task"]:
        raise UserError(
            f"row {sample} of {path} names task {row['task']!r}, but its episode is of {trajectory.task.id!r}: "
            f"the row was edited"
        )
    return Chain(row, _skill(collected / "skills.jsonl", row), trajectory, part)


def _episode(folder: Path, row: dict[str, Any]) -> tuple[Trajectory, Path]:
    for name in parts(folder):
        path = folder / f"{name}.jsonl"
        stored = [line for line in path.read_text("utf-8").split("\n") if line.strip()]
        for line, content in zip(stored, read_jsonl(path), strict=False):
            if content.get("id") != row["trajectory"]:
                continue
            if hashlib.sha256(line.encode()).hexdigest() != row["sha256"]:
                raise UserError(
                    f"trajectory {row['trajectory']!r} in {path} was edited: its sha256 is not the one row "
                    f"{row['index']} was made from"
                )
            return next(t for t, _ in read_part(folder, name) if t.id == row["trajectory"]), path
    raise UserError(
        f"trajectory {row['trajectory']!r} of row {row['index']} is missing from {folder}: restore the collect run"
    )


def _skill(path: Path, row: dict[str, Any]) -> Skill:
    of_row = [s for s, _ in read_skills(path) if s.trajectory == row["trajectory"] and s.source == row["skill_source"]]
    if not of_row:
        raise UserError(
            f"the skill of {row['trajectory']!r} by {row['skill_source']!r} is missing from {path}: restore it"
        )
    answer = json.loads(row["response"])
    for skill in of_row:
        if skill.valid and (skill.text, skill.summary) == (answer["episode_skill"], answer["episode_summary"]):
            return skill
    raise UserError(
        f"the skill of {row['trajectory']!r} in {path} was edited: it is not the answer that row {row['index']} trains"
    )


def print_trace(console: Console, run: Path, sample: int) -> None:
    """``trace`` for the terminal."""
    console.print(chain_text(trace(run, sample)))


def chain_text(chain: Chain) -> Text:
    """The chain from row to task, in reading order."""
    row, skill, trajectory = chain.row, chain.skill, chain.trajectory
    out = Text()

    def part(title: str, *lines: str) -> None:
        out.append(f"{title}\n", "bold")
        for line in lines:
            out.append("  " + visible(line).replace("\n", "\n  ") + "\n")

    part(f"row {row['index']}", f"split: {row['split']}", f"trains: {row['response']}")
    part(
        "skill",
        f"kind: {skill.kind}",
        f"status: {skill.status}",
        f"source: {skill.source}",
        f"repairs: {', '.join(skill.repairs) or 'none'}",
        f"skill: {skill.text}",
        f"raw answer: {skill.raw}",
    )
    part(
        f"episode {visible(trajectory.id)}",
        f"file: {chain.part.name} (sha256 {row['sha256'][:12]}... verified)",
        f"outcome: {trajectory.stop.value}, return {trajectory.reward:g}, {len(trajectory.turns_K)} turns",
    )
    for k, turn in enumerate(trajectory.turns_K):
        seen = dict(turn.prompt.slots).get("observation", "")
        part(f"  turn {k}", f"  saw: {seen}", f"  did: {turn.action.text}{'' if turn.action.valid else '  (invalid)'}")
    if trajectory.turns_K and trajectory.turns_K[-1].observation:
        part("  at the end", f"  saw: {trajectory.turns_K[-1].observation}")
    part(
        f"task {visible(trajectory.task.id)}",
        f"goal: {trajectory.goal}",
        f"environment: {trajectory.task.env}",
        f"environment split: {trajectory.task.split}",
        f"kind: {trajectory.task.kind}",
        f"Stage-1 split: {row['split']}",
    )
    return out
