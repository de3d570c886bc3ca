"""``seedbed bench``: engines measured against the official ones; the other benchmarks are files of their own."""

from __future__ import annotations

import json
import lzma
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from seedbed.commands.bench_memory import memory
from seedbed.commands.bench_retriever import retriever
from seedbed.commands.bench_webshop import webshop
from seedbed.commands.repeat import repeat
from seedbed.envs.alfworld import official, parity
from seedbed.envs.alfworld.data import SIZES, find_games
from seedbed.types import UserError

app = typer.Typer(no_args_is_help=True, help="Measure environments.")
_out = Console(highlight=False, soft_wrap=True)


@app.command()
def env(
    name: Annotated[str, typer.Argument(help="environment with an official counterpart")] = "alfworld",
    games: Annotated[int, typer.Option(min=1, help="games over all splits and task kinds")] = 300,
    steps: Annotated[int, typer.Option(min=1, help="random admissible commands a game")] = 30,
    split: Annotated[list[str] | None, typer.Option(help="only these splits")] = None,
    seed: Annotated[int, typer.Option(help="draws games and commands")] = 0,
    out: Annotated[Path | None, typer.Option(help="write the figures as JSON")] = None,
    record: Annotated[Path | None, typer.Option(help="write what the official engine said (.json.xz)")] = None,
) -> None:
    """Play the same walks on the official engine and on ours: is everything equal, and how much faster is it?

    Needs the extra 'alfworld' and the game files. 300 games took 34 minutes of CPU and 1.6 GiB, nearly all official.
    Exits with status 1 at any difference. Example: seedbed bench env alfworld --games 300 --out parity.json
    """
    if name != "alfworld":
        raise UserError(f"there is no official engine to compare environment {name!r} with; known: alfworld")
    files, splits = find_games(), tuple(split or SIZES)
    if unknown := [s for s in splits if s not in SIZES]:
        raise UserError(f"--split {unknown[0]!r} is no split with game files; use one of {', '.join(SIZES)}")
    walks, tally = [], parity.Tally()
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("official, then native", total=2 * games)
        for walk, tally in parity.compare(files, games, steps, seed, splits):  # noqa: B007 - the last one counts
            walks.append(walk)
            progress.update(bar, advance=1)
    walks = walks[: tally.games]
    _print(tally)
    if record:
        with lzma.open(record, "wt", encoding="utf-8") as file:
            json.dump(walks, file)
    if out:
        kinds = sorted({f"{w['game'].partition('/')[0]}/{parity.family(w['game'])}" for w in walks})
        facts = {"seed": seed, "splits_and_kinds": kinds, "won_steps": sum(s[5] for w in walks for s in w["steps"])}
        ratios = {"load_ratio": tally.load_ratio, "step_ratio": tally.step_ratio}
        machine = {"python": platform.python_version(), "cpu": _cpu(), **official.versions()}
        out.write_text(json.dumps({**asdict(tally), **ratios, **facts, "machine": machine}, indent=1) + "\n", "utf-8")
    if not tally.exact:
        raise typer.Exit(1)


def _print(tally: parity.Tally) -> None:
    for line in tally.differences:
        _out.print(f"different: {line}", markup=False)
    for what, equal in tally.equal.items():
        _out.print(f"{what:>10}: {equal} of {tally.games if what == 'first' else tally.steps} equal")
    for what, count, theirs, ours, ratio in (
        ("load+reset", tally.games, tally.official_load, tally.native_load, tally.load_ratio),
        ("step", tally.steps, tally.official_step, tally.native_step, tally.step_ratio),
    ):
        _out.print(
            f"{what:>10}: official {1000 * theirs / count:.2f} ms, native {1000 * ours / count:.4f} ms of CPU, "
            f"{ratio:,.0f} times as fast"
        )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


for function in (memory, repeat, retriever, webshop):
    app.command()(function)
