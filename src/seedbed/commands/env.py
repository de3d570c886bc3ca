"""``seedbed env``: play a game by hand, see what a visual model sees, replay stored walkthroughs."""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TimeElapsedColumn

from seedbed.envs.base import Environment, Game, make_environment
from seedbed.types import Observation, Task, UserError

app = typer.Typer(no_args_is_help=True, help="Play environments and check them.")

_Env = Annotated[str, typer.Argument(help="Registered environment, or module:Class of your own.")]


@app.command()
def play(
    env: _Env = "alfworld",
    split: Annotated[
        str | None, typer.Option(help="Split to draw the task from (default: generated_valid of alfworld, else train).")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Task id; without it one is drawn.")] = None,
    seed: Annotated[int | None, typer.Option(help="Draws the task; without it every call draws another.")] = None,
) -> None:
    """Play one game in the terminal. Type an action or its number; 'quit' leaves."""
    console = Console()
    environment = make_environment(env)
    chosen = _choose(environment, split or ("generated_valid" if env == "alfworld" else "train"), task, seed)
    game = environment.open(chosen)
    console.print(f"[bold]{escape(chosen.id)}[/]\n{escape(environment.wording.task)} [bold]{escape(game.goal)}[/]\n")
    steps, won = _by_hand(console, game)
    console.print(f"{'won' if won else 'not won'} after {steps} step{'' if steps == 1 else 's'}", highlight=False)


def _choose(environment: Environment, split: str, task: str | None, seed: int | None) -> Task:
    tasks = environment.tasks(split)
    if task is None:
        return random.Random(seed).choice(tasks)
    for candidate in tasks:
        if candidate.id == task:
            return candidate
    raise UserError(f"--task {task!r} is not in split {split!r} of {environment.name!r}; its first is {tasks[0].id!r}")


def _by_hand(console: Console, game: Game) -> tuple[int, bool]:
    """Steps taken and whether the game was won."""
    steps, seen = 0, game.start()
    while True:
        console.print(escape(seen.text), highlight=False)
        if seen.done:
            return steps, seen.won
        for number, action in enumerate(seen.admissible, 1):
            console.print(f"  [dim]{number:3}[/] {escape(action)}", highlight=False)
        action = _ask(console, seen)
        if action is None:
            return steps, False
        console.print(f"[dim]{escape(action)}[/]", highlight=False)
        steps, seen = steps + 1, game.step(action)


def _ask(console: Console, seen: Observation) -> str | None:
    """The action typed, by text or number; None to leave (also at the end of input)."""
    try:
        typed = console.input("> ").strip()
    except EOFError:
        console.print()
        return None
    if typed == "quit":
        return None
    if typed.isdecimal() and 1 <= int(typed) <= len(seen.admissible):
        return seen.admissible[int(typed) - 1]
    return typed


@app.command()
def image(
    env: _Env,
    task: Annotated[str, typer.Argument(help="Task id, e.g. sokoban/train/17.")],
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("level.png"),
) -> None:
    """Write the first image of a task, as a visual model sees it. Needs the extra 'visual'.

    Example: seedbed env image sokoban sokoban/train/17 --out level.png
    """
    try:
        from PIL import Image  # noqa: PLC0415 - only where it is asked for
    except ImportError as error:
        raise UserError("PNG files need Pillow: pip install 'seedbed[visual]'") from error
    environment = make_environment(env, observation="image")
    seen = environment.open(Task(task, env, "", "")).start()
    if seen.image is None:
        raise UserError(f"environment {env!r} shows no images; those that do are sokoban and ezpoints")
    try:
        Image.fromarray(seen.image).save(out, format="png")
    except OSError as error:
        raise UserError(f"--out {str(out)!r} cannot be written: {error.strerror}") from error
    typer.echo(f"{out}: {seen.image.shape[1]} x {seen.image.shape[0]} pixels")


@app.command()
def replay(
    env: _Env,
    split: Annotated[str, typer.Option(help="A split, or 'all' for every split that comes from files.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Replay only the first N games.")] = None,
) -> None:
    """Replay the stored walkthroughs. Exits with status 1 unless every game is won."""
    environment = make_environment(env)
    if not hasattr(environment, "walkthroughs"):
        raise UserError(f"environment {env!r} stores no walkthroughs to replay; play it with 'seedbed env play'")
    games = itertools.islice(environment.walkthroughs(split), limit)
    began = time.perf_counter()
    clock = time.thread_time  # CPU seconds of this thread: the figures are a core's, whatever else the machine does
    loading = stepping = 0.0
    played = steps = 0
    lost: list[str] = []
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("replay", total=limit)
        while True:
            started = clock()
            item = next(games, None)
            loaded = clock()
            loading += loaded - started
            if item is None:
                break
            task, game, commands = item
            seen = game.start()
            for command in commands:
                seen = game.step(command)
            stepping += clock() - loaded
            played, steps = played + 1, steps + len(commands)
            if not seen.won:
                lost.append(task.id)
            progress.update(bar, advance=1)
    if not played:
        raise UserError(f"split {split!r} of {env!r} has no games to replay")
    for name in lost:
        typer.echo(f"not won: {name}")
    typer.echo(
        f"load {loading:.1f} s CPU ({1000 * loading / played:.2f} ms a game), {steps} steps in "
        f"{stepping:.2f} s CPU ({steps / stepping:,.0f} steps/s), {time.perf_counter() - began:.1f} s in all"
    )
    typer.echo(f"won {played - len(lost)} / {played}")
    if lost:
        raise typer.Exit(1)
