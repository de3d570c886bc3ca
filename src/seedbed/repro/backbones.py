"""Which of the paper's models is this? Read off the shape in its ``config.json``, so a checkpoint has an answer too.

A folder that is not on this machine is known by its name alone.
"""

from __future__ import annotations

import json
from pathlib import Path

#: Models of the paper -> (model_type, hidden_size, num_hidden_layers) of their published config.json.
SHAPES = {
    "Qwen2.5-3B-Instruct": ("qwen2", 2048, 36),
    "Qwen2.5-7B-Instruct": ("qwen2", 3584, 28),
    "Qwen3-1.7B": ("qwen3", 2048, 28),
}
#: Preset of each model.
PRESETS = {
    "Qwen2.5-3B-Instruct": "qwen2.5-3b",
    "Qwen2.5-7B-Instruct": "qwen2.5-7b",
    "Qwen3-1.7B": "qwen3-1.7b",
}


def backbone(path: str) -> str | None:
    """The paper's model that ``model.path`` is, or was trained from; None if it is none of them."""
    for folder in (Path(path) / "policy", Path(path)):
        if (folder / "config.json").is_file():
            try:
                found = json.loads((folder / "config.json").read_text("utf-8"))
                shape = tuple(found.get(key) for key in ("model_type", "hidden_size", "num_hidden_layers"))
            except (ValueError, AttributeError):
                return None
            return next((name for name, known in SHAPES.items() if known == shape), None)
    return next((name for name in SHAPES if Path(path).name.casefold() == name.casefold()), None)
