"""What does a run directory record, as far as ``topology`` asks? Every file is optional, a damaged one is an error.

Values of another type than seedbed writes count as not recorded. Nothing is kept that was read of a trajectory but its
head: id, task, version and the sha256 of its line.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from safetensors import safe_open

from seedbed.track.store import parts, read_jsonl, read_skills
from seedbed.types import Skill, UserError

_TURNS = ', "turns": ['  #: the last key of a stored trajectory; inside a JSON string its quotes would be escaped


class Head(NamedTuple):
    task: str
    version: int
    sha256: str


class Records:
    """One run directory, or the folder of a demo, read on demand. ``name`` is its path below ``base``."""

    def __init__(self, path: Path, base: Path) -> None:
        self.path, self.base = path, base
        self.name = self.inside("")

    def inside(self, file: str) -> str:
        return Path(os.path.relpath(self.path / file, self.base)).as_posix()

    def at(self, file: str, key: str) -> tuple[str, str]:
        """Evidence: a file of this folder and a key in it."""
        return self.inside(file), key

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return _object(self.path / "manifest.json")

    @property
    def kind(self) -> str:
        return str(self.manifest.get("kind", ""))

    @cached_property
    def annotate(self) -> dict[str, Any]:
        return _object(self.path / "annotate.json")

    @cached_property
    def parts(self) -> list[str]:
        return parts(self.path / "trajectories")

    @cached_property
    def versions(self) -> dict[str, int]:
        """Policy version by part of trajectories: one part is played by one version."""
        heads = {name: next(iter(self._heads(name, 1).values()), None) for name in self.parts}
        return {name: head.version for name, head in heads.items() if head}

    @cached_property
    def episodes(self) -> dict[str, Head]:
        """By id: every episode of a collect run; of each update of a train run, which may be large, the first."""
        limit = None if self.kind == "collect" else 1
        return {key: head for name in self.parts for key, head in self._heads(name, limit).items()}

    def sha256(self, trajectory: Any) -> str:
        """Of a stored episode's line; empty if there is none of that id."""
        head = self.episodes.get(trajectory) if isinstance(trajectory, str) else None
        return head.sha256 if head else ""

    def _heads(self, part: str, limit: int | None) -> dict[str, Head]:
        found: dict[str, Head] = {}
        path = self.path / "trajectories" / f"{part}.jsonl"
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if limit is not None and number > limit:
                    break
                whole = line.removesuffix("\n")
                try:
                    head = json.loads(whole.partition(_TURNS)[0] + ("}" if _TURNS in whole else ""))
                    digest = hashlib.sha256(whole.encode()).hexdigest()
                    found[str(head["id"])] = Head(str(head["task"]["id"]), int(head["version"]), digest)
                except (ValueError, KeyError, TypeError) as error:
                    raise UserError(
                        f"{path} line {number} is not a trajectory of this version of seedbed ({error!r})"
                    ) from error
        return found

    def finite(self, array: str) -> list[str]:
        """Parts with a value in one of the arrays beside the episodes: ordinary, skill or advantage."""
        return [part for part in self.versions if array in self._arrays[part]]

    @cached_property
    def _arrays(self) -> dict[str, frozenset[str]]:
        return {part: _filled(self.path / "trajectories" / f"{part}.safetensors") for part in self.parts}

    @cached_property
    def skills(self) -> list[tuple[Skill, dict[str, Any]]]:
        path = self.path / "skills.jsonl"
        return read_skills(path) if path.is_file() else []

    @cached_property
    def answered(self) -> set[str]:
        """Trajectories with an answer in the journal of an external annotator."""
        rows = _lines(self.path / "annotations.jsonl")
        return {str(row["trajectory"]) for row in rows if row.get("status") == "answered" and "trajectory" in row}

    @cached_property
    def tasks(self) -> set[str]:
        return {str(row["id"]) for row in _lines(self.path / "tasks.jsonl") if "id" in row}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The lineage of Stage-1 rows."""
        return _lines(self.path / "sft_data.jsonl")

    @property
    def trains_on_rows(self) -> bool:
        return any(row.get("split") == "train" for row in self.rows)

    @property
    def answers(self) -> list[tuple[str, str, str]]:
        """(trajectory, skill source, skill) of every Stage-1 row."""
        out = []
        for row in self.rows:
            try:
                text = json.loads(row["response"])["episode_skill"]
            except (ValueError, KeyError, TypeError):
                text = ""
            out.append((str(row.get("trajectory")), str(row.get("skill_source")), str(text)))
        return out

    @cached_property
    def _metrics(self) -> list[dict[str, Any]]:
        return _lines(self.path / "metrics.jsonl")

    def logged(self, key: str) -> bool:
        """Whether any row of the metrics has a number other than 0 there; a KL may be 0."""
        values = [row.get(key) for row in self._metrics]
        return any(isinstance(value, int | float) and (value or key == "kl") for value in values)

    def setting(self, section: str, key: str) -> Any:
        """One resolved setting; None if it is not recorded."""
        path = self.path / "config.resolved.yaml"
        try:
            found = yaml.safe_load(path.read_text("utf-8")) if path.is_file() else {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
        values = found.get(section) if isinstance(found, dict) else None
        return values.get(key) if isinstance(values, dict) else None

    @cached_property
    def checkpoints(self) -> dict[str, str]:
        """Content of the weights by checkpoint, empty where there are none; by update."""
        found = [p for p in (self.path / "checkpoints").glob("u[0-9]*") if p.is_dir() and p.name[1:].isdecimal()]
        found.sort(key=lambda p: int(p.name[1:]))
        return {p.name: weights_of({f.name: _digest(f) for f in (p / "policy").glob("*.safetensors")}) for p in found}

    def saved(self, checkpoint: str) -> bool:
        """Whether a checkpoint says that it is the one of its update."""
        return _object(self.path / "checkpoints" / checkpoint / "state.json").get("update") == int(checkpoint[1:])

    @cached_property
    def evaluations(self) -> dict[str, dict[str, Any]]:
        """Stored results by file."""
        return {f"eval/{path.name}": _object(path) for path in sorted((self.path / "eval").glob("*.json"))}

    @property
    def stages(self) -> list[tuple[str, Sequence[str]]]:
        """(run, files of its evaluations) as ``demo.json`` has them."""
        stages = _object(self.path / "demo.json").get("stages")
        entries = [entry for entry in stages if isinstance(entry, dict)] if isinstance(stages, list) else []
        return [(str(e["run"]), e["evals"]) for e in entries if e.get("run") and isinstance(e.get("evals"), list)]


def weights_of(files: Any) -> str:
    """One hash for the weights among a model's file hashes, whatever the files are called; empty if there are none.

    Of a single file it is that file's sha256, of several the sha256 of their sorted hashes, one a line.
    """
    found = files.items() if isinstance(files, Mapping) else ()
    hashes = sorted(str(value) for name, value in found if str(name).endswith(".safetensors"))
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest() if hashes else ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _filled(path: Path) -> frozenset[str]:
    """Names of arrays with a finite value; none if the file is missing."""
    if not path.is_file():
        return frozenset()
    try:
        with safe_open(path, "np") as arrays:
            return frozenset(k for k in arrays.keys() if np.isfinite(arrays.get_tensor(k)).any())  # noqa: SIM118
    except Exception as error:  # safetensors raises its own Rust errors
        raise UserError(f"{path} cannot be read: {error}") from error


def _object(path: Path) -> dict[str, Any]:
    """A JSON object; empty if the file is missing or holds something else."""
    try:
        value = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [row for row in read_jsonl(path) if isinstance(row, dict)] if path.is_file() else []
