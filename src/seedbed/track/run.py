"""A run directory: configuration, provenance, metrics, timing. Everything shown later is rebuilt from it alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from seedbed.config import Config, build, to_yaml
from seedbed.repro import here
from seedbed.repro.data import data_facts
from seedbed.repro.manifest import check
from seedbed.repro.paper_diff import paper_diff
from seedbed.track.store import append_jsonl, read_jsonl, replace_file
from seedbed.types import UserError


class Run:
    """One run directory. ``new`` refuses a directory that already holds a run; ``open`` expects one.

    A new run writes nothing until ``begin``: what fails before that leaves no directory behind.
    """

    def __init__(self, path: Path):
        self.path = path
        self.trajectories = path / "trajectories"
        self.checkpoints = path / "checkpoints"
        self.skills = path / "skills.jsonl"
        self.metrics = path / "metrics.jsonl"

    @classmethod
    def new(cls, path: str | Path) -> Run:
        run = cls(Path(path))
        if run.begun:
            raise UserError(f"{path} already holds a run: choose another --out, or go on with --resume {path}")
        return run

    @classmethod
    def open(cls, path: str | Path, kind: str | None = None) -> Run:
        """Raises ``UserError`` if ``path`` is no run, or one of another ``kind`` than asked for."""
        run = cls(Path(path))
        if not run.begun:
            raise UserError(f"{path} is not a run directory: it holds no manifest.json")
        if kind and run.manifest["kind"] != kind:
            raise UserError(f"{path} is a {run.manifest['kind']} run, not a {kind} run")
        return run

    @property
    def begun(self) -> bool:
        return (self.path / "manifest.json").is_file()

    def begin(self, config: Config, kind: str, **facts: Any) -> None:
        """Write ``config.resolved.yaml``, ``paper_diff.md`` and ``manifest.json``; a run that is resumed has them.

        The manifest is as ``repro/manifest.schema.json`` says, or nothing is written.
        """
        if self.begun:
            return
        settings = to_yaml(config)
        manifest = {
            **here.facts(),
            "kind": kind,
            "seed": config.seed,
            "settings": sha256(settings.encode()).hexdigest(),
            "data": facts.pop("data", None) or data_facts(config.env),
            **facts,
        }
        check(manifest, "manifest.json")
        self.write("config.resolved.yaml", settings)
        self.write("paper_diff.md", paper_diff(config))
        self.write_json("manifest.json", manifest)

    @property
    def config(self) -> Config:
        import yaml  # noqa: PLC0415

        path = self.path / "config.resolved.yaml"
        return build(yaml.safe_load(path.read_text("utf-8")), str(path))

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.path / "manifest.json").read_text("utf-8"))

    def write(self, name: str, text: str) -> None:
        replace_file(self.path / name, lambda p: p.write_text(text, "utf-8"))

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, json.dumps(value, indent=1, sort_keys=True) + "\n")

    def log(self, row: dict[str, Any]) -> None:
        append_jsonl(self.metrics, [row])

    def history(self) -> list[dict[str, Any]]:
        return list(read_jsonl(self.metrics)) if self.metrics.exists() else []

    def write_timing(self) -> None:
        """``timing.json``: seconds per phase over all updates."""
        total: dict[str, float] = {}
        for row in self.history():
            for phase, seconds in row["seconds"].items():
                total[phase] = total.get(phase, 0.0) + seconds
        self.write_json("timing.json", total)

    def rewind(self, update: int) -> None:
        """Forget what was logged after ``update``: a resumed run writes it again, once."""
        for path in (self.metrics, self.skills):
            if path.exists():
                kept = [row for row in read_jsonl(path) if row["update"] <= update]
                replace_file(
                    path, lambda p, kept=kept: p.write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")
                )


class Clock:
    """Wall seconds per named phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
