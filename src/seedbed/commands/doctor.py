"""``seedbed doctor``: what each benchmark has, what it lacks, and the one command that mends it."""

from __future__ import annotations

import typer
from rich.console import Console

from seedbed.envs.doctor import CHECKS, examine

_out = Console(highlight=False, soft_wrap=True)
_MARKS = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "optional": "[yellow]optional[/]"}


def doctor() -> None:
    """Say for each benchmark what is there, what is missing and the command that mends it. Changes nothing.

    Exits with status 1 if something is missing.
    """
    missing = False
    for benchmark in CHECKS:
        findings = examine(benchmark)
        _out.print(f"[bold]{benchmark}[/]{'' if findings else ' is not part of this version'}")
        for finding in findings:
            missing |= finding.state == "missing"
            _out.print(f"  {_MARKS[finding.state]} {finding.part}: ", end="")
            _out.print(finding.detail, markup=False)
            if finding.mend:
                _out.print(f"    mend: {finding.mend}", markup=False)
    if missing:
        raise typer.Exit(1)
