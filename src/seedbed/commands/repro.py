"""``seedbed repro``: does a run stand on the same things here?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from seedbed.repro.manifest import schema_text
from seedbed.track.run import Run

app = typer.Typer(no_args_is_help=True, help="Compare what a run stands on with what is on this machine.")
_out = Console(highlight=False)
_STYLES = {"same": "green", "differs": "red", "not here": "yellow", "not recorded": "dim"}


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="a run directory, or a folder of the strict track")],
    as_json: Annotated[bool, typer.Option("--json", help="print the checks as JSON")] = False,
) -> None:
    """Make again what the run's manifest names, and list what is the same, differs, or is not here.

    Exits with status 1 if something differs that changes results (code, model, tokenizer, template, panel, data,
    settings, scores); other packages or another GPU alone give 0. Example: seedbed repro verify runs/seed
    """
    from seedbed.repro import verify as verifying  # noqa: PLC0415 - torch and transformers

    checks = verifying.verify(Run.open(run))
    failed = [check for check in checks if check.matters and check.state == "differs"]
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        table = Table("what", "recorded", "here", "state", "changes results")
        for check in checks:
            cells = (check.what, _short(check.recorded), _short(check.found))
            table.add_row(*cells, f"[{_STYLES[check.state]}]{check.state}[/]", "yes" if check.matters else "no")
        _out.print(table)
        _out.print(
            f"{len(failed)} of {sum(check.matters for check in checks)} things that change results differ"
            + (f": {', '.join(check.what for check in failed)}" if failed else "")
        )
    if failed:
        raise typer.Exit(1)


@app.command()
def schema() -> None:
    """Print the JSON schema of manifest.json."""
    typer.echo(schema_text(), nl=False)


def _short(value: Any) -> str:
    """A value in a cell; hashes by their first twelve digits."""
    text = "-" if value is None or value == [] else str(value)
    return text[:12] if len(text) == 64 and text.isalnum() else text if len(text) <= 40 else f"{text[:37]}..."
