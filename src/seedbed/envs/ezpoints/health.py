"""What of EZPoints is on this machine? (``seedbed doctor``)"""

from __future__ import annotations

from importlib.util import find_spec

from seedbed.envs.doctor import Finding
from seedbed.envs.ezpoints.env import EZPoints


def check() -> list[Finding]:
    environment = EZPoints()
    sizes = [f"{split} {len(environment.tasks(split)):,}" for split in ("train", "validation")]
    return [Finding("hands", "ok", f"dealt from seeds, nothing to download: {', '.join(sizes)}"), _images()]


def _images() -> Finding:
    if find_spec("PIL"):
        return Finding("images", "ok", "Pillow is installed")
    return Finding("images", "optional", "text needs nothing, images need Pillow", "pip install 'seedbed[visual]'")
