"""``seedbed collect | annotate | sft``: Stage 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from seedbed.commands.options import ConfigOption, Overrides, Threads, prepare
from seedbed.config import load_config
from seedbed.track.run import Run
from seedbed.train import annotate as annotating
from seedbed.train import collect as collecting
from seedbed.train import sft as tuning
from seedbed.train.model import load_engine, load_renderer
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
                line,
                completed=done,
                total=total,
                description="collect" if success is None else f"collect, success {success:.0%}",
            ),
        )
    by = "rules" if settings.env.name == "alfworld" else "policy"  # the rules know household games only
    _out.print(f"trajectories in {run.trajectories}; next: seedbed annotate {run.path} --by {by}")


def annotate(
    directory: Annotated[Path, typer.Argument(help="a collect run")],
    overrides: Overrides = None,
    config: Annotated[
        str | None, typer.Option("--config", "-c", help="preset or YAML file whose annotate section is used")
    ] = None,
    by: Annotated[str | None, typer.Option(help="openai (any compatible server), policy or rules")] = None,
    model: Annotated[str | None, typer.Option(help="openai: model name, default OPENAI_MODEL or glm-5.2")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="openai: address, default OPENAI_BASE_URL; the key comes from OPENAI_API_KEY")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="openai: calls at a time")] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(help="openai: stop before more tokens, in and out, as estimated")
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option(help="openai: stop before more dollars, as estimated (annotate.price_in, price_out)")
    ] = None,
    threads: Threads = 1,
) -> None:
    """Write a hindsight skill for every collected trajectory. Run it again if interrupted: nothing is paid twice.

    Example: seedbed annotate runs/collect --by openai --model glm-5.2 --base-url http://localhost:8000/v1
    """
    run = Run.open(directory, "collect")
    options = dict(
        by=by,
        model=model,
        base_url=base_url,
        concurrency=concurrency,
        budget_tokens=budget_tokens,
        budget_usd=budget_usd,
    )
    named = annotating.settings_from_environment() | section(config, "annotate")
    named |= {name: value for name, value in options.items() if value is not None}
    settings = prepare(
        str(run.path / "config.resolved.yaml"),
        [*(f"annotate.{name}={json.dumps(value)}" for name, value in named.items()), *(overrides or [])],
        threads,
    )
    with bar() as progress:
        line = progress.add_task("annotate", total=None)
        summary = annotating.annotate(
            run,
            settings,
            settings.annotate.by,
            lambda done, total, valid: progress.update(
                line, completed=done, total=total, description=f"annotate, {valid} valid"
            ),
        )
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(summary["statuses"].items()))
    _out.print(f"{summary['annotated']} of {summary['trajectories']} trajectories annotated: {statuses}")
    if "calls" in summary:
        _out.print(annotating.spent(summary))
    _out.print(f"skills in {run.skills}; next: seedbed sft {run.path} --out runs/sft")


def sft(
    collected: Annotated[Path | None, typer.Argument(help="an annotated collect run")] = None,
    overrides: Overrides = None,
    config: ConfigOption = None,
    out: Out = None,
    resume: Resume = None,
    measure: Annotated[bool, typer.Option(help="measure both roles before and after")] = True,
    rows_only: Annotated[bool, typer.Option("--rows-only", help="write the training set and stop; no weights")] = False,
    threads: Threads = 1,
) -> None:
    """Fine-tune the policy to write the skills itself, and measure acting and parse rate before and after.

    Examples: seedbed sft runs/collect --out runs/sft; seedbed sft runs/collect --rows-only --out runs/sft, then
    seedbed sft --resume runs/sft
    """
    if collected is None and resume is None:
        raise UserError("name the annotated collect run, e.g. seedbed sft runs/collect --out runs/sft")
    if resume and collected is None:
        collected = resume / Run.open(resume, "sft").manifest["collect_dir"]
    run, settings = open_run("sft", overrides, config, out, resume, threads, origin=collected)
    if not Run.open(collected, "collect").skills.exists():
        raise UserError(f"{collected} holds no skills: run seedbed annotate {collected} first")
    if rows_only:
        tuning.build_set(run, settings, Run.open(collected, "collect"), load_renderer(settings.model))
        _print_set(run)
        return
    before = tuning.measure(*load_engine(settings.model), settings) if measure else None
    with bar() as progress:
        line = progress.add_task("sft", total=settings.sft.epochs)
        tuning.fine_tune(
            run,
            settings,
            Run.open(collected, "collect"),
            resume=resume is not None,
            report=lambda row: progress.update(line, completed=row["update"], description=f"sft, {epoch_line(row)}"),
        )
    checkpoint = latest_checkpoint(run.checkpoints)
    _print_set(run)
    best = json.loads((run.path / "best.json").read_text("utf-8"))
    if best["update"] != settings.sft.epochs:
        _out.print(f"the best on held-out episodes is {run.path / best['checkpoint']}: {epoch_line(best)}")
    if measure:
        after = tuning.measure(*load_engine(settings.model.model_copy(update={"path": str(checkpoint)})), settings)
        run.write_json("stage1.json", {"before": before, "after": after})
        for name, m in (("before", before), ("after", after)):
            _out.print(
                f"{name:>6}: acting success {m['acting_success']:.1%} (T=1, {m['episodes']} episodes), "
                f"analyzer parse rate {m['parse_rate']:.1%}"
                + ("" if m["kind_agreement"] is None else f", of the right kind {m['kind_agreement']:.1%}")
            )
        if after["parse_rate"] < 0.5:
            _out.print("[yellow]warning: the analyzer does not parse; SEED from here would silently be GRPO[/]")
    _out.print(f"policy in {checkpoint / 'policy'}; next: seedbed train model.path={checkpoint} --out runs/seed")


def _print_set(run: Run) -> None:
    rows = json.loads((run.path / "sft_set.json").read_text("utf-8"))
    tokens, dropped = rows["tokens"], len(rows["dropped_too_long"])
    _out.print(
        f"{rows['rows']['train']} rows to train, {rows['rows']['validation']} held out by task, at most "
        f"{tokens['longest']} of {tokens['limit']} tokens, {dropped} left out for their length; for other trainers: "
        f"{', '.join(rows['chats'])}"
        + ("" if any(name.endswith(".parquet") for name in rows["chats"]) else " (Parquet too with seedbed[search])")
    )


def epoch_line(row: dict[str, float | None]) -> str:
    """One epoch of sft in a line; what was not measured is left out."""
    parts = [f"loss {row['loss']:.3f}"]
    if row["validation_loss"] is not None:
        parts.append(f"held-out {row['validation_loss']:.3f}")
    if row["parse_rate"] is not None:
        parts.append(f"parses {row['parse_rate']:.0%}")
    if row["kind_agreement"] is not None:
        parts.append(f"right kind {row['kind_agreement']:.0%}")
    return ", ".join(parts)


def section(source: str | None, name: str) -> dict[str, object]:
    """What a preset or file sets in one section. Raises ``UserError`` if that is nothing: the user expects more."""
    if source is None:
        return {}
    settings = getattr(load_config(source), name)
    if not settings.model_fields_set:
        raise UserError(f"config {source!r} sets nothing in its section {name}: the run's other settings are fixed")
    return {key: getattr(settings, key) for key in settings.model_fields_set}


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
