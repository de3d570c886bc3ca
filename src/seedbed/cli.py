"""The command line. Thin: every command is a function of ``commands/``, every mistake of the user one sentence."""

from __future__ import annotations

import errno
import os
import sys
from typing import NoReturn

import typer

from seedbed.commands import (
    bench,
    compare,
    config,
    demo,
    doctor,
    env,
    evaluate,
    look,
    panel,
    repro,
    retriever,
    show,
    skills,
    stage1,
    topology,
    track,
    train,
)
from seedbed.train.interrupt import Stopped
from seedbed.train.update import NonFinite
from seedbed.types import UserError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Train language-model agents with SEED, compare fairly, show what was run. Start with: seedbed demo",
)
app.add_typer(config.app, name="config")
app.add_typer(env.app, name="env")
app.add_typer(panel.app, name="panel")
app.add_typer(retriever.app, name="retriever")
app.add_typer(bench.app, name="bench")
app.add_typer(skills.app, name="skills")
app.add_typer(repro.app, name="repro")
for function in (
    demo.demo,
    track.track,
    stage1.collect,
    stage1.annotate,
    stage1.sft,
    train.train,
    evaluate.eval_,
    evaluate.export,
    compare.compare,
    look.shift,
    look.trace,
    look.report,
    show.show,
    topology.topology,
    doctor.doctor,
):
    app.command(name=function.__name__.rstrip("_"))(function)


def main() -> None:
    """0 done, 1 a check failed, 2 the user can mend it, 3 training broke, 130 interrupted."""
    try:
        app(prog_name="seedbed")
    except UserError as error:
        _say(f"error: {error}", 2)
    except Stopped as stop:
        _say(str(stop), 130)
    except NonFinite as error:
        _say(
            f"training stopped: {error}. The step was not taken; go on from the last checkpoint with a lower train.lr",
            3,
        )
    except Exception as error:
        if getattr(error, "errno", None) != errno.ENOSPC and os.strerror(errno.ENOSPC) not in str(error):
            raise
        _say(  # libraries wrap the error in their own: safetensors, shutil
            "error: the disk is full: free some space and run the command again (collect, sft and train go on with "
            "--resume); what was saved before is intact",
            2,
        )


def _say(text: str, status: int) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(status)
