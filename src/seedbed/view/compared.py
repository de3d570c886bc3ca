"""May these evaluations be compared? What each is of, what its training spent, and where two of them are not alike.

Read from files alone: results of ``seedbed eval --out``, train runs with ``eval/``, checkpoints of those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedbed.types import UserError
from seedbed.view.rundir import RunDirectory, read_json

_NEEDED = {"panel", "panel_hash", "temperature", "episodes", "summary"}
#: What may be accepted as different by name: the keys of a result, or of a budget, that must be alike.
KEYS: Mapping[str, tuple[str, ...]] = {
    "panel": ("panel_hash",),
    "temperature": ("temperature",),
    "prompts": ("template_hash", "rollout"),
    "environment": ("env", "env_facts"),
    "budget": ("updates", "tasks", "attempts", "episodes", "split"),
}
_ABSENT = "nothing"


@dataclass(frozen=True, slots=True)
class Measured:
    """One evaluation of one trained policy."""

    source: str  #: as the user named it
    result: Mapping[str, Any]
    budget: Mapping[str, Any] | None  #: of its RL training; None if the files do not say
    start: Mapping[str, str] | None  #: hashes of the weights its training started from
    seed: int | None  #: of its training


@dataclass(frozen=True, slots=True)
class Arm:
    """A way of training: one measured policy a training seed."""

    name: str
    runs: tuple[Measured, ...]


def read_arms(words: Sequence[str], update: int | None = None) -> list[Arm]:
    """Arms from ``SOURCE`` or ``NAME=SOURCE,SOURCE,...``; ``update`` chooses the evaluation of run directories.

    Raises ``UserError`` for a source without an evaluation, a name given twice, or one run taken for two seeds.
    """
    arms = []
    for word in words:
        name, eq, rest = word.partition("=")
        named = bool(eq) and not Path(word).exists()
        sources = [s for s in rest.split(",") if s] if named else [word]
        if not sources or not name:
            raise UserError(f"arm {word!r} names no run: write NAME=RUN or NAME=RUN,RUN,... with one run a seed")
        arms.append(Arm(name if named else word.rstrip("/"), tuple(read(source, update) for source in sources)))
    for place, arm in enumerate(arms):
        if arm.name in {other.name for other in arms[:place]}:
            raise UserError(f"two arms are called {arm.name!r}: name them apart, NAME=RUN")
        _distinct(arm)
    return arms


def read(source: str, update: int | None = None) -> Measured:
    """An evaluation from a result file, a run directory (the last one, or that of ``update``) or a checkpoint."""
    path = Path(source)
    if path.is_file():
        inside = re.fullmatch(r"u(\d+)\.json", path.name) if path.parent.name == "eval" else None
        if inside and (path.parents[1] / "manifest.json").is_file():
            return _of_run(source, RunDirectory.open(path.parents[1]), int(inside[1]))
        result = _result(path)
        trained = result.get("trained") or {}
        return Measured(source, result, trained.get("budget"), trained.get("start"), trained.get("seed"))
    if found := _checkpoint(path):
        return _of_run(source, *found)
    if not path.is_dir():
        raise UserError(f"{source!r} does not exist: name a result of seedbed eval --out, a train run or a checkpoint")
    run = RunDirectory.open(path)
    updates = sorted(int(p.stem[1:]) for p in (path / "eval").glob("u*.json") if p.stem[1:].isdecimal())
    if not updates:
        raise UserError(
            f"{source} holds no evaluation: train with eval.every, or evaluate its last checkpoint with "
            f"seedbed eval {path / 'checkpoints' / 'u....'} --out FILE and compare the files"
        )
    return _of_run(source, run, updates[-1] if update is None else update)


def trained(checkpoint: str) -> dict[str, Any]:
    """``{"trained": {budget, start, seed}}`` of a train run's checkpoint, to be kept with a result; else {}."""
    found = _checkpoint(Path(checkpoint))
    facts = _facts(*found) if found else {}
    return {"trained": facts} if facts else {}


def unlike(runs: Sequence[Measured], allowed: Sequence[str] = ()) -> list[str]:
    """What differs between ``runs`` and was ``allowed``, one sentence a key. Raises ``UserError`` for what was not.

    A budget that is not known is compared with nothing: the caller says so.
    """
    if unknown := next((key for key in allowed if key not in KEYS), None):
        raise UserError(f"--allow {unknown!r} is none of {', '.join(KEYS)}")
    differing = {key: text for key in KEYS if (text := "; ".join(_differences(runs, key)))}
    refused = {key: text for key, text in differing.items() if key not in allowed}
    if refused:
        what = "; in ".join(f"{key}: {text}" for key, text in refused.items())
        accept = " ".join(f"--allow {key}" for key in refused)
        raise UserError(f"these runs differ in {what}: compare like with like, or accept it with {accept}")
    return [f"Accepted as different, {key}: {text}." for key, text in differing.items()]


def _differences(runs: Sequence[Measured], key: str) -> Iterator[str]:
    """``what is VALUE (sources) and VALUE (sources)`` for everything below ``key`` that is not the same everywhere."""
    known = [run for run in runs if key != "budget" or run.budget is not None]
    flat = [dict(_leaves(run, key)) for run in known]
    for name in sorted(set().union(*flat)):
        by_value: dict[str, list[str]] = {}
        for run, leaves in zip(known, flat, strict=True):
            by_value.setdefault(leaves.get(name, _ABSENT), []).append(run.source)
        if len(by_value) > 1:
            yield f"{name} is " + " and ".join(f"{v} ({', '.join(who)})" for v, who in by_value.items())


def _leaves(run: Measured, key: str) -> Iterator[tuple[str, str]]:
    whole = run.budget if key == "budget" else run.result
    for name in KEYS[key]:
        value = (whole or {}).get(name)
        if name == "panel_hash":
            yield "panel", f"{run.result['panel']} with tasks {str(value)[:8]}"
        elif isinstance(value, dict):
            for inner, one in value.items():
                if (name, inner) != ("rollout", "temperature"):  # that of the evaluation, a key of its own
                    yield f"{name}.{inner}", json.dumps(one, sort_keys=True)
        elif value is not None:  # {} and an absent key say the same: nothing
            yield name, str(value)[:12] if name == "template_hash" else str(value)


def _distinct(arm: Arm) -> None:
    seen: dict[tuple[str, Any], str] = {}
    for run in arm.runs:
        marks = [("path", Path(run.source).resolve()), ("transcripts", run.result.get("transcripts_hash"))]
        for mark in [*marks, ("training seed", run.seed)]:
            if mark[1] is not None and (other := seen.setdefault(mark, run.source)) and other is not run.source:
                raise UserError(
                    f"{other} and {run.source} in arm {arm.name!r} have the same {mark[0]}: they are not two seeds, "
                    "leave one out"
                )


def _of_run(source: str, run: RunDirectory, update: int) -> Measured:
    path = run.path / "eval" / f"u{update:04d}.json"
    if not path.is_file():
        raise UserError(
            f"{source} holds no evaluation of update {update}: choose one of {path.parent}, or evaluate it with "
            f"seedbed eval {run.path / 'checkpoints' / f'u{update:04d}'} --out FILE and compare the files"
        )
    facts = _facts(run, update)
    return Measured(source, _result(path), facts.get("budget"), facts.get("start"), facts.get("seed"))


def _checkpoint(path: Path) -> tuple[RunDirectory, int] | None:
    """Run and update of ``RUN/checkpoints/u0008`` or the ``policy`` folder in it; None for any other path."""
    path = path.parent if path.name == "policy" else path
    number = re.fullmatch(r"u(\d+)", path.name)
    run = path.parent.parent
    if not number or path.parent.name != "checkpoints" or not path.is_dir() or not (run / "manifest.json").is_file():
        return None
    return RunDirectory.open(run), int(number[1])


def _facts(run: RunDirectory, update: int) -> dict[str, Any]:
    """What a train run had spent by ``update``; {} for a run of another kind (its updates are no RL)."""
    manifest = run.manifest
    if manifest.get("kind") != "train":
        return {}
    rows = [row for row in run.metrics if row.get("update", 0) <= update]
    budget = {
        "updates": update,
        "tasks": run.setting("train.tasks", None),
        "attempts": run.setting("train.attempts", None),
        "split": run.setting("env.train_split", None),
        "episodes": sum(row.get("episodes", 0) for row in rows),
        "tokens_sampled": sum(row.get("tokens_sampled", 0) for row in rows),
    }
    start = {n: h for n, h in manifest.get("model", {}).items() if n.endswith(".safetensors")}
    return {"budget": budget, "start": start or None, "seed": manifest.get("seed")}


def _result(path: Path) -> dict[str, Any]:
    result = read_json(path)
    if not isinstance(result, dict) or not result.keys() >= _NEEDED:
        raise UserError(f"{path} is no result of an evaluation: name a file that seedbed eval --out wrote")
    return result
