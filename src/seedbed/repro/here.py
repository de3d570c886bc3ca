"""What is this machine, and which code runs on it? For a manifest: no paths, environment variables or arguments."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from functools import cache
from hashlib import sha256
from importlib.metadata import distributions
from importlib.resources import files
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
#: The paper's arXiv version is None: our sources name none. What its values and tables are taken to be is told by hash.
PAPER = {"arxiv": "2607.14777", "version": None, "official_code": "2cf2fad"}


def facts() -> dict[str, Any]:
    """What every manifest says, whatever was run."""
    return {
        "format": 1,
        "paper": paper(),
        "code": dict(code()),
        "packages": dict(packages()),
        "python": platform.python_version(),
        "machine": machine(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


@cache
def packages() -> dict[str, str]:
    """Version of every installed package. Once a process: reading them takes longer than all the rest."""
    return dict(sorted((d.metadata["Name"].lower(), d.version) for d in distributions() if d.metadata["Name"]))


def paper() -> dict[str, Any]:
    """The paper, and the sha256 of what this version takes its values and results to be."""
    read = {name: (files("seedbed.repro") / f"paper_{name}.yaml").read_bytes() for name in ("values", "tables")}
    return PAPER | {name: sha256(content).hexdigest() for name, content in read.items()}


def machine() -> dict[str, Any]:
    import torch  # noqa: PLC0415

    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cpus": os.cpu_count(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "torch_threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "driver": _driver() if torch.cuda.is_available() else None,
    }


@cache
def code() -> dict[str, Any]:
    """Commit and what is not committed, if this is a git checkout; and a hash of the package's files wherever it is.

    Once a process: what is edited while it runs is not what it runs.
    """

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, timeout=20, check=True
        ).stdout

    try:
        if "src/seedbed" not in git("ls-files", "--full-name", str(PACKAGE / "cli.py")):
            raise ValueError("installed inside somebody else's repository")
        root = Path(git("rev-parse", "--show-toplevel").strip())
        new = git("ls-files", "--others", "--exclude-standard", "--full-name", str(PACKAGE)).split("\n")[:-1]
        state = {
            "commit": git("rev-parse", "HEAD").strip(),
            "dirty_diff": git("diff", "HEAD", "--", str(PACKAGE)),
            "untracked": {name: sha256((root / name).read_bytes()).hexdigest() for name in new},
        }
    except (OSError, subprocess.SubprocessError, ValueError):
        state = {"commit": "unknown (not a git checkout)", "dirty_diff": "", "untracked": {}}
    return state | {"tree": tree()}


def tree(package: Path = PACKAGE) -> str:
    """sha256 over names and contents of the package's files: the same code has it in a checkout and in a wheel.

    The weights of the shipped model are left out: a manifest has the model's hashes.
    """
    found = {p.relative_to(package).as_posix(): p for p in package.rglob("*") if p.is_file()}
    lines = [
        f"{sha256(path.read_bytes()).hexdigest()} {name}"
        for name, path in sorted(found.items())
        if "__pycache__" not in name and not name.endswith(".safetensors")
    ]
    return sha256("\n".join(lines).encode()).hexdigest()


@cache
def _driver() -> str | None:
    """Version of the NVIDIA driver, None if nothing tells it."""
    if not shutil.which("nvidia-smi"):
        return None
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    return told[0] if told else None
