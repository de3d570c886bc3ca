"""A chain of runs made by hand with known weights: collect, sft, a GRPO and a SEED arm, in a demo directory."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from rundirs import episode, evaluation, skill_of, values

from seedbed.skills.sft_data import trajectory_hashes
from seedbed.track.store import append_jsonl, skill_line, write_part


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def dump(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def manifest(path: Path, kind: str, weights: str, **facts: object) -> None:
    model = {"config.json": "c", "model.safetensors": sha(weights), "tokenizer.json": "t"}
    dump(path / "manifest.json", {"kind": kind, "model": model, **facts})


def checkpoint(run: Path, update: int, weights: str) -> None:
    """Weights are text here: only their content counts, and nothing loads them."""
    folder = run / "checkpoints" / f"u{update:04d}"
    dump(folder / "state.json", {"update": update, "optimizer_steps": update})
    (folder / "policy").mkdir()
    (folder / "policy" / "model.safetensors").write_text(weights)


def collect_run(path: Path, source: str = "rules", **facts: object) -> Path:
    manifest(path, "collect", "base", **facts)
    played = [episode(0), episode(1, won=False)]
    write_part(path / "trajectories", "c0000", played)
    append_jsonl(path / "skills.jsonl", [skill_line(skill_of(t, source=source), update=0) for t in played])
    append_jsonl(path / "tasks.jsonl", [{"id": "mug-1", "rule": "all"}])
    dump(path / "annotate.json", {"by": source, "author": source})
    return path


def sft_run(path: Path, collected: Path) -> Path:
    manifest(path, "sft", "base", collect_dir=str(collected))
    rows = [
        {
            "index": i,
            "split": "train",
            "trajectory": key,
            "skill_source": "rules",
            "sha256": digest,
            "response": json.dumps({"episode_summary": "it went so", "episode_skill": "look first"}),
        }
        for i, (key, digest) in enumerate(trajectory_hashes(collected).items())
    ]
    append_jsonl(path / "sft_data.jsonl", rows)
    append_jsonl(path / "metrics.jsonl", [{"update": 1, "loss": 2.0}])
    checkpoint(path, 1, "tuned")
    return path


def train_run(path: Path, *, skills: bool, updates: int = 2, kl: bool = False, end: str = "trained") -> Path:
    """Episodes of version 0, 1, ..., with skills and their scores if asked for; rehearses Stage-1 rows."""
    manifest(path, "train", "tuned")
    (path / "config.resolved.yaml").write_text("train:\n  rehearsal_data: ''\n")
    for update in range(1, updates + 1):
        played = [episode(attempt, version=update - 1) for attempt in (0, 1)]
        scored = {t.id: values(t, [0.1] if skills else None) for t in played}
        write_part(path / "trajectories", f"u{update:04d}", played, scored)
        if skills:
            append_jsonl(path / "skills.jsonl", [skill_line(skill_of(t), update=update) for t in played])
        row = {"update": update, "optimizer_steps": 3, "loss_rehearsal": 0.5}
        append_jsonl(path / "metrics.jsonl", [row | ({"kl": 0.0} if kl else {})])
    checkpoint(path, updates, end)
    return path


def demo(path: Path) -> Path:
    sft_run(path / "sft", collect_run(path / "collect"))
    train_run(path / "grpo", skills=False, end="grpo end")
    train_run(path / "seed", skills=True, end="seed end")
    stages = []
    for name, run in (("base", None), ("seed", "seed")):
        dump(path / "eval" / f"{name}.json", evaluation([True, False], 1.0, panel_hash="p", label=name))
        stages.append({"name": name, "run": run, "evals": [f"eval/{name}.json"]})
    dump(path / "demo.json", {"stages": stages})
    return path
