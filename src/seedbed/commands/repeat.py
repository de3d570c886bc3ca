"""``seedbed bench repeat``: is an evaluation the same in other batches and from files in another order?"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from seedbed.commands.options import prepare
from seedbed.config import Config
from seedbed.envs.base import environment_from
from seedbed.envs.panels import Panel, load_panel
from seedbed.evaluate.players import POLICIES
from seedbed.evaluate.run import evaluate
from seedbed.evaluate.shuffled import shuffled_copy
from seedbed.train.actor import load_actor
from seedbed.types import UserError

_out = Console(highlight=False, soft_wrap=True)
_PANELS = {
    "alfworld": ("alfworld-seen-140", "alfworld-unseen-134"),
    "webshop": ("webshop-test-500", "webshop-test-128"),
    "search": ("search-7x100",),
    "sokoban": ("sokoban-128",),
    "ezpoints": ("ezpoints-128",),
}


def repeat(
    name: Annotated[str, typer.Argument(help=f"benchmark: {', '.join(_PANELS)}")],
    panel: Annotated[list[str] | None, typer.Option(help="only these panels of it")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="episodes at once the second time; the first time 256")] = 7,
    seed: Annotated[int, typer.Option(help="of the policy 'random'")] = 0,
    out: Annotated[Path | None, typer.Option(help="write scores, hashes and times as JSON")] = None,
) -> None:
    """Evaluate 'random' and 'scripted' on whole panels twice: in other batches, and from shuffled copies of the data.

    Exits with status 1 unless every episode is the same to the last character. Example: seedbed bench repeat webshop
    """
    if name not in _PANELS:
        raise UserError(f"there is no benchmark {name!r} to repeat: use one of {', '.join(_PANELS)}")
    panels = [load_panel(chosen) for chosen in panel or _PANELS[name]]
    if other := next((p for p in panels if p.env != name), None):
        raise UserError(f"--panel {other.name!r} is of environment {other.env!r}, not of {name!r}")
    runs = [(prepare(name, [f"seed={seed}", f"model.path={p}"], origin="tiny"), of) for of in panels for p in POLICIES]
    first = [_play(settings, of, 256) for settings, of in runs]
    with _shuffled(name, panels):
        again = [_play(settings, of, at_once) for settings, of in runs]
    rows = [_row(*pair) for pair in zip(first, again, strict=True)]
    for row in rows:
        low, high = row["interval"]
        _out.print(
            f"{row['panel']:>20} {row['policy']:>8}: {'same' if row['same'] else 'DIFFERENT'}, success "
            f"{row['success']:.1%} [{low:.1%}, {high:.1%}], valid {row['valid']:.1%}, faults {row['faults']}, "
            f"{row['seconds'][0]:.0f} s and {row['seconds'][1]:.0f} s"
        )
    if out:
        out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    if not all(row["same"] for row in rows):
        raise typer.Exit(1)


def _play(settings: Config, panel: Panel, at_once: int) -> tuple[dict[str, Any], float]:
    """Result and seconds. A new environment, so that it reads its data anew."""
    began = time.perf_counter()
    environment = environment_from(settings.env)
    listed = [task.id for task in environment.tasks(panel.tasks[0].split)]  # of all tasks, in order
    actor = load_actor(settings, environment)
    how = {"attempts": 1, "temperature": 0.0, "seed": settings.seed, "at_once": at_once}
    result = evaluate(actor.engine, environment, actor.renderer, actor.rollout, panel, **how)
    return result | actor.facts | {"listed": listed}, time.perf_counter() - began


def _row(first: tuple[dict[str, Any], float], again: tuple[dict[str, Any], float]) -> dict[str, Any]:
    (result, seconds), (other, seconds_again) = first, again
    summary = result["summary"]
    return {
        "panel": result["panel"],
        "policy": result["policy"],
        "same": result == other,
        "transcripts_hash": [result["transcripts_hash"], other["transcripts_hash"]],
        "success": summary["micro"]["value"],
        "interval": [summary["micro"]["low"], summary["micro"]["high"]],
        "macro": summary["macro"]["value"],
        "mean_turns": summary["mean_turns"],
        "valid": summary["valid_action_rate"],
        "faults": summary["faults"],
        "seconds": [seconds, seconds_again],
    }


@contextmanager
def _shuffled(name: str, panels: list[Panel]) -> Iterator[None]:
    """The data of a benchmark is a shuffled copy, and whatever is made of it is made anew."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="seedbed-repeat-") as folder:
        data, cache = Path(folder, "data"), Path(folder, "cache")
        data.mkdir()
        os.environ |= shuffled_copy(name, [t for p in panels for t in p.tasks], data) | {"SEEDBED_CACHE": str(cache)}
        try:
            yield
        finally:
            os.environ.clear()
            os.environ |= before
