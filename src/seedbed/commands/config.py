"""``seedbed config``: what is set, and how it differs from the paper."""

from __future__ import annotations

from typing import Annotated

import typer

from seedbed.commands.options import ConfigOption, Overrides
from seedbed.config import load_config, presets, to_yaml
from seedbed.repro.backbones import SHAPES, backbone
from seedbed.repro.paper_diff import compared_with, diff_lines, paper_diff

app = typer.Typer(
    no_args_is_help=True, help="Show the resolved configuration, the presets, the difference from the paper."
)


@app.command()
def show(overrides: Overrides = None, config: ConfigOption = None) -> None:
    """Print the resolved configuration as YAML. Example: seedbed config show -c tiny algo=grpo train.updates=5"""
    typer.echo(to_yaml(load_config(config, overrides or [])), nl=False)


@app.command()
def diff(
    overrides: Overrides = None,
    config: ConfigOption = None,
    every: Annotated[bool, typer.Option("--all", help="every setting with its source, as a Markdown table")] = False,
) -> None:
    """Print where the configuration differs from the paper, and whether its model is one of the paper's.

    Examples: seedbed config diff -c tiny; seedbed config diff -c webshop -c qwen3-1.7b --all
    """
    settings = load_config(config, overrides or [])
    model = backbone(settings.model.path)
    typer.echo(f"model: {model or f'{settings.model.path}, none of the paper: ' + ', '.join(SHAPES)}")
    lines = diff_lines(settings)
    same = f"no setting differs from {compared_with(settings)}"
    typer.echo(paper_diff(settings) if every else "\n".join(lines) or same)


@app.command(name="presets")
def presets_() -> None:
    """List the presets."""
    typer.echo("\n".join(presets()))
