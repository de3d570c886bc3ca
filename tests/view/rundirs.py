"""Run directories made by hand: real files of real types, no model and no environment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from seedbed.evaluate.run import summarise
from seedbed.track.store import TokenValues, append_jsonl, skill_line, write_part
from seedbed.types import Action, Prompt, Skill, StopReason, Task, Trajectory, Turn

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\ud800\u202eltr\x1b[31m</title></style>{{ 7*7 }}"


def byte_tokenizer() -> Tokenizer:
    """One token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def episode(
    attempt: int = 0,
    *,
    won: bool = True,
    responses: Sequence[str] = ("go", "take"),
    text: str = "a shelf",
    version: int = 0,
    goal: str = "put a mug in shelf",
    task: str = "mug-1",
) -> Trajectory:
    """Windowed, one turn a response; ``text`` is what the environment says everywhere."""
    turns = []
    for k, response in enumerate(responses):
        ids = np.array(byte_tokenizer().encode(response).ids, np.int32)
        prompt = Prompt(
            (("role", "You play."), ("task", f"Your task is to: {goal}"), ("skill", ""), ("observation", text))
        )
        turns.append(
            Turn(
                prompt,
                np.arange(4, dtype=np.int32),
                ids,
                np.full(len(ids), -1.0, np.float32),
                "stop",
                response,
                Action(response, k == 0),
                text,
            )
        )
    stop = StopReason.WON if won else StopReason.LOST
    return Trajectory(
        Task(task, "toy", "train", "put"), attempt, goal, tuple(turns), stop, float(won), "windowed", version, 1
    )


def values(trajectory: Trajectory, gaps: Sequence[float] | None) -> TokenValues:
    """Ordinary log-prob -1 everywhere; skill log-prob -1 + gap (``gaps`` repeated), or nothing scored with a skill."""
    n = trajectory.sampled_tokens
    ordinary = np.full(n, -1.0, np.float32)
    skill = np.full(n, np.nan, np.float32) if gaps is None else ordinary + np.resize(np.array(gaps, np.float32), n)
    return TokenValues(ordinary, skill.astype(np.float32), np.full(n, 0.5, np.float32))


def skill_of(trajectory: Trajectory, text: str = "look first", **changes) -> Skill:
    kind = "workflow" if trajectory.won else "avoidance"
    return Skill(
        **{
            "trajectory": trajectory.id,
            "kind": kind,
            "status": "ok",
            "text": text,
            "summary": "it went so",
            "raw": "{...}",
            "version": trajectory.version,
            **changes,
        }
    )


def make_run(
    path: Path,
    updates: dict[int, list[tuple[Trajectory, Sequence[float] | None]]],
    *,
    algo: str = "seed",
    sharpness: float | None = 5.0,
    metrics: Sequence[dict] = (),
    skill_text: str = "look first",
) -> Path:
    """A train run: episodes with their gaps by update, a skill for each scored one, and a tokenizer in a checkpoint."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "manifest.json").write_text(
        json.dumps({"kind": "train", "seed": 3, "code": {"commit": "abc123"}, "packages": {"numpy": "2.4.6"}})
    )
    beta = "" if sharpness is None else f"\n  sharpness: {sharpness}"
    (path / "config.resolved.yaml").write_text(f"algo:\n  name: {algo}{beta}\nmodel:\n  path: nowhere\n")
    (path / "paper_diff.md").write_text("train.lr | 1e-06 | 0.0003 | differs\n")
    for update, episodes in updates.items():
        write_part(
            path / "trajectories",
            f"u{update:04d}",
            [t for t, _ in episodes],
            {t.id: values(t, gaps) for t, gaps in episodes},
        )
        append_jsonl(
            path / "skills.jsonl",
            [skill_line(skill_of(t, skill_text), update=update) for t, gaps in episodes if gaps is not None],
        )
    policy = path / "checkpoints" / "u0002" / "policy"
    policy.mkdir(parents=True)
    byte_tokenizer().save(str(policy / "tokenizer.json"))
    append_jsonl(path / "metrics.jsonl", metrics)
    return path


def evaluation(
    wins: Sequence[bool], temperature: float, *, panel_hash: str = "h", label: str = "", entropy: float | None = None
):
    """A result as ``evaluate`` writes it, one task an entry of ``wins``."""
    episodes = [
        {
            "task": f"t{i}",
            "kind": "put" if i % 2 else "<b>heat</b>",
            "attempt": 0,
            "won": bool(won),
            "turns": 4,
            "invalid": 1,
            "stop": "won" if won else "lost",
        }
        for i, won in enumerate(wins)
    ]
    return {
        "panel": "household-120",
        "panel_hash": panel_hash,
        "env": "toy",
        "temperature": temperature,
        "attempts": 1,
        "seed": 0,
        "policy_version": 0,
        "episodes": episodes,
        "label": label,
        "summary": {**summarise(episodes), "entropy": entropy},
    }
