"""``seedbed demo``: the whole method on two CPU cores, from a fumbling base policy to two trained arms and a report.

    base -> collect -> annotate (rules) -> SFT -> GRPO arm and SEED arm from the same start -> evaluation -> report.html

The arms are processes of their own and draw the same tasks with the same random numbers. Nothing is downloaded.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from seedbed.config import Config, load_config
from seedbed.types import UserError

_out = Console(highlight=False)
_TEMPERATURES = {1.0: 2, 0.4: 1}  #: episodes a task; the main one twice, since a single pass is noisy
_ANALYSED = 60  #: tasks on which the parse rate is measured
STAGES = {"base": "base policy", "sft": "after Stage 1", "grpo": "GRPO", "seed": "SEED"}


def demo(
    out: Annotated[Path | None, typer.Option(help="new directory; default runs/demo, or the next free number")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="settings for all stages, e.g. seed=7 algo.coefficient=1"),
    ] = None,
) -> None:
    """Run the whole chain on the tiny model: Stage 1, then GRPO and SEED from the same start, then a report.

    Example: seedbed demo --out runs/demo-7 seed=7
    """
    out = out or next(p for i in range(1, 10_000) if not (p := Path(f"runs/demo{'' if i == 1 else f'-{i}'}")).exists())
    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty: choose another --out or remove it")
    config = load_config("tiny", overrides or [])
    cores = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 2)
    _out.print(
        f"[bold]seedbed demo[/]: {len(STAGES)} policies, panel {config.env.panel}, {cores} process(es), "
        f"everything in {out}",
        soft_wrap=True,
    )
    begin, seconds = time.perf_counter(), {}
    pool = ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn"), initializer=_quiet)
    try:
        stages = _chain(pool, config, out, seconds)
    except BaseException:  # show a failure, or stop, at once and not after the other worker
        for worker in multiprocessing.active_children():
            worker.kill()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    seconds["total"] = time.perf_counter() - begin
    _finish(out, stages, seconds)


def _chain(
    pool: ProcessPoolExecutor, config: Config, out: Path, seconds: dict[str, float]
) -> dict[str, dict[str, Any]]:
    """All stages; ``seconds`` gets the wall time of the two halves."""

    def spend(name: str, *jobs: Future[Any]) -> list[Any]:
        start = time.perf_counter()
        for job in as_completed(jobs):
            job.result()
        seconds[name] = time.perf_counter() - start
        return [job.result() for job in jobs]

    base, stage1 = spend(
        "base and Stage 1", pool.submit(measure, "base", "tiny", config, out), pool.submit(run_stage1, config, out)
    )
    start = stage1["checkpoint"]
    arms = [pool.submit(run_arm, name, start, config, out) for name in ("grpo", "seed")]
    after = pool.submit(measure, "sft", start, config, out)  # fills the first free process
    grpo, seed, sft = spend("arms", *arms, after)
    return {"base": base, "sft": sft, "grpo": grpo, "seed": seed}


def run_stage1(config: Config, out: Path) -> dict[str, Any]:
    """Collect with the base policy, annotate by rules, fine-tune."""
    from seedbed.commands.stage1 import epoch_line  # noqa: PLC0415
    from seedbed.track.run import Run  # noqa: PLC0415 - torch is imported in the workers only
    from seedbed.train import annotate, collect, sft  # noqa: PLC0415
    from seedbed.train.state import latest_checkpoint  # noqa: PLC0415

    collected = Run.new(out / "collect")
    collect.collect(
        collected,
        config,
        _every(120, _collected),
    )
    annotate.annotate(collected, config, "rules")
    _say("annotate", f"skills written by rules in {collected.skills}")
    run = Run.new(out / "sft")
    sft.fine_tune(
        run,
        config,
        collected,
        report=lambda row: _say("sft", f"epoch {row['update']}/{config.sft.epochs}, {epoch_line(row)}"),
    )
    return {"checkpoint": str(latest_checkpoint(run.checkpoints))}


def run_arm(name: str, start: str, config: Config, out: Path) -> dict[str, Any]:
    """Train one arm and measure it."""
    from seedbed.commands.train import line  # noqa: PLC0415
    from seedbed.config import build  # noqa: PLC0415
    from seedbed.track.run import Run  # noqa: PLC0415
    from seedbed.train.rl import Trainer  # noqa: PLC0415
    from seedbed.train.state import latest_checkpoint  # noqa: PLC0415

    data = config.model_dump()
    data["algo"] = {
        k: v for k, v in data["algo"].items() if name == "seed" or k not in ("coefficient", "sharpness")
    } | {"name": name}
    data["model"]["path"] = start
    arm = build(data, "the demo")
    run = Run.new(out / name)
    Trainer(run, arm).train(lambda row: _say(name, line(row, arm.train.updates)))
    return {**measure(name, str(latest_checkpoint(run.checkpoints)), config, out), "run": name}


def measure(name: str, model: str, config: Config, out: Path) -> dict[str, Any]:
    """Acting on the panel at both temperatures, and how many of its own trajectories the policy can analyse."""
    from seedbed.envs.base import environment_from  # noqa: PLC0415
    from seedbed.envs.panels import load_panel  # noqa: PLC0415
    from seedbed.evaluate.run import evaluate  # noqa: PLC0415
    from seedbed.track.store import replace_file  # noqa: PLC0415
    from seedbed.train import sft  # noqa: PLC0415
    from seedbed.train.model import load_engine, model_facts  # noqa: PLC0415

    settings = config.model.model_copy(update={"path": model})
    engine, renderer = load_engine(settings)
    environment, panel = environment_from(config.env), load_panel(config.env.panel)
    paths = []
    for temperature, attempts in _TEMPERATURES.items():
        result = evaluate(
            engine,
            environment,
            renderer,
            config.rollout,
            panel,
            attempts=attempts,
            temperature=temperature,
            seed=config.seed,
        )
        engine.release()
        paths.append(f"eval/{name}_t{temperature:g}.json")
        text = json.dumps({"label": STAGES[name], **model_facts(settings, renderer), **result}, indent=1) + "\n"
        replace_file(out / paths[-1], lambda p, text=text: p.write_text(text, "utf-8"))
    both = sft.measure(engine, renderer, config, tasks=_ANALYSED)
    _say(name, f"measured: analyzer parse rate {both['parse_rate']:.0%}")
    return {
        "name": name,
        "label": STAGES[name],
        "evals": paths,
        "parse_rate": both["parse_rate"],
        "run": "sft" if name == "sft" else None,
    }


def _finish(out: Path, stages: dict[str, dict[str, Any]], seconds: dict[str, float]) -> None:
    from seedbed.view.report import write_report  # noqa: PLC0415
    from seedbed.view.verdict import differences, verdict  # noqa: PLC0415

    ordered = [stages[name] for name in STAGES]
    evals = {s["name"]: [json.loads((out / path).read_text("utf-8")) for path in s["evals"]] for s in ordered}
    entropy = {name: evals[name][0]["summary"]["entropy"] for name in STAGES}
    sentences = verdict(evals["grpo"], evals["seed"], entropy)
    gaps = [{"temperature": r["temperature"], **d.as_json()} for r, d in differences(evals["grpo"], evals["seed"])]
    record = {"stages": ordered, "difference": gaps, "sentences": sentences, "seconds": seconds}
    (out / "demo.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    table = Table(
        title=f"success on panel {evals['base'][0]['panel']} "
        f"({evals['base'][0]['summary']['n_tasks']} held-out tasks), 95 % intervals"
    )
    for column in ("policy", "T=1", "T=0.4", "macro T=1", "entropy T=1", "valid", "analyzer parses"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for stage in ordered:
        hot, cold = (e["summary"] for e in evals[stage["name"]])
        table.add_row(
            stage["label"],
            _rate(hot["micro"]),
            _rate(cold["micro"]),
            f"{hot['macro']['value']:.1%}",
            f"{hot['entropy']:.3f}",
            f"{hot['valid_action_rate']:.0%}",
            f"{stage['parse_rate']:.0%}",
        )
    _out.print(table)
    for sentence in sentences:
        _out.print(f"- {sentence}")
    _out.print(
        f"report: {write_report(out)}   "
        f"look closer: seedbed shift {out / 'seed'} | seedbed trace {out / 'sft'} 0   ({seconds['total']:.0f} s)"
    )


def _rate(estimate: dict[str, float]) -> str:
    return f"{estimate['value']:.1%} [{100 * estimate['low']:.0f}, {100 * estimate['high']:.0f}]"


def _say(who: str, text: str) -> None:
    """A line from a worker, whole, so that two of them do not mix."""
    _out.print(f"[dim]{who:>8}[/] {text}", soft_wrap=True)


def _collected(done: int, total: int, success: float | None) -> None:
    _say("collect", f"{done}/{total} episodes" + ("" if success is None else f", success {success:.0%}"))


def _every(step: int, report: Callable[..., None]) -> Callable[..., None]:
    """Report only when ``done`` passes a multiple of ``step``."""
    return lambda done, *rest: report(done, *rest) if done % step == 0 else None


def _quiet() -> None:
    """A worker: one thread; Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
