"""What the tiny model can do: success by skill condition, parse rate of the analyzer, and what GRPO still finds."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional as F

from seedbed.config import AnalyzerSettings, RolloutSettings
from seedbed.engines.torch_engine import TorchEngine
from seedbed.envs.alfworld.journal import NOTHING
from seedbed.envs.base import Environment
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.samples import build_samples
from seedbed.skills import rules
from seedbed.skills.analyze import analyze, analyzer_context
from seedbed.types import Task, Trajectory

ANALYZER = AnalyzerSettings(max_new_tokens=96, max_prompt_tokens=900)


def rollout_settings(temperature: float) -> RolloutSettings:
    return RolloutSettings(
        layout="transcript",
        history=0,
        max_turns=16,
        max_new_tokens=16,
        max_prompt_tokens=900,
        temperature=temperature,
        think=False,
        list_admissible=False,
    )


def wilson(wins: int, n: int) -> tuple[float, float]:
    """95 % interval of a rate."""
    z, p = 1.96, wins / n
    centre, half = p + z * z / (2 * n), z * ((p * (1 - p) + z * z / (4 * n)) / n) ** 0.5
    return round((centre - half) / (1 + z * z / n), 3), round((centre + half) / (1 + z * z / n), 3)


class Bench:
    """One model on the household environment."""

    def __init__(self, engine: TorchEngine, renderer: Renderer, environment: Environment) -> None:
        self.engine, self.renderer, self.environment = engine, renderer, environment

    def play(
        self, tasks: Sequence[Task], attempts: int, temperature: float, seed: int, skills: Sequence[str] | None = None
    ) -> list[Trajectory]:
        self.engine.advance(self.engine.version)
        groups = collect_groups(
            self.engine,
            self.environment,
            self.renderer,
            rollout_settings(temperature),
            tasks,
            attempts,
            seed=seed,
            skills=skills,
        )
        return [trajectory for group in groups for trajectory in group.attempts_G]

    def panel(self, condition: str, count: int, temperature: float = 1.0, seed: int = 0) -> dict:
        """``count`` held-out tasks once each under a condition: none, empty, right, wrong or avoid."""
        tasks = self.environment.tasks("generated_valid")[:count]
        rng = random.Random(seed)
        write = {
            "none": lambda kind: "",
            "empty": lambda kind: " ",
            "right": lambda kind: rules.right_skill(kind, rng),
            "wrong": lambda kind: rules.wrong_skill(kind, rng),
            "avoid": lambda kind: rules.phrase(rules.lessons(kind)[1], rng.randrange(2)),
        }[condition]
        played = self.play(
            tasks, 1, temperature, seed, None if condition == "none" else [write(t.kind).strip() for t in tasks]
        )
        return summary(played)

    def parse(self, trajectories: Sequence[Trajectory]) -> dict:
        """Share of parsable analyses, and of those that equal the rules in flavour and, up to wording, in lesson."""
        self.engine.advance(self.engine.version)
        skills = {}
        for start in range(0, len(trajectories), 480):
            skills |= analyze(self.engine, self.renderer, trajectories[start : start + 480], ANALYZER)
        valid = exact = 0
        for trajectory in trajectories:
            skill = skills[trajectory.id]
            valid += skill.valid
            lesson = rules.diagnose(trajectory)
            exact += skill.valid and skill.text in {rules.phrase(lesson, v) for v in range(2)}
        first = skills[trajectories[0].id]
        return {
            "n": len(trajectories),
            "parse": valid / len(trajectories),
            "exact": exact / len(trajectories),
            "sample": first.raw[:300],
        }


def summary(played: Sequence[Trajectory]) -> dict:
    wins, n = sum(t.won for t in played), len(played)
    turns = sum(len(t.turns_K) for t in played)
    refused = sum(turn.observation.startswith(NOTHING) for t in played for turn in t.turns_K)
    kinds = sorted({t.task.kind for t in played})
    length = [len(t.turns_K[-1].prompt_ids_T) + len(t.turns_K[-1].response_ids_T) for t in played]
    return {
        "n": n,
        "success": round(wins / n, 3),
        "wilson": wilson(wins, n),
        "invalid_format": sum(t.invalid_turns for t in played) / turns,
        "refused": round(refused / turns, 3),
        "turns": round(turns / n, 2),
        "tokens": round(float(np.mean(length)), 1),
        "longest": max(length),
        "truncated": sum(str(t.stop) == "truncated_turn" for t in played),
        "by_kind": {k: round(float(np.mean([t.won for t in played if t.task.kind == k])), 2) for k in kinds},
    }


def _logprobs(model: torch.nn.Module, rows: Sequence[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs [B, T] of each row's tokens (column 0 is 0) and the padded ids."""
    device = next(model.parameters()).device
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, : len(row)] = torch.from_numpy(row.astype(np.int64))
    ids = ids.to(device)
    logp = F.log_softmax(model(input_ids=ids, use_cache=False).logits[:, :-1].float(), -1).gather(2, ids[:, 1:, None])[
        ..., 0
    ]
    return F.pad(logp, (1, 0)), ids


def sft(
    bench: Bench,
    trajectories: Sequence[Trajectory],
    *,
    steps: int = 90,
    batch: int = 16,
    lr: float = 3e-4,
    rehearsal: float = 1.0,
    seed: int = 0,
) -> dict:
    """Stage 1 in miniature: the rules' answers after own trajectories, own actions as rehearsal on the same rows."""
    model, tokenizer = bench.engine.model, bench.renderer.tokenizer
    device = next(model.parameters()).device
    data = []
    for trajectory in trajectories:
        if not trajectory.turns_K or len(build_samples(trajectory, bench.renderer.stop_id)) != 1:
            continue
        head = analyzer_context(trajectory, bench.renderer).ids_T
        answer = tokenizer.encode(rules.to_json(rules.annotate(trajectory)), add_special_tokens=False) + [
            bench.renderer.stop_id
        ]
        ids = np.concatenate([head, answer])
        own, told = np.zeros(len(ids), bool), np.arange(len(ids)) >= len(head)
        sample = build_samples(trajectory, bench.renderer.stop_id)[0]
        own[: len(sample.ids_T)] = sample.sampled_T
        data.append((ids, told, own))
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.0)
    rng, began, losses = np.random.default_rng(seed), time.time(), []
    order = np.concatenate([rng.permutation(len(data)) for _ in range(-(-steps * batch // len(data)))])
    for step in range(steps):
        rows = [data[i] for i in order[step * batch : (step + 1) * batch]]
        logp, ids = _logprobs(model, [row[0] for row in rows])
        told, own = (
            torch.from_numpy(np.stack([np.pad(row[j], (0, ids.shape[1] - len(row[j]))) for row in rows])).to(device)
            for j in (1, 2)
        )
        answer_loss, own_loss = -logp[told].mean(), -logp[own].mean()
        for group in optimiser.param_groups:
            group["lr"] = lr * min((step + 1) / 9, 0.5 + 0.5 * np.cos(np.pi * step / steps))
        (answer_loss + rehearsal * own_loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append((float(answer_loss.detach()), float(own_loss.detach())))
    bench.engine.advance(bench.engine.version)
    return {"rows": len(data), "seconds": round(time.time() - began, 1), "first": losses[0], "last": losses[-1]}


def grpo(
    bench: Bench,
    *,
    updates: int = 10,
    tasks: int = 12,
    attempts: int = 8,
    inner: int = 3,
    lr: float = 3e-4,
    seed: int = 0,
) -> dict:
    """Plain GRPO: group-normalised outcome, ratio clip 0.2, ``inner`` optimiser steps an update, no KL term."""
    model = bench.engine.model
    device = next(model.parameters()).device
    pool = bench.environment.tasks("generated_train")
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.0)
    rng, curve = np.random.default_rng(seed), []
    for update in range(updates):
        chosen = [pool[i] for i in rng.choice(len(pool), tasks, replace=False)]
        played = bench.play(chosen, attempts, 1.0, seed * 1000 + update)
        curve.append(round(float(np.mean([t.won for t in played])), 3))
        reward = np.array([float(t.won) for t in played]).reshape(tasks, attempts)
        advantage = ((reward - reward.mean(1, keepdims=True)) / (reward.std(1, keepdims=True, ddof=1) + 1e-6)).ravel()
        rows = [(build_samples(t, bench.renderer.stop_id)[0], a) for t, a in zip(played, advantage, strict=True)]
        for part in np.split(rng.permutation(tasks), inner):
            chosen_rows = [rows[p * attempts + g] for p in part for g in range(attempts)]
            logp, ids = _logprobs(model, [s.ids_T for s, _ in chosen_rows])
            pad = [ids.shape[1] - len(s.ids_T) for s, _ in chosen_rows]
            mask = torch.from_numpy(
                np.stack([np.pad(s.sampled_T, (0, n)) for (s, _), n in zip(chosen_rows, pad, strict=True)])
            ).to(device)
            old = torch.from_numpy(
                np.stack([np.pad(s.sampler_logprobs_T, (0, n)) for (s, _), n in zip(chosen_rows, pad, strict=True)])
            )
            gain = torch.tensor([a for _, a in chosen_rows], dtype=torch.float32, device=device)[:, None].expand_as(
                logp
            )[mask]
            ratio = (logp[mask] - old.to(device)[mask]).exp()
            loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
        bench.engine.advance(bench.engine.version)
    return {"train": curve}
