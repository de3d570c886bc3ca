"""The command line. Thin: every command is a function of ``commands/``, every mistake of the user one sentence."""

from __future__ import annotations

import errno
import os
import sys

import typer

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # threads of a library, on cores we have other use for
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are folders: nothing is ever fetched behind the user's back

from seedbed.commands import config, demo, env, evaluate, look, stage1, train
from seedbed.train.interrupt import Stopped
from seedbed.types import UserError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Train language-model agents with SEED, compare fairly, show what was run.",
)
app.add_typer(config.app, name="config")
app.add_typer(env.app, name="env")
for function in (
    demo.demo,
    stage1.collect,
    stage1.annotate,
    stage1.sft,
    train.train,
    evaluate.eval_,
    evaluate.export,
    look.shift,
    look.trace,
    look.report,
):
    app.command(name=function.__name__.rstrip("_"))(function)


def main() -> None:
    """Entry point: 0 done, 1 a check failed, 2 the user can mend it, 3 training broke, 130 interrupted."""
    from seedbed.train.update import NonFinite  # noqa: PLC0415 - torch

    try:
        app()
    except UserError as error:
        _say(f"error: {error}", 2)
    except Stopped as stop:
        _say(str(stop), 130)
    except KeyboardInterrupt:
        _say("interrupted; what was saved before is intact, go on with --resume", 130)
    except NonFinite as error:
        _say(
            f"training stopped: {error}. The step was not taken; go on from the last checkpoint with a lower train.lr",
            3,
        )
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _say(
            f"error: the disk is full ({error.filename or 'while writing'}): free some space, then go on with "
            "--resume; what was saved before is intact",
            2,
        )


def _say(text: str, status: int) -> None:
    print(text, file=sys.stderr)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
