"""Where does a Stage-1 row come from? Row -> skill -> episode -> task, each link checked against what is on disk.

A row names its episode, the sha256 of the episode's stored line, and the answer it trains. Whatever was removed or
edited since is named instead of shown.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text
from safetensors.numpy import load_file

from seedbed.skills.sft_data import row_hash
from seedbed.track.store import parts, read_jsonl, read_part, read_skills, skill_hash
from seedbed.types import Skill, Trajectory, UserError
from seedbed.view.text import visible

_ROW = frozenset("index split trajectory task skill_source sha256 skill_sha256 row_sha256 response tokens".split())


@dataclass(frozen=True, slots=True)
class Chain:
    """The verified links of one row."""

    row: dict[str, Any]
    skill: Skill
    trajectory: Trajectory
    part: Path  #: the file that holds the episode
    source: dict[str, Any] | None  #: the task's line of ``tasks.jsonl``: the rule that drew it and the file it is of


class Lineage:
    """The records of one sft run and of the collect run that it names, read once."""

    def __init__(self, run: Path) -> None:
        """Raises ``UserError`` naming a file that is missing or damaged."""
        self.path = run / "sft_data.jsonl"
        if not self.path.is_file():
            raise UserError(f"{run} holds no Stage-1 rows (sft_data.jsonl): give the folder of an sft run")
        self.run = run
        self.rows = {row.get("index"): row for row in read_jsonl(self.path)}
        for index, row in self.rows.items():
            lacking = sorted((_ROW | {"collect_dir"}) - row.keys())
            if lacking or not isinstance(index, int):
                raise UserError(f"a row of {self.path} lacks {', '.join(lacking) or 'its index'}: make the set again")
        made = run / "sft_set.json"
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        if made.is_file() and json.loads(made.read_text("utf-8")).get("sft_data_sha256", digest) != digest:
            raise UserError(f"{self.path} was edited: its sha256 is not the one that {made.name} names")
        self._tokens: dict[str, np.ndarray] = {}
        self._episodes: dict[Path, dict[str, tuple[Path, str]]] = {}
        self._skills: dict[Path, dict[str, list[Skill]]] = {}

    def chain(self, sample: int) -> Chain:
        """Follow row ``sample``. Raises ``UserError`` naming the link that is missing or was edited."""
        row = self.rows.get(sample)
        if row is None:
            raise UserError(f"{self.path} has no row {sample}: its rows are 0 to {len(self.rows) - 1}")
        collected = self.run / row["collect_dir"]
        if not (collected / "trajectories").is_dir():
            raise UserError(
                f"the collect directory {row['collect_dir']} named by row {sample} of {self.path} is missing: "
                "restore it"
            )
        self._check_tokens(row)
        trajectory, part = self._episode(collected / "trajectories", row)
        if trajectory.task.id != row["task"]:
            raise UserError(
                f"row {sample} of {self.path} names task {row['task']!r}, but its episode is of "
                f"{trajectory.task.id!r}: the row was edited"
            )
        return Chain(row, self._skill(collected / "skills.jsonl", row), trajectory, part, _source(collected, row))

    def rows_of(self, name: str) -> list[int]:
        """The way back: rows made from an episode or task, by its id. Raises ``UserError`` if there is none."""
        found = [index for index, row in self.rows.items() if name in (row["trajectory"], row["task"])]
        if not found:
            raise UserError(f"no row of {self.path} comes from {name!r}: give the id of an episode or of a task")
        return found

    def _check_tokens(self, row: dict[str, Any]) -> None:
        path = self.run / "sft_data.safetensors"
        try:
            self._tokens = self._tokens or load_file(path)
        except Exception as error:  # safetensors raises its own
            raise UserError(f"{path} cannot be read ({error}): it belongs to sft_data.jsonl beside it") from error
        first = sum(r["tokens"] for index, r in self.rows.items() if index < row["index"])
        pieces = (self._tokens[name][first : first + row["tokens"]] for name in ("ids", "answer", "action"))
        if row_hash(*pieces) != row["row_sha256"]:
            raise UserError(f"the tokens of row {row['index']} in {path} were edited: their sha256 is another")

    def _episode(self, folder: Path, row: dict[str, Any]) -> tuple[Trajectory, Path]:
        if folder not in self._episodes:
            self._episodes[folder] = _lines(folder)
        path, digest = self._episodes[folder].get(row["trajectory"], (None, ""))
        if path is None:
            raise UserError(
                f"trajectory {row['trajectory']!r} of row {row['index']} is missing from {folder}: "
                "restore the collect run"
            )
        if digest != row["sha256"]:
            raise UserError(
                f"trajectory {row['trajectory']!r} in {path} was edited: its sha256 is not the one row "
                f"{row['index']} was made from"
            )
        return next(t for t, _ in read_part(folder, path.stem) if t.id == row["trajectory"]), path

    def _skill(self, path: Path, row: dict[str, Any]) -> Skill:
        if path not in self._skills:
            self._skills[path] = defaultdict(list)
            for skill, _ in read_skills(path):
                self._skills[path][skill.trajectory].append(skill)
        of_row = [s for s in self._skills[path][row["trajectory"]] if s.source == row["skill_source"]]
        if not of_row:
            raise UserError(
                f"the skill of {row['trajectory']!r} by {row['skill_source']!r} is missing from {path}: restore it"
            )
        try:
            answer = json.loads(row["response"])
            wanted = (answer["episode_skill"], answer["episode_summary"])
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"the response of row {row['index']} in {self.path} is no skill: the row was edited"
            ) from error
        for skill in of_row:
            if skill.valid and (skill.text, skill.summary) == wanted and skill_hash(skill) == row["skill_sha256"]:
                return skill
        raise UserError(
            f"the skill of {row['trajectory']!r} in {path} was edited: it is not what row {row['index']} was made from"
        )


def _lines(folder: Path) -> dict[str, tuple[Path, str]]:
    """File and sha256 of every stored episode's line, by trajectory id."""
    found = {}
    for name in parts(folder):
        path = folder / f"{name}.jsonl"
        stored = [line for line in path.read_text("utf-8").split("\n") if line.strip()]
        for line, content in zip(stored, read_jsonl(path), strict=False):
            found[content.get("id")] = path, hashlib.sha256(line.encode()).hexdigest()
    return found


def _source(collected: Path, row: dict[str, Any]) -> dict[str, Any] | None:
    path = collected / "tasks.jsonl"
    lines = read_jsonl(path) if path.is_file() else ()
    return next((line for line in lines if line["id"] == row["task"]), None)


def print_trace(console: Console, run: Path, sample: int) -> None:
    """One row for the terminal."""
    console.print(chain_text(Lineage(run).chain(sample)))


def print_back(console: Console, run: Path, name: str) -> None:
    """All rows of an episode or task, one a line."""
    lineage = Lineage(run)
    for index in lineage.rows_of(name):
        row = lineage.chain(index).row
        console.print(Text(visible(f"row {index}  {row['split']}  {row['trajectory']}  {row['response']}")))


def check_traces(run: Path, count: int, seed: int = 0) -> int:
    """Follow ``count`` rows drawn at random (all if there are fewer); how many were followed.

    Raises ``UserError`` at the first chain that is broken.
    """
    lineage = Lineage(run)
    drawn = random.Random(seed).sample(sorted(lineage.rows), min(count, len(lineage.rows)))
    for index in drawn:
        lineage.chain(index)
    return len(drawn)


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
        *(f"skill of turn {turn}: {text}" for turn, text in skill.steps),
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
        *(f"{key}: {chain.source[key]}" for key in ("rule", "file", "sha256") if key in (chain.source or {})),
        f"Stage-1 split: {row['split']}",
    )
    return out
