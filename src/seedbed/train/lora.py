"""LoRA on a policy: small trained matrices beside frozen weights (peft), and the plain policy that they amount to.

The modules of the model are replaced in place, so every forward pass of seedbed runs on it unchanged. A saved policy
has the adapter merged into its weights: whoever loads it needs no peft. The adapter itself is kept beside it, in peft's
own form, to go on from.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from seedbed.types import UserError

_NAME = "default"
_WEIGHTS = "adapter_model.safetensors"


def attach(model: nn.Module, rank: int, alpha: float, seed: int) -> None:
    """Put an adapter on every linear layer of the model but its head; only the adapter is trained from here on.

    It starts as no change at all. Raises ``UserError`` without peft.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError(
            f"sft.lora_rank={rank} needs the package peft: pip install 'seedbed[lora]', or set sft.lora_rank=0 to "
            "train all weights"
        ) from error
    settings = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        inject_adapter_in_model(settings, model, adapter_name=_NAME)


def merged(model: nn.Module) -> dict[str, Tensor] | None:
    """State dict of the plain policy that model and adapter amount to; None for a model without adapter."""
    if not _adapter(model):
        return None
    state = {name.replace(".base_layer.", "."): v for name, v in model.state_dict().items() if ".lora_" not in name}
    for name, module in model.named_modules():
        if hasattr(module, "get_delta_weight"):
            delta = module.get_delta_weight(_NAME)
            state[f"{name}.weight"] = (module.base_layer.weight + delta).detach()
    return state


def save_adapter(model: nn.Module, folder: Path) -> None:
    """The adapter as peft stores one (``adapter_config.json``, safetensors); nothing for a model without adapter."""
    if _adapter(model):
        folder.mkdir()
        model.peft_config[_NAME].save_pretrained(folder)
        save_file({_stored(name): v.contiguous() for name, v in _adapter(model).items()}, folder / _WEIGHTS)


def read_adapter(model: nn.Module, folder: Path) -> dict[str, Tensor]:
    """What ``save_adapter`` wrote, by parameter name of ``model``."""
    stored = load_file(folder / _WEIGHTS)
    return {name: stored[_stored(name)] for name in _adapter(model) if _stored(name) in stored}


def _adapter(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in model.named_parameters() if f".{_NAME}." in name and ".lora_" in name}


def _stored(name: str) -> str:
    return f"base_model.model.{name.replace(f'.{_NAME}.', '.')}"
