"""A run directory: configuration, provenance, metrics, timing. Everything shown later is rebuilt from it alone."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from seedbed.config import Config, build, to_yaml
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
        """Write ``config.resolved.yaml``, ``paper_diff.md`` and ``manifest.json``; a run that is resumed has them."""
        if not self.begun:
            self.write("config.resolved.yaml", to_yaml(config))
            self.write("paper_diff.md", paper_diff(config))
            self.write_json("manifest.json", {"kind": kind, **manifest(), "seed": config.seed, **facts})

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


def manifest() -> dict[str, Any]:
    """What ran where: code commit (and if clean), packages, Python, machine. No paths, no environment variables."""
    import torch  # noqa: PLC0415

    packages = {d.metadata["Name"].lower(): d.version for d in distributions() if d.metadata["Name"]}
    return {
        "code": _code_state(),
        "packages": dict(sorted(packages.items())),
        "python": platform.python_version(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cpus": os.cpu_count(),
            "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
            "torch_threads": torch.get_num_threads(),
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _code_state() -> dict[str, Any]:
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, timeout=20, check=True
        ).stdout

    try:
        if "src/seedbed" not in git("ls-files", "--full-name", str(here / "run.py")):
            raise ValueError("installed inside somebody else's repository")
        root = Path(git("rev-parse", "--show-toplevel").strip())
        new = git("ls-files", "--others", "--exclude-standard", "--full-name", str(here.parent)).split("\n")[:-1]
        return {
            "commit": git("rev-parse", "HEAD").strip(),
            "dirty_diff": git("diff", "HEAD", "--", str(here.parent)),
            "untracked": {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in new},
        }
    except (OSError, subprocess.SubprocessError, ValueError):
        return {"commit": "unknown (not a git checkout)", "dirty_diff": "", "untracked": {}}
