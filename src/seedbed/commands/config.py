"""``seedbed config``: what is set, and how it differs from the paper."""

from __future__ import annotations

from typing import Annotated

import typer

from seedbed.commands.options import ConfigOption, Overrides
from seedbed.config import load_config, presets, to_yaml
from seedbed.repro.paper_diff import diff_lines, paper_diff

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
    """Print where the configuration differs from the paper. Example: seedbed config diff -c tiny"""
    settings = load_config(config, overrides or [])
    lines = diff_lines(settings)
    typer.echo(
        paper_diff(settings) if every else "\n".join(lines) or "no setting differs from the paper's ALFWorld run"
    )


@app.command(name="presets")
def presets_() -> None:
    """List the presets."""
    typer.echo("\n".join(presets()))
