"""``seedbed panel``: the named lists of tasks that results are about."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from seedbed.envs.base import make_environment
from seedbed.envs.panels import Panel, load_panel, panel_names
from seedbed.types import UserError

app = typer.Typer(no_args_is_help=True, help="Look at the fixed task lists that evaluations share.")


@app.command("list")
def list_() -> None:
    """Name, environment, size, hash and task kinds of every panel."""
    width = max(map(len, panel_names()))
    for name in panel_names():
        panel = load_panel(name)
        kinds = Counter(task.kind for task in panel.tasks)
        shown = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
        typer.echo(f"{name:{width}}  {panel.env}  {len(panel.tasks):5} tasks  sha256 {panel.hash[:12]}  {shown}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="see: seedbed panel list")]) -> None:
    """Hash and task ids of a panel, one 'kind id' a line."""
    panel = load_panel(name)
    typer.echo(f"# {panel.name}: {len(panel.tasks)} tasks of {panel.env}, sha256 {panel.hash}")
    for task in panel.tasks:
        typer.echo(f"{task.kind} {task.id}")


@app.command()
def check(names: Annotated[list[str] | None, typer.Argument(help="panels; default all")] = None) -> None:
    """Check each panel's hash and, where its data is on this machine, that every task opens and starts.

    Exits with status 1 if a panel is broken; absent data is said and is no failure.
    """
    broken = 0
    for name in names or panel_names():
        try:
            typer.echo(f"{name}: {_checked(load_panel(name))}")
        except UserError as error:
            broken += 1
            typer.echo(f"{name}: BROKEN: {error}")
    if broken:
        raise typer.Exit(1)


def _checked(panel: Panel) -> str:
    """What was found. Raises ``UserError`` for a task that the data does not have or that does not open."""
    try:
        environment = make_environment(panel.env)
        known = {task.id for split in {t.split for t in panel.tasks} for task in environment.tasks(split)}
    except UserError as error:
        return f"hash ok; tasks not opened: {error}"
    for task in panel.tasks:
        if task.id not in known:
            raise UserError(f"task {task.id!r} is not in split {task.split!r} of the data on this machine")
        environment.open(task).start()
    return f"hash ok; all {len(panel.tasks)} tasks open"
