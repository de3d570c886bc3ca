"""Loading and saving a policy: a plain Hugging Face folder, safetensors only, nothing from a network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seedbed.config import ModelSettings
from seedbed.engines.torch_engine import TorchEngine
from seedbed.render import Renderer
from seedbed.track.run import Run
from seedbed.train.lora import merged
from seedbed.types import UserError


def resolve(path: str, weights: bool = True) -> Path:
    """The folder of a model: a path, or ``tiny`` for the packaged one. Raises ``UserError`` naming what is missing.

    Without ``weights`` those may be absent: a served model needs its tokenizer here.
    """
    if path == "tiny":
        with as_file(files("seedbed.presets") / "tiny") as folder:
            return folder
    folder = Path(path)
    if (folder / "policy").is_dir():  # a checkpoint of a run
        folder = folder / "policy"
    if (folder / "checkpoints").is_dir():
        raise UserError(f"{path!r} is a run: name one of its checkpoints, {folder / 'checkpoints' / 'u....'}")
    if not folder.is_dir():
        raise UserError(
            f"model.path {path!r} is not a folder: give a Hugging Face model folder, a checkpoint, or 'tiny'"
        )
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            raise UserError(f"model.path {path!r} holds no {name}: it is not a Hugging Face model folder")
    if weights and not list(folder.glob("*.safetensors")):
        raise UserError(
            f"model.path {path!r} holds no .safetensors weights (seedbed loads no pickles): "
            "convert it with save_pretrained"
        )
    return folder


def load_renderer(settings: ModelSettings) -> Renderer:
    """Tokenizer and chat template alone."""
    from transformers import AutoTokenizer  # noqa: PLC0415 - slow import, not needed by `--help`

    folder = resolve(settings.path, weights=not settings.server)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise UserError(
            f"the tokenizer files in {folder} cannot be read ({_first_line(error)}): copy them again"
        ) from error
    return Renderer(tokenizer, settings.template_options, settings.path)


def load_policy(settings: ModelSettings) -> tuple[nn.Module, Renderer]:
    """Model (in eval mode: no dropout anywhere, so that scorer and learner agree) and renderer."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - slow import
    from transformers.utils import logging  # noqa: PLC0415

    if settings.server:
        raise UserError("model.server is for collect and eval: here the weights are needed in process, leave it empty")
    logging.disable_progress_bar()  # loading takes a moment; our own bars are for long work
    folder, renderer = resolve(settings.path), load_renderer(settings)
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=getattr(torch, settings.dtype),
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:
        raise UserError(
            f"the weights in {folder} cannot be loaded ({_first_line(error)}): copy the folder again"
        ) from error
    if info["missing_keys"]:
        raise UserError(
            f"the weights in {folder} lack {sorted(info['missing_keys'])[0]} and {len(info['missing_keys']) - 1} more: "
            "what is not there would be random; copy the folder again"
        )
    if len(renderer.tokenizer) > model.get_input_embeddings().num_embeddings:
        raise UserError(
            f"the tokenizer in {folder} has {len(renderer.tokenizer)} tokens, the model "
            f"{model.get_input_embeddings().num_embeddings}: they do not belong together"
        )
    return model.to(pick_device(settings.device)).eval(), renderer


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def load_engine(settings: ModelSettings) -> tuple[TorchEngine, Renderer]:
    model, renderer = load_policy(settings)
    return TorchEngine(model, renderer.stop_id), renderer


def pick_device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("model.device=cuda, but torch sees no GPU: use model.device=cpu or auto")
    return name


def save_policy(model: nn.Module, renderer: Renderer, folder: Path) -> None:
    """A plain Hugging Face folder: what ``from_pretrained`` of transformers loads without seedbed (or peft)."""
    attention = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    try:
        model.save_pretrained(folder, safe_serialization=True, state_dict=merged(model))
    finally:
        model.set_attn_implementation(attention)
    renderer.tokenizer.save_pretrained(folder)


def model_facts(settings: ModelSettings, renderer: Renderer) -> dict[str, Any]:
    """What a manifest says of the model: every file of its folder by hash (tokenizer too) and the chat template."""
    folder = resolve(settings.path, weights=not settings.server)
    return {"model": folder_hashes(folder), "template_hash": renderer.hash}


def same_tokens(collected: Run, settings: ModelSettings, renderer: Renderer) -> None:
    """Raises ``UserError`` if a collect run had another tokenizer or template: its ids would mean other text."""
    was, now = collected.manifest, model_facts(settings, renderer)
    if (was["model"]["tokenizer.json"], was["template_hash"]) != (now["model"]["tokenizer.json"], now["template_hash"]):
        raise UserError(
            f"model.path={settings.path!r} has another tokenizer or chat template than the policy that collected "
            f"{collected.path}: collect again with it"
        )


def folder_hashes(folder: Path, keep: Callable[[str], bool] = lambda _: True) -> dict[str, str]:
    """sha256 of every file of a model folder, by name."""
    return {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.iterdir())
        if p.is_file() and keep(p.name)
    }
