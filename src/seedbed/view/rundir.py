"""What a person can look at in a run directory, read from its files alone: no model, no network, nothing executed.

Every file is optional except ``manifest.json``: a run that was stopped early, or an older one, can still be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors import safe_open

from seedbed.track.store import TokenValues, parts, read_jsonl, read_part, read_skills
from seedbed.types import Skill, Trajectory, UserError

Scored = tuple[Trajectory, TokenValues]


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A train, sft or collect run on disk. Raises ``UserError`` on reading a damaged file, naming it."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Raises ``UserError`` if ``path`` is not a run directory."""
        if not (path / "manifest.json").is_file():
            raise UserError(f"{path} is not a run directory: it holds no manifest.json")
        return cls(path)

    @property
    def manifest(self) -> dict[str, Any]:
        return read_json(self.path / "manifest.json")

    @property
    def paper_diff(self) -> str:
        path = self.path / "paper_diff.md"
        return path.read_text("utf-8", "replace") if path.is_file() else ""

    @property
    def metrics(self) -> list[dict[str, Any]]:
        path = self.path / "metrics.jsonl"
        return list(read_jsonl(path)) if path.is_file() else []

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """Results of ``evaluate`` in ``eval/``, in order of policy version, temperature descending."""
        found = [read_json(path) for path in sorted((self.path / "eval").glob("*.json"))]
        return sorted(found, key=lambda e: (e.get("policy_version", 0), -e.get("temperature", 0.0)))

    def setting(self, key: str, default: Any) -> Any:
        """One resolved setting by dotted key. Unchecked on purpose: a setting that has since gone breaks no viewer."""
        path = self.path / "config.resolved.yaml"
        try:
            value = yaml.safe_load(path.read_text("utf-8")) if path.is_file() else {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
        for name in key.split("."):
            value = value.get(name, default) if isinstance(value, dict) else default
        return value

    @property
    def updates(self) -> list[int]:
        """Updates whose trajectories are stored, in order."""
        names = parts(self.path / "trajectories")
        return sorted(int(name[1:]) for name in names if name[0] == "u" and name[1:].isdecimal())

    def trajectories(self, update: int) -> list[Scored]:
        """Raises ``UserError`` naming the updates there are."""
        if update not in self.updates:
            known = f"{self.updates[0]} to {self.updates[-1]}" if self.updates else "none"
            raise UserError(f"{self.path} holds no trajectories of update {update} (stored: {known})")
        return list(read_part(self.path / "trajectories", f"u{update:04d}"))

    def scored_update(self, first: bool = False) -> int | None:
        """The last (or first) update with a token scored in both contexts; None if there is none."""
        for update in self.updates if first else reversed(self.updates):
            if self._has_scores(update):
                return update
        return None

    def _has_scores(self, update: int) -> bool:
        """From one array, so that a long run without skills is passed over quickly."""
        path = self.path / "trajectories" / f"u{update:04d}.safetensors"
        try:
            with safe_open(path, "np") as arrays:
                return bool(np.isfinite(arrays.get_tensor("skill")).any())
        except Exception as error:  # safetensors raises its own Rust errors
            raise UserError(f"{path} cannot be read: {error}") from error

    def skills(self, update: int) -> dict[str, Skill]:
        """Skills written in an update, by trajectory id."""
        path = self.path / "skills.jsonl"
        rows = read_skills(path) if path.is_file() else []
        return {skill.trajectory: skill for skill, extra in rows if extra.get("update", update) == update}

    def token_texts(self) -> Callable[[Sequence[int]], list[str]]:
        """A function from sampled ids to one text per id, with the run's own tokenizer."""
        from tokenizers import Tokenizer  # noqa: PLC0415 - slow import

        kept = sorted((self.path / "checkpoints").glob("u*/policy/tokenizer.json"))
        path = kept[-1] if kept else _start_model(self.setting("model.path", "tiny")) / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            raise UserError(f"{path} cannot be read as a tokenizer: {error}") from error
        return lambda ids: pieces(ids, lambda part: tokenizer.decode(list(part), skip_special_tokens=False))


def _start_model(path: str) -> Path:
    from seedbed.train.model import resolve  # noqa: PLC0415 - imports torch, which few looks need

    return resolve(path)


def is_scored(values: TokenValues) -> bool:
    """Whether any token has a log-prob in both contexts."""
    return bool(np.isfinite(values.skill_T - values.ordinary_T).any())


def pieces(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[str]:
    """What each token adds to the decoded text; joined they are the whole text.

    Tokens are not decoded alone: a tokenizer may join them with blanks, or split a character over several (the last of
    those then carries it, the others are empty).
    """
    out, before = [], ""
    for end in range(1, len(ids) + 1):
        whole = decode(ids[:end])
        settled = whole if end == len(ids) else whole.rstrip("\ufffd")
        out.append(settled[len(before) :])
        before = settled if len(settled) > len(before) else before
    return out


def read_json(path: Path) -> dict[str, Any]:
    """Raises ``UserError`` naming the file."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error
