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
from seedbed.envs.base import make_environment
from seedbed.envs.panels import load_panel
from seedbed.evaluate.run import evaluate
from seedbed.track.store import replace_file
from seedbed.train.model import load_engine, model_facts, resolve
from seedbed.types import UserError

_out = Console(highlight=False)
Checkpoint = Annotated[str, typer.Argument(help="a checkpoint of a run, a Hugging Face folder, or 'tiny'")]


def eval_(
    checkpoint: Checkpoint,
    overrides: Overrides = None,
    config: ConfigOption = None,
    panel: Annotated[str | None, typer.Option(help="named list of task ids; default env.panel")] = None,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="0 is greedy; default eval.temperature")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, help="episodes a task; default eval.attempts")] = None,
    out: Annotated[Path | None, typer.Option(help="write the whole result as JSON")] = None,
    threads: Threads = 1,
) -> None:
    """Play a fixed panel of held-out tasks and report success with intervals.

    Example: seedbed eval runs/seed/checkpoints/u0008 --panel household-120 --temperature 0.4 --out eval.json
    """
    settings = prepare(config, [*(overrides or []), f"model.path={checkpoint}"], threads, origin=checkpoint)
    chosen = load_panel(panel or settings.env.panel)
    environment = make_environment(settings.env.name, **settings.env.options)
    engine, renderer = load_engine(settings.model)
    result = evaluate(
        engine,
        environment,
        renderer,
        settings.rollout,
        chosen,
        attempts=settings.eval.attempts if attempts is None else attempts,
        temperature=settings.eval.temperature if temperature is None else temperature,
        seed=settings.seed,
    )
    result |= model_facts(settings.model, renderer)
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
    out = Table(
        title=f"panel {result['panel']} ({summary['n_tasks']} tasks x {result['attempts']}, "
        f"T={result['temperature']}, seed {result['seed']})"
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
