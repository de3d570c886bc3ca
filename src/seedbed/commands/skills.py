"""``seedbed skills``: are the skills of a run fit to train on, and do they help?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seedbed.commands.options import Threads, prepare
from seedbed.commands.stage1 import bar
from seedbed.envs.base import Environment, environment_from
from seedbed.envs.panels import load_panel, panel_names
from seedbed.skills.audit import audit as audit_skills
from seedbed.skills.execute import draw_skills, execution_check
from seedbed.track.run import Run
from seedbed.track.store import parts, read_part, read_skills
from seedbed.train.model import load_engine
from seedbed.types import Skill, Task, Trajectory, UserError
from seedbed.view.text import visible

app = typer.Typer(no_args_is_help=True, help="Look at hindsight skills.")
_out = Console(highlight=False)
_WORDS = "{p5:.0f} to {p95:.0f}, median {median:.0f}, most {max:.0f}"


@app.command()
def audit(
    directory: Annotated[Path, typer.Argument(help="an annotated collect run, or a train run")],
    near: Annotated[float, typer.Option(min=0.05, max=1.0, help="similarity that makes two texts alike")] = 0.7,
    sample: Annotated[int, typer.Option(min=0, help="skills to print for reading")] = 6,
    execute: Annotated[int, typer.Option(min=0, help="so many skills: play their tasks with and without them")] = 0,
    attempts: Annotated[int, typer.Option(min=1, help="episodes a task and side of --execute")] = 4,
    threads: Threads = 1,
) -> None:
    """Count failures, duplicates, kinds, lengths and leaks; write audit.json into the run.

    Exits with status 1 if a skill comes from a task outside the training split or from one of an evaluation panel.
    Example: seedbed skills audit runs/collect --execute 40
    """
    prepare(None, None, threads)
    run = Run.open(directory)
    trajectories, skills = _read(run)
    config = run.config
    environment = environment_from(config.env)
    secrets, unchecked = _secrets(environment, trajectories)
    found = audit_skills(
        trajectories,
        skills,
        allowed_split=config.env.train_split,
        held_out=_held_out(config.env.name),
        instance=environment.instance_names,
        secrets=secrets,
        near=near,
        sample=sample,
    )
    found["answers_checked"] = unchecked or "yes"
    if execute:
        found["execution"] = _execute(run, environment, trajectories, skills, execute, attempts)
    run.write_json("audit.json", found)
    _print(found)
    _out.print(f"[dim]all of it in {run.path / 'audit.json'}[/]")
    if found["forbidden"]:
        raise typer.Exit(1)


def _read(run: Run) -> tuple[list[Trajectory], dict[str, Skill]]:
    if not run.skills.exists():
        raise UserError(f"{run.path} holds no skills: run seedbed annotate {run.path} first")
    trajectories = [t for name in parts(run.trajectories) for t, _ in read_part(run.trajectories, name)]
    return trajectories, {skill.trajectory: skill for skill, _ in read_skills(run.skills)}


def _held_out(env: str) -> dict[str, str]:
    """Panel by task id, of every panel of an environment."""
    panels = [p for p in map(load_panel, panel_names()) if p.env == env]
    return {task.id: panel.name for panel in panels for task in panel.tasks}


def _secrets(environment: Environment, trajectories: list[Trajectory]) -> tuple[dict[str, tuple[str, ...]], str]:
    """What gives each task away, and why this could not be found out."""
    tasks: dict[str, Task] = {t.task.id: t.task for t in trajectories}
    try:
        return {key: environment.secrets(task) for key, task in tasks.items()}, ""
    except UserError as error:
        return {}, f"no: {error}"


def _execute(
    run: Run,
    environment: Environment,
    trajectories: list[Trajectory],
    skills: dict[str, Skill],
    count: int,
    attempts: int,
) -> dict[str, Any]:
    config = run.config
    drawn = draw_skills(trajectories, skills, count, config.seed)
    if not drawn:
        raise UserError(f"{run.path} holds no valid skill to play with: see the failures without --execute")
    engine, renderer = load_engine(config.model)
    settings = config.rollout.model_copy(update={"temperature": config.collect.temperature})
    with bar() as progress:
        line = progress.add_task("play without, then with", total=2 * attempts * len(drawn))
        return execution_check(
            engine,
            environment,
            renderer,
            settings,
            drawn,
            attempts,
            seed=config.seed,
            progress=lambda done, _: progress.update(line, completed=done),
        )


def _print(found: dict[str, Any]) -> None:
    table = Table("what", "found", title="skills", show_header=False)
    agreement, pairs, length = found["kind_agreement"], found["distinct_word_pairs"], found["length_words"]
    steps = found["step_skills"]
    rows = {
        "episodes": f"{found['episodes']} (and {found['faults']} faults)",
        "skills, valid": f"{found['skills']}, {found['valid']} ({found['unannotated']} episodes have none)",
        "by fate": _counts(found["statuses"]),
        "repairs": _counts(found["repairs"]) or "none",
        **{f"{kind}, by task kind": _counts(counts) for kind, counts in found["kinds"].items()},
        "text is of its kind": "-" if agreement is None else f"{agreement:.1%}",
        "with step skills": f"{steps['share']:.1%}, {steps['mean']:.1f} a skill" if steps else "-",
        "distinct texts": f"{found['distinct']} ({found['duplicates']} repeated word for word)",
        "clusters of like texts": f"{found['clusters']}, effective number {found['effective_number']:.1f}",
        "distinct word pairs": "-" if pairs is None else f"{pairs:.1%}",
        "words": _WORDS.format(**length) if length else "-",
        "leaks": _counts({kind: sum(x["kind"] == kind for x in found["leaks"]) for kind in ("instance", "answer")}),
        "gold answers checked": found["answers_checked"],
        "from forbidden tasks": str(len(found["forbidden"])),
    }
    for what, value in rows.items():
        table.add_row(what, Text(visible(value)))
    _out.print(table)
    for leak in found["leaks"][:5]:
        _out.print(Text(visible(f"leak: {leak['trajectory']} names {leak['text']!r} ({leak['kind']})"), "yellow"))
    for line in found["forbidden"][:5]:
        _out.print(Text(visible(f"error: {line['trajectory']}: {line['why']}"), "red"))
    for one in found["sample"]:
        _out.print(Text(visible(f"{one['kind']} ({one['task_kind']}): {one['text']}")))
    for kind, gain in found.get("execution", {}).get("gain", {}).items():
        _out.print(
            f"gain of {kind}: {100 * gain['value']:+.1f} points [{100 * gain['low']:+.1f}, {100 * gain['high']:+.1f}], "
            f"{gain['tasks']} tasks"
        )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
