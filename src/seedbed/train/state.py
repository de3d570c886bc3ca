"""Checkpoints: safetensors and JSON, written whole or not at all, enough to go on to the bit.

Nothing in seedbed draws from a global random state: tasks, sampling and minibatches are pure functions of
(seed, update), so the update counter is the task cursor and the random state in one.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from seedbed.render import Renderer
from seedbed.train.lora import read_adapter, save_adapter
from seedbed.train.model import save_policy
from seedbed.types import UserError


def save_checkpoint(
    folder: Path,
    update: int,
    model: nn.Module,
    renderer: Renderer,
    optimizer: torch.optim.Optimizer,
    facts: dict[str, Any],
) -> Path:
    """``folder/u<update>/`` with ``policy/`` (plain Hugging Face folder), ``optimizer.safetensors``, ``state.json``.

    With LoRA, ``policy/`` has the adapter merged in, and ``adapter/`` holds it for going on.
    """
    final = folder / f"u{update:04d}"
    part = folder / f".u{update:04d}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_policy(model, renderer, part / "policy")
    save_adapter(model, part / "adapter")
    names = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {
        f"{key}/{names[parameter]}": value
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, part / "optimizer.safetensors")
    (part / "state.json").write_text(json.dumps({"update": update, **facts}, indent=1) + "\n", "utf-8")
    shutil.rmtree(final, ignore_errors=True)
    os.replace(part, final)
    for old in _checkpoints(folder)[:-2]:  # two to go on from, in case one is damaged; older ones keep their policy
        (old / "optimizer.safetensors").unlink(missing_ok=True)
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint with the highest update, or None."""
    found = _checkpoints(folder)
    return found[-1] if found else None


def _checkpoints(folder: Path) -> list[Path]:
    return sorted((p for p in folder.glob("u[0-9]*") if (p / "state.json").is_file()), key=lambda p: int(p.name[1:]))


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put weights and optimizer state in place; return ``state.json``. Raises ``UserError`` if a file is damaged."""
    try:
        state = json.loads((path / "state.json").read_text("utf-8"))
        if state["update"] != int(path.name[1:]) or not isinstance(state["optimizer_steps"], int):
            raise ValueError("state.json was edited")
        if (path / "adapter").is_dir():
            weights = read_adapter(model, path / "adapter")
        else:
            files = sorted((path / "policy").glob("*.safetensors"))
            weights = {k: v for file in files for k, v in load_file(file).items()}
        moments = load_file(path / "optimizer.safetensors")
    except Exception as error:
        raise UserError(
            f"checkpoint {path} cannot be read ({error}): delete it to go on from the one before"
        ) from error
    missing = {name for name, p in model.named_parameters() if p.requires_grad} - set(weights)
    if missing:
        raise UserError(f"checkpoint {path} lacks weights ({sorted(missing)[0]}, ...): it belongs to another model")
    model.load_state_dict(weights, strict=False)
    optimizer.state.clear()
    for name, parameter in model.named_parameters():
        entry = {key.split("/", 1)[0]: value for key, value in moments.items() if key.split("/", 1)[1] == name}
        if entry:
            optimizer.state[parameter] = {k: v.to(parameter.device) if k != "step" else v for k, v in entry.items()}
    return state
