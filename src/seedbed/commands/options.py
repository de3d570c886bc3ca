"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

from seedbed.config import Config, load_config

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="settings, e.g. train.updates=5 algo=grpo")
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", help="preset name or YAML file; repeated, later over earlier (see: seedbed config presets)"
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        help="CPU threads of torch; one is fastest on shared cores and the only setting with bit-equal reruns"
    ),
]


def prepare(
    source: str | Sequence[str] | None,
    overrides: list[str] | None,
    threads: int = 1,
    origin: str | Path | None = None,
) -> Config:
    """Configuration and torch threads of a command.

    Without ``--config`` the settings start from those of the run that ``origin`` (or else a given ``model.path``) comes
    from: a checkpoint is evaluated, and a collection fine-tuned, as it was made, unless told otherwise.
    """
    torch.set_num_threads(threads)
    named = [o.partition("=")[2] for o in overrides or [] if o.startswith("model.path=")]
    inherited = None if source else settings_of(origin or (named[-1] if named else None))
    if inherited:
        typer.echo(f"settings start from {inherited} (choose others with --config)", err=True)
    return load_config(source or inherited, overrides or [])


def settings_of(origin: str | Path | None) -> str | None:
    """The config of the run that holds a checkpoint or is a run directory; the preset of the shipped model."""
    if origin is None or str(origin) == "tiny":
        return str(origin) if origin else None
    for folder in [Path(origin), *Path(origin).resolve().parents][:4]:  # RUN/checkpoints/u0003/policy
        if (folder / "config.resolved.yaml").is_file():
            return str(folder / "config.resolved.yaml")
    return None
