"""``seedbed track``: what is done of a track, judged from its artefacts alone, and the next step of it."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seedbed.tracks.base import Finding, Step, next_step, states
from seedbed.train.interrupt import Stopped
from seedbed.types import UserError

TRACKS = ("mechanism", "smoke", "strict")
_MARK = "track.json"  #: whose folder it is: steps remove and make again what is in it
_STYLE = {"done": "green", "open": "yellow", "failed": "red"}
_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)


def track(
    name: Annotated[str, typer.Argument(metavar="NAME", help="mechanism, smoke or strict")],
    directory: Annotated[Path | None, typer.Option("--dir", help="its folder; default runs/track-NAME")] = None,
    one: Annotated[bool, typer.Option("--next", help="make the first step that is not done")] = False,
    every: Annotated[bool, typer.Option("--all", help="make every step that is not done, in order")] = False,
    preset: Annotated[
        list[str] | None, typer.Option(help="strict: what is reproduced, e.g. alfworld and qwen2.5-3b")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print states and evidence as JSON")] = False,
) -> None:
    """Show the steps of a track, each checked against its artefacts anew; make the next one, or all.

    Exit status: 1 if a step failed, else 0, open steps or not. A step that was interrupted is made again.

    Examples: seedbed track mechanism --all; seedbed track smoke --next; seedbed track strict --preset alfworld --preset
    qwen2.5-3b --all
    """
    if one and every:
        raise UserError("give --next or --all, not both")
    if preset and name != "strict":
        raise UserError(f"track {name!r} takes no --preset: it is made with the model that ships with seedbed")
    steps, folder = load(name), directory or Path(f"runs/track-{name}")
    torch.set_num_threads(1)
    if one or every or preset:
        claim(folder, name)
    if preset:
        importlib.import_module("seedbed.tracks.strict").begin(folder, preset)
    if one or every:
        make(steps, folder, name, every)
    elif folder.is_dir():
        belongs(folder, name)
    found = states(steps, folder)
    if as_json:
        typer.echo(json.dumps(as_data(steps, found, folder, name), indent=1))
    else:
        show(steps, found, folder, name)
    if any(finding.state == "failed" for finding in found.values()):
        raise typer.Exit(1)


def load(name: str) -> Sequence[Step]:
    """The steps of a track. Raises ``UserError`` for an unknown name."""
    if name not in TRACKS:
        raise UserError(f"unknown track {name!r}: choose one of {', '.join(TRACKS)}")
    try:
        return importlib.import_module(f"seedbed.tracks.{name}").STEPS
    except ModuleNotFoundError as error:
        if error.name != f"seedbed.tracks.{name}":
            raise
        raise UserError(f"the track {name!r} is not part of this version of seedbed: update it") from error


def make(steps: Sequence[Step], folder: Path, name: str, every: bool) -> None:
    """Run the next step, or one after the other until none is left or one does not end done."""
    again = f"go on with: seedbed track {name} --dir {folder} --next (or --all)"
    while step := next_step(steps, folder):
        _err.print(f"making {step.name}: {step.title}", markup=False, soft_wrap=True)
        try:
            step.run(folder)
        except (Stopped, KeyboardInterrupt) as stop:
            raise Stopped(f"stopped in step {step.name}, which will be made again; {again}") from stop
        if not every or states(steps, folder)[step.name].state != "done":
            break
    found = states(steps, folder)
    for step in steps:
        if found[step.name].state != "done" and (command := step.command(folder)):
            _err.print(f"{step.name} is yours to do: {command}", markup=False, soft_wrap=True)


def claim(folder: Path, name: str) -> None:
    """Mark a new or empty folder as the track's. Raises ``UserError`` for a folder of something else."""
    if folder.is_dir() and any(os.scandir(folder)):
        belongs(folder, name)
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).write_text(json.dumps({"track": name}) + "\n", "utf-8")


def belongs(folder: Path, name: str) -> None:
    """Raises ``UserError`` unless ``folder`` is one of track ``name``: what is in it would be replaced."""
    try:
        owner = json.loads((folder / _MARK).read_text("utf-8"))["track"]
    except (OSError, ValueError, KeyError, TypeError):
        owner = None
    if owner != name:
        what = f"that of track {owner!r}" if owner in TRACKS else f"no folder of a track (it lacks {_MARK})"
        raise UserError(f"{folder} is {what}: name another one with --dir")


def as_data(steps: Sequence[Step], found: dict[str, Finding], folder: Path, name: str) -> dict[str, Any]:
    """Everything that the table shows and the evidence, JSON-able."""
    rows = [
        {
            "step": step.name,
            "title": step.title,
            "done_when": step.done_when,
            "needs": list(step.needs),
            "state": found[step.name].state,
            "why": found[step.name].why,
            "evidence": found[step.name].evidence,
            "command": step.command(folder),
        }
        for step in steps
    ]
    return {"track": name, "folder": str(folder), "steps": rows}


def show(steps: Sequence[Step], found: dict[str, Finding], folder: Path, name: str) -> None:
    """The table, and what to type next."""
    table = Table(title=f"track {name} in {folder}", title_justify="left")
    for column in ("step", "what one knows after it", "state", "why"):
        table.add_column(column, no_wrap=column in ("step", "state"))
    for number, step in enumerate(steps, 1):
        finding = found[step.name]
        state = Text(finding.state, _STYLE[finding.state])
        table.add_row(f"{number} {step.name}", Text(step.title), state, Text(finding.why))
    _out.print(table)
    undone = [step for step in steps if found[step.name].state != "done"]
    if not undone:
        _out.print(f"all {len(steps)} steps are done")
    elif command := undone[0].command(folder):
        _out.print(f"next, yours to do: {command}", markup=False, soft_wrap=True)
    else:
        _out.print(
            f"{len(undone)} of {len(steps)} steps are not done; next: seedbed track {name} --dir {folder} --next",
            markup=False,
            soft_wrap=True,
        )
