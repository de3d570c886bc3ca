"""Hand-made run directories: those of ``tests/view`` serve here too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "view"))
