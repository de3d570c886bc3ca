"""``seedbed shift``, ``trace`` and ``report``: look at what a run left on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.types import UserError


def shift(
    run: Annotated[Path, typer.Argument(help="Directory of a train run.")],
    update: Annotated[int | None, typer.Option(help="Update to look at; without it the last with scores.")] = None,
    trajectory: Annotated[
        str | None, typer.Option(help="Episode id; without it the one the skill changes most.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many of the most changed tokens to list.")] = 15,
) -> None:
    """Show the same sampled tokens with and without the hindsight skill in the prompt.

    Example: seedbed shift runs/demo/seed --top 5
    """
    from seedbed.view.rundir import RunDirectory  # noqa: PLC0415
    from seedbed.view.shift import print_shift  # noqa: PLC0415

    print_shift(Console(), RunDirectory.open(run), update, trajectory, top)


def trace(
    run: Annotated[Path, typer.Argument(help="Directory of an sft run.")],
    sample: Annotated[int | None, typer.Argument(min=0, help="Index of a Stage-1 row.")] = None,
    back: Annotated[str | None, typer.Option("--from", help="id of an episode or task: which rows came of it?")] = None,
    check: Annotated[int | None, typer.Option(min=1, help="follow so many random rows and say if all hold")] = None,
) -> None:
    """Show where a Stage-1 row comes from: skill, episode and task, each checked against its file; or the way back.

    Examples: seedbed trace runs/demo/sft 0; seedbed trace runs/demo/sft --check 50
    """
    from seedbed.view.trace import check_traces, print_back, print_trace  # noqa: PLC0415

    if sum(choice is not None for choice in (sample, back, check)) != 1:
        raise UserError("give one of: the index of a row, --from ID, --check COUNT")
    if sample is not None:
        print_trace(Console(), run, sample)
    elif back is not None:
        print_back(Console(), run, back)
    else:
        typer.echo(f"{check_traces(run, check)} rows followed to their task, every hash and text agrees")


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of a train run or of a demo.")],
) -> None:
    """Write report.html into the directory: one page that needs no network and runs no script.

    Example: seedbed report runs/demo
    """
    from seedbed.view.report import write_report  # noqa: PLC0415

    typer.echo(write_report(directory))
