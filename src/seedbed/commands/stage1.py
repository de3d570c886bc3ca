"""``seedbed collect | annotate | sft``: Stage 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from seedbed.commands.options import ConfigOption, Overrides, Threads, prepare
from seedbed.track.run import Run
from seedbed.train import annotate as annotating
from seedbed.train import collect as collecting
from seedbed.train import sft as tuning
from seedbed.train.model import load_engine
from seedbed.train.state import latest_checkpoint
from seedbed.types import UserError

_out = Console()
Out = Annotated[Path | None, typer.Option(help="new run directory")]
Resume = Annotated[Path | None, typer.Option(help="go on with this run directory (its own settings are used)")]


def collect(
    overrides: Overrides = None,
    config: ConfigOption = None,
    out: Out = None,
    resume: Resume = None,
    threads: Threads = 1,
) -> None:
    """Play a balanced draw of training tasks with the base policy.

    Example: seedbed collect -c tiny --out runs/collect
    """
    run, settings = open_run("collect", overrides, config, out, resume, threads)
    with bar() as progress:
        line = progress.add_task("collect", total=None)
        collecting.collect(
            run,
            settings,
            lambda done, total, success: progress.update(
                line, completed=done, total=total, description=f"collect, success {success:.0%}"
            ),
        )
    _out.print(f"trajectories in {run.trajectories}; next: seedbed annotate {run.path} --by rules")


def annotate(
    directory: Annotated[Path, typer.Argument(help="a collect run")],
    by: Annotated[str, typer.Option(help="rules, policy or openai")] = "rules",
    model: Annotated[str, typer.Option(help="openai: model name")] = "glm-5.2",
    base_url: Annotated[
        str | None, typer.Option(help="openai: address of a compatible server; the key comes from OPENAI_API_KEY")
    ] = None,
    concurrency: Annotated[int, typer.Option(help="openai: calls at a time")] = 8,
    threads: Threads = 1,
) -> None:
    """Write a hindsight skill for every collected trajectory. Run it again if interrupted: nothing is asked twice.

    Example: seedbed annotate runs/collect --by openai --model glm-5.2 --base-url http://localhost:8000/v1
    """
    prepare(None, None, threads)
    run = Run.open(directory, "collect")
    if by == "openai" and not base_url:
        raise UserError("--by openai needs --base-url: episodes are sent nowhere that was not named")
    external = {"model": model, "base_url": base_url, "concurrency": concurrency} if by == "openai" else {}
    with bar() as progress:
        line = progress.add_task("annotate", total=None)
        annotating.annotate(
            run,
            run.config,
            by,
            lambda done, total, valid: progress.update(
                line, completed=done, total=total, description=f"annotate, {valid} valid"
            ),
            **external,
        )
    _out.print(f"skills in {run.skills}; next: seedbed sft {run.path} --out runs/sft")


def sft(
    collected: Annotated[Path | None, typer.Argument(help="an annotated collect run")] = None,
    overrides: Overrides = None,
    config: ConfigOption = None,
    out: Out = None,
    resume: Resume = None,
    measure: Annotated[bool, typer.Option(help="measure both roles before and after")] = True,
    threads: Threads = 1,
) -> None:
    """Fine-tune the policy to write the skills itself, and measure acting and parse rate before and after.

    Example: seedbed sft runs/collect --out runs/sft
    """
    if collected is None and resume is None:
        raise UserError("name the annotated collect run, e.g. seedbed sft runs/collect --out runs/sft")
    if resume and collected is None:
        collected = Path(Run.open(resume, "sft").manifest["collect_dir"])
    run, settings = open_run("sft", overrides, config, out, resume, threads, origin=collected)
    if not Run.open(collected, "collect").skills.exists():
        raise UserError(f"{collected} holds no skills: run seedbed annotate {collected} first")
    before = tuning.measure(*load_engine(settings.model), settings) if measure else None
    with bar() as progress:
        line = progress.add_task("sft", total=settings.sft.epochs)
        tuning.fine_tune(
            run,
            settings,
            Run.open(collected, "collect"),
            resume=resume is not None,
            report=lambda row: progress.update(
                line,
                completed=row["update"],
                description=f"sft, loss {row['loss']:.3f}, held-out {row['validation_loss']:.3f}",
            ),
        )
    checkpoint = latest_checkpoint(run.checkpoints)
    if measure:
        after = tuning.measure(*load_engine(settings.model.model_copy(update={"path": str(checkpoint)})), settings)
        run.write_json("stage1.json", {"before": before, "after": after})
        for name, m in (("before", before), ("after", after)):
            _out.print(
                f"{name:>6}: acting success {m['acting_success']:.1%} (T=1, {m['episodes']} episodes), "
                f"analyzer parse rate {m['parse_rate']:.1%}"
            )
        if after["parse_rate"] < 0.5:
            _out.print("[yellow]warning: the analyzer does not parse; SEED from here would silently be GRPO[/]")
    _out.print(f"policy in {checkpoint / 'policy'}; next: seedbed train model.path={checkpoint} --out runs/seed")


def open_run(
    kind: str,
    overrides: list[str] | None,
    config: str | None,
    out: Path | None,
    resume: Path | None,
    threads: int,
    origin: Path | None = None,
) -> tuple[Run, object]:
    """A new run from the options, or the one to resume with its own settings."""
    if (out is None) == (resume is None):
        raise UserError(f"give either --out for a new {kind} run or --resume for an old one")
    if resume is not None:
        if overrides or config:
            raise UserError(
                "--resume goes on with the run's own settings: drop the config and KEY=VALUE arguments, "
                "or start a new run with --out"
            )
        run = Run.open(resume, kind)
        prepare(None, None, threads)
        return run, run.config
    settings = prepare(config, overrides, threads, origin)
    return Run.new(out), settings


def bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=_out,
    )
