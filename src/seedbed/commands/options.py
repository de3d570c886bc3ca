"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import torch
import typer

from seedbed.config import Config, load_config

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="settings, e.g. train.updates=5 algo=grpo")
]
ConfigOption = Annotated[
    str | None, typer.Option("--config", "-c", help="preset name or YAML file (see: seedbed config presets)")
]
Threads = Annotated[
    int,
    typer.Option(
        help="CPU threads of torch; one is fastest on shared cores and the only setting with bit-equal reruns"
    ),
]


def prepare(source: str | None, overrides: list[str] | None, threads: int = 1) -> Config:
    """Configuration and torch threads of a command."""
    torch.set_num_threads(threads)
    return load_config(source, overrides or [])
