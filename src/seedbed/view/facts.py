"""What can a stranger learn from a run directory alone? Tasks, prompts, weights, settings, claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seedbed.evaluate.stats import noise_floor
from seedbed.prompts.analyzer import continuation, standalone
from seedbed.prompts.base import skill_block
from seedbed.render import chat_of
from seedbed.track.store import parts, read_jsonl, read_part, read_skills
from seedbed.types import Skill, Trajectory, UserError
from seedbed.view.rundir import RunDirectory, read_json
from seedbed.view.text import visible


def tasks(run: RunDirectory) -> list[str]:
    """Every task that was played, where it comes from, and the panel that scores are about."""
    played: dict[str, Counter[str]] = {}
    for name in parts(run.path / "trajectories"):
        for line in read_jsonl(run.path / "trajectories" / f"{name}.jsonl"):
            task = f"{line['task']['split']} {line['task']['kind']} {line['task']['id']}"
            played.setdefault(task, Counter())[line["stop"]] += 1
    if not played and (run.path / "sft_data.jsonl").is_file():
        for row in read_jsonl(run.path / "sft_data.jsonl"):
            played.setdefault(f"{row['split']} rows: {row['task']}", Counter())["rows"] += 1
    decides = run.manifest.get("env_facts", {})
    out = ["environment " + ", ".join([run.setting("env.name", "unknown"), *(f"{k} {v}" for k, v in decides.items())])]
    out.append(f"training split {run.setting('env.train_split', 'unknown')}, seed {run.manifest.get('seed')}")
    panels = {(e["panel"], e["panel_hash"], e["summary"]["n_tasks"]) for e in run.evaluations}
    out += [f"panel {name}, {count} tasks, sha256 {digest}" for name, digest, count in sorted(panels)]
    out.append(f"{len(played)} tasks in this run's records:")
    return out + [f"  {task}: " + ", ".join(f"{n} {stop}" for stop, n in played[task].items()) for task in played]


def prompts(run: RunDirectory) -> list[str]:
    """One episode's prompts as they were sent, the skill context that scores it, and what the analyzer is asked."""
    out = [f"template sha256 {run.manifest.get('template_hash', 'not recorded')}"]
    found = _example(run)
    if found is None:
        return [
            *out,
            "this run holds no episode; its prompts are those of the run that it was made from: " + _origin(run),
        ]
    trajectory, skill = found
    turn = len(trajectory.turns_K) - 1
    out += [f"layout {trajectory.layout}, episode {trajectory.id}, the prompt of its last turn {turn}:"]
    out += [_indented(f"[{message.role}] {message.content}") for message in chat_of(trajectory, turn)]
    if skill and skill.valid:
        out += [f"the skill by {skill.source}, as it stands in the first prompt when tokens are scored with it:"]
        out += [_indented(skill_block(skill.text))]
    asked = (continuation if trajectory.layout == "transcript" else standalone)(trajectory)
    return [*out, "what the analyzer is asked about the finished episode:", _indented(asked.text)]


def weights(run: RunDirectory) -> list[str]:
    """The files it started from and every checkpoint, by sha256 of what is on disk now."""
    from seedbed.train.model import folder_hashes  # noqa: PLC0415 - imports torch

    out = [f"started from {run.setting('model.path', 'unknown')}:"]
    out += [f"  {name} sha256 {digest}" for name, digest in run.manifest.get("model", {}).items()]
    for folder in sorted((run.path / "checkpoints").glob("u*")):
        state = read_json(folder / "state.json")
        out.append(f"checkpoint {folder.name}, optimiser step {state.get('optimizer_steps')}:")
        out += [f"  {name} sha256 {digest}" for name, digest in folder_hashes(folder / "policy").items()]
    return out


def settings(run: RunDirectory) -> list[str]:
    """The settings that differ from the paper's, as the run itself states them."""
    lines = run.paper_diff.splitlines()
    if not lines:
        raise UserError(f"{run.path} holds no paper_diff.md: it was removed, or the run is older than that file")
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    heading = next((line for line in lines if line.startswith("Compared with")), "")
    differing = [cells for cells in rows if len(cells) >= 5 and "differs" in cells[4]]
    return [heading, *(f"  {c[0]}: {c[3]} (paper {c[1]}, launcher {c[2]})" for c in differing)]


def claims(run: RunDirectory) -> list[str]:
    """Every score of the run with its interval and the file that it can be counted again from; else what was logged."""
    out = []
    for path in sorted((run.path / "eval").glob("*.json")):
        result = read_json(path)
        micro, count = result["summary"]["micro"], result["summary"]["n_tasks"]
        out.append(
            f"{result.get('label', path.stem)}: success {micro['value']:.1%} [{micro['low']:.1%}, {micro['high']:.1%}] "
            f"on {result['panel']}, temperature {result['temperature']:g}, {count} tasks x {result['attempts']}, "
            f"seed {result['seed']}"
        )
        out.append(f"  evidence: eval/{path.name}, every episode in it, transcripts {result['transcripts_hash'][:16]}")
        out.append(f"  {noise_floor(count, micro['value'] or 0.0)}")
    if not out:
        out = ["no score is claimed: this run holds no evaluation on a panel"]
    if run.metrics:
        shown = ("success", "loss", "loss_opd", "gap_abs", "parse_rate", "skill_parse_rate", "kind_agreement")
        last = run.metrics[-1]
        facts = ", ".join(f"{key} {last[key]:.4g}" for key in shown if isinstance(last.get(key), float))
        out.append(f"logged at update {last['update']} while training, no claim about other tasks: {facts}")
        out.append("  evidence: metrics.jsonl" + (", trajectories/" if parts(run.path / "trajectories") else ""))
    return out


TOPICS: dict[str, Callable[[RunDirectory], list[str]]] = {
    "tasks": tasks,
    "prompts": prompts,
    "weights": weights,
    "settings": settings,
    "claims": claims,
}


def facts(path: Path, topic: str) -> list[str]:
    """The answer as lines, safe to show. Raises ``UserError`` for no run, an unknown topic or a damaged file."""
    if topic not in TOPICS:
        raise UserError(f"unknown topic {topic!r}: ask for one of {', '.join(TOPICS)}")
    try:
        return [visible(line) for line in TOPICS[topic](RunDirectory.open(path))]
    except (KeyError, TypeError, IndexError) as error:
        raise UserError(f"the records in {path} are not of this version of seedbed ({error!r})") from error


def _example(run: RunDirectory) -> tuple[Trajectory, Skill | None] | None:
    """The first whole episode of the last part, and its skill."""
    known: dict[str, Skill] = {}
    if (run.path / "skills.jsonl").is_file():
        known = {skill.trajectory: skill for skill, _ in read_skills(run.path / "skills.jsonl")}
    for name in reversed(parts(run.path / "trajectories")):
        for trajectory, _ in read_part(run.path / "trajectories", name):
            if trajectory.turns_K and not trajectory.faulty:
                return trajectory, known.get(trajectory.id)
    return None


def _origin(run: RunDirectory) -> str:
    manifest: dict[str, Any] = run.manifest
    return str(manifest.get("collect_dir", "not recorded"))


def _indented(text: str) -> str:
    return "  " + text.replace("\n", "\n  ")
