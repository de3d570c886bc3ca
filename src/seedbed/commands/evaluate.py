"""``seedbed eval`` and ``seedbed export``: the policy alone, as deployed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from seedbed.commands.options import ConfigOption, Overrides, Threads, prepare
from seedbed.envs.base import environment_from
from seedbed.envs.panels import load_panel
from seedbed.evaluate.players import POLICIES
from seedbed.evaluate.run import evaluate, keeper
from seedbed.track.store import replace_file
from seedbed.train.actor import load_actor
from seedbed.train.model import resolve
from seedbed.types import UserError
from seedbed.view.compared import trained

_out = Console(highlight=False)
Checkpoint = Annotated[str, typer.Argument(help="a checkpoint of a run, a Hugging Face folder, or 'tiny'")]
Policy = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT",
        help="a checkpoint of a run, a Hugging Face folder, or 'tiny'; or, without any model, 'random' (legal actions "
        "by chance) or 'scripted' (a simple rule)",
    ),
]


def eval_(
    checkpoint: Policy,
    overrides: Overrides = None,
    config: ConfigOption = None,
    panel: Annotated[str | None, typer.Option(help="named list of task ids; default env.panel")] = None,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="0 is greedy; default eval.temperature")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, help="episodes a task; default eval.attempts")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="episodes played together: memory, never the result")] = 256,
    out: Annotated[Path | None, typer.Option(help="write the whole result as JSON")] = None,
    keep: Annotated[Path | None, typer.Option(help="new folder for the episodes, every prompt and token")] = None,
    threads: Threads = 1,
) -> None:
    """Play a fixed panel of held-out tasks and report success with intervals.

    Example: seedbed eval runs/seed/checkpoints/u0008 --panel household-120 --temperature 0.4 --out eval.json

    What a benchmark gives away: seedbed eval random -c webshop --panel webshop-test-500
    """
    if checkpoint in POLICIES and temperature is not None:
        raise UserError(f"--temperature means nothing to the policy {checkpoint!r}: leave it out")
    settings = prepare(config, [*(overrides or []), f"model.path={checkpoint}"], threads, origin=checkpoint)
    chosen = load_panel(panel or settings.env.panel)
    if chosen.env != settings.env.name:
        raise UserError(
            f"panel {chosen.name!r} is of environment {chosen.env!r}, not of {settings.env.name!r}: name one of its "
            "own with --panel (see: seedbed panel list)"
        )
    if out and out.is_dir():
        raise UserError(f"--out {out} is a directory: name a file in it")
    environment = environment_from(settings.env)
    actor = load_actor(settings, environment)
    if checkpoint in POLICIES:
        temperature = 0.0  # nothing is drawn from a model, so the result has no entropy
    result = evaluate(
        actor.engine,
        environment,
        actor.renderer,
        actor.rollout,
        chosen,
        attempts=settings.eval.attempts if attempts is None else attempts,
        temperature=settings.eval.temperature if temperature is None else temperature,
        seed=settings.seed,
        at_once=at_once,
        keep=keeper(keep) if keep else None,
    )
    result |= actor.facts | trained(checkpoint)
    _out.print(table(result))
    if out:
        replace_file(out, lambda p: p.write_text(json.dumps(result, indent=1) + "\n", "utf-8"))


def export(checkpoint: Checkpoint, folder: Annotated[Path, typer.Argument(help="new folder")]) -> None:
    """Write a plain Hugging Face folder that transformers loads without seedbed: the policy, no skills, no analyzer.

    Example: seedbed export runs/seed/checkpoints/u0010 my-policy
    """
    if folder.exists():
        raise UserError(f"{folder} exists: choose a new folder")
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.copytree(resolve(checkpoint), part)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    _out.print(f"policy in {folder}")


def table(result: dict) -> Table:
    """Success by kind and overall, with intervals."""
    summary = result["summary"]
    policy = result.get("policy") or f"T={result['temperature']}"
    out = Table(
        title=f"panel {result['panel']} ({summary['n_tasks']} tasks x {result['attempts']}, "
        f"{policy}, seed {result['seed']})"
    )
    for name in ("kind", "won", "success", "95 % interval"):
        out.add_column(name, justify="left" if name == "kind" else "right")
    for kind, v in summary["by_kind"].items():
        rate = "-" if v["value"] is None else f"{v['value']:.1%}"  # every episode of the kind broke
        out.add_row(kind, f"{v['k']}/{v['n']}", rate, f"{v['low']:.1%} .. {v['high']:.1%}")
    for kind in ("micro", "macro"):
        v = summary[kind]
        out.add_row(f"[bold]{kind}[/]", "", f"[bold]{v['value']:.1%}[/]", f"{v['low']:.1%} .. {v['high']:.1%}")
    out.caption = (
        f"mean length {summary['mean_turns']:.1f} turns, valid actions {summary['valid_action_rate']:.1%}, "
        f"faults {summary['faults']}"
    )
    return out
