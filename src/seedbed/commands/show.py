"""``seedbed show``: one question about a run, answered from its directory alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    run: Annotated[Path, typer.Argument(help="Directory of any run.")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="tasks, prompts, weights, settings or claims")],
) -> None:
    """Which tasks, which prompts, which weights, which settings differ from the paper, what was claimed and on what.

    Examples: seedbed show runs/seed settings; seedbed show runs/seed claims
    """
    from seedbed.view.facts import facts  # noqa: PLC0415

    for line in facts(run, topic):
        typer.echo(line)
