"""What of Sokoban is on this machine? (``seedbed doctor``)"""

from __future__ import annotations

from seedbed.envs.doctor import Finding
from seedbed.envs.sokoban.env import Sokoban


def check() -> list[Finding]:
    environment = Sokoban()
    sizes = [f"{split} {len(environment.tasks(split)):,}" for split in ("train", "validation")]
    return [
        Finding("levels", "ok", f"made from seeds, nothing to download: {', '.join(sizes)}"),
        Finding("images", "ok", "drawn with NumPy alone"),
    ]
