"""The loop of stage 2, written like the paper's algorithm box.

    for each update:
        1. play N attempts of each task with the current policy          (actor)
        2. let the same weights read every finished trajectory           (analyzer)
        3. score the sampled tokens in both contexts, same weights       (scorer)
        4. advantages and distillation streams                           (algorithm)
        5. minimise L = L_policy + lambda L_opd + kl KL - c entropy      (learner)

One module is all four roles; the assertion that trajectory, skill and scores share one version is in
``skills/analyze.py`` and ``scoring.py``. What happens in update ``u`` is a pure function of the weights and (seed, u),
so a resumed run equals an uninterrupted one.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.algo import make_algorithm
from seedbed.config import Config
from seedbed.engines.base import ScoreRow
from seedbed.engines.torch_engine import TorchEngine
from seedbed.envs.base import Environment, environment_from
from seedbed.envs.panels import load_panel
from seedbed.evaluate.run import evaluate
from seedbed.rollout import check_faults, collect_groups
from seedbed.samples import build_samples
from seedbed.scoring import score_pairs, step_skill
from seedbed.skills.analyze import analyze
from seedbed.skills.sft_data import SftRow, load_rows
from seedbed.track.metrics import episode_metrics, signal_metrics, warnings
from seedbed.track.run import Clock, Run
from seedbed.track.store import TokenValues, append_jsonl, skill_line, write_part
from seedbed.train.interrupt import Interrupt, Stopped
from seedbed.train.model import folder_hashes, load_engine, model_facts, resolve
from seedbed.train.state import latest_checkpoint, load_checkpoint, save_checkpoint
from seedbed.train.update import Objective, build_optimizer, build_rows, update_policy
from seedbed.types import Batch, Task, UserError

Report = Callable[[dict[str, Any]], None]


class Trainer:
    """Stage 2 of one run directory. Building it loads everything and checks it, before any compute is spent."""

    def __init__(self, run: Run, config: Config):
        if config.model.dtype != "float32":
            raise UserError(
                f"model.dtype={config.model.dtype} cannot be trained: optimiser steps of 1e-6 vanish in it; use float32"
            )
        self.run, self.config = run, config
        self.environment: Environment = environment_from(config.env)
        self.tasks: Sequence[Task] = self.environment.tasks(config.env.train_split)
        if len(self.tasks) < config.train.tasks:
            raise UserError(
                f"split {config.env.train_split!r} has {len(self.tasks)} tasks, "
                f"fewer than train.tasks={config.train.tasks}"
            )
        self.panel = load_panel(config.env.panel) if config.eval.every else None
        self.stage1: list[SftRow] = []
        if config.train.rehearsal_rows:
            self.stage1 = load_rows(rehearsal_folder(config))
        self.algorithm = make_algorithm(config.algo)
        self.engine, self.renderer = load_engine(config.model)
        self.start_hash = folder_hashes(resolve(config.model.path), lambda name: name.endswith(".safetensors"))
        self.reference = None
        if config.train.kl_coefficient:
            self.reference = TorchEngine(copy.deepcopy(self.engine.model).requires_grad_(False), self.renderer.stop_id)
        self.optimizer = build_optimizer(self.engine.model, config.train.lr, config.train.weight_decay)
        self.done, self.steps, self.saved = 0, 0, 0  # updates, optimiser steps, update of the newest checkpoint
        self.whole = True  #: the weights are those of ``done`` updates, not of half a one

    def resume(self) -> None:
        """Go on from the newest checkpoint. Raises ``UserError`` if the model the run started from has changed."""
        newest = latest_checkpoint(self.run.checkpoints)
        if newest:  # else the run was stopped before its first one and begins again
            state = load_checkpoint(newest, self.engine.model, self.optimizer)
            if state.get("start") != self.start_hash:
                raise UserError(
                    f"the weights at model.path={self.config.model.path!r} are not those this run started from: "
                    "its KL reference would change; put them back or start a new run"
                )
            self.done, self.steps = state["update"], state["optimizer_steps"]
            self.engine.advance(self.done)
        self.saved = self.done
        self.run.rewind(self.done)

    def train(self, report: Report = lambda row: None) -> None:
        """All remaining updates. Raises ``Stopped`` after a Ctrl-C; whatever stops it, finished updates are saved."""
        settings = self.config.train
        panel = {"name": self.panel.name, "hash": self.panel.hash} if self.panel else None
        facts = model_facts(self.config.model, self.renderer) | {"env_facts": self.environment.facts(self.tasks[0])}
        self.run.begin(self.config, "train", **facts, panel=panel)
        with Interrupt() as interrupt:
            try:
                while self.done < settings.updates:
                    row = self.update()
                    self.run.log(row)
                    last = self.done == settings.updates or interrupt.requested
                    if last or self.done % settings.checkpoint_every == 0:
                        self.save()
                    report(row | self.evaluate())
                    if interrupt.requested and self.done < settings.updates:
                        raise Stopped(
                            f"stopped after update {self.done} of {settings.updates}; "
                            f"go on with: seedbed train --resume {self.run.path}"
                        )
            except Exception:
                if self.whole and self.saved < self.done:
                    self.save()
                raise

    def update(self) -> dict[str, Any]:
        """One update of the loop; returns its metrics row."""
        config, clock = self.config, Clock()
        with clock.phase("rollout"):
            groups = collect_groups(
                self.engine,
                self.environment,
                self.renderer,
                config.rollout,
                draw_tasks(self.tasks, config.train.tasks, config.seed, self.done),
                config.train.attempts,
                seed=update_seed(config.seed, self.done),
            )
        batch = Batch(groups)
        check_faults(batch.trajectories, config.train)
        row: dict[str, Any] = {"update": self.done + 1, **episode_metrics(batch)}
        with clock.phase("analyze"):
            if self.algorithm.needs_skills:
                batch.skills = analyze(self.engine, self.renderer, batch.trajectories, config.analyzer)
        self.engine.release()
        with clock.phase("score"):
            batch.samples = [s for t in batch.trajectories for s in build_samples(t, self.renderer.stop_id)]
            batch.scores = score_pairs(
                self.engine,
                self.renderer,
                batch.samples,
                batch.skills,
                temperature=self.temperature,
                max_prompt_tokens=config.rollout.max_prompt_tokens,
            )
            reference = None
            if self.reference is not None:
                reference = self.reference.score(
                    [ScoreRow(s.ids_T, s.sampled_T) for s in batch.samples], self.temperature
                )
        batch.streams, counts = self.algorithm.streams(batch)
        row |= counts | signal_metrics(batch, self.algorithm)
        if config.analyzer.steps:
            row["step_skill_rows"] = sum(  # of the rows with a teacher, those whose very turn has one
                scores.skill_T is not None and bool(step_skill(sample, batch.skills[sample.trajectory.id]))
                for sample, scores in zip(batch.samples, batch.scores, strict=True)
            )
        self.whole = False  # until the last optimiser step the weights are of no update
        with clock.phase("update"):
            row |= update_policy(
                self.engine.model,
                self.optimizer,
                build_rows(batch, reference),
                Objective(config.train, self.temperature, self.algorithm.coefficient, self.algorithm.gate),
                first_step=self.steps,
                rehearse=self._rehearse,
            )
        self.done, self.steps = self.done + 1, self.steps + row["optimizer_steps"]
        self.engine.advance(self.done)
        self.whole = True
        with clock.phase("store"):
            self._store(batch)
        return {**row, "warnings": warnings(row), "seconds": clock.seconds}

    @property
    def temperature(self) -> float:
        """The temperature log-probs are compared at: the sampler's."""
        return self.config.rollout.temperature or 1.0

    def evaluate(self) -> dict[str, Any]:
        """Play the panel as deployed, the policy alone, where it is due; the whole result goes to ``eval/``."""
        settings = self.config.eval
        if not self.panel or (self.done % settings.every and self.done != self.config.train.updates):
            return {}
        result = evaluate(
            self.engine,
            self.environment,
            self.renderer,
            self.config.rollout,
            self.panel,
            attempts=settings.attempts,
            temperature=settings.temperature,
            seed=self.config.seed,
        )
        self.engine.release()
        self.run.write_json(f"eval/u{self.done:04d}.json", {"label": f"update {self.done}", **result})
        return {"eval": {"panel": self.panel.name, "temperature": settings.temperature, **result["summary"]}}

    def save(self) -> Path:
        facts = {"optimizer_steps": self.steps, "start": self.start_hash, "seed": self.config.seed}
        self.saved = self.done
        self.run.write_timing()
        return save_checkpoint(self.run.checkpoints, self.done, self.engine.model, self.renderer, self.optimizer, facts)

    def _rehearse(self, step: int) -> list[SftRow]:
        if not self.stage1:
            return []
        rng = np.random.default_rng([self.config.seed, 1, step])
        picked = rng.choice(len(self.stage1), min(self.config.train.rehearsal_rows, len(self.stage1)), replace=False)
        return [self.stage1[i] for i in picked]

    def _store(self, batch: Batch) -> None:
        pieces: dict[str, list[TokenValues]] = {}
        for sample, score, stream in zip(batch.samples, batch.scores, batch.streams, strict=True):
            at = sample.sampled_T
            skill = score.skill_T[at] if score.skill_T is not None else np.full(int(at.sum()), np.nan, np.float32)
            pieces.setdefault(sample.trajectory.id, []).append(
                TokenValues(score.ordinary_T[at], skill, stream.advantage_T[at])
            )
        values = {
            key: TokenValues(
                *(np.concatenate([getattr(p, n) for p in parts]) for n in ("ordinary_T", "skill_T", "advantage_T"))
            )
            for key, parts in pieces.items()
        }
        write_part(self.run.trajectories, f"u{self.done:04d}", batch.trajectories, values)
        if batch.skills:
            append_jsonl(self.run.skills, [skill_line(s, update=self.done) for s in batch.skills.values()])


def draw_tasks(tasks: Sequence[Task], count: int, seed: int, update: int) -> list[Task]:
    """The tasks of an update, a pure function of seed and update: the next slice of a shuffled pass over the split.

    A pass that has fewer than ``count`` tasks left is cut short, so that no task occurs twice in an update.
    """
    epoch, place = divmod(update, len(tasks) // count)
    order = np.random.default_rng([seed, 0, epoch]).permutation(len(tasks))
    return [tasks[int(i)] for i in order[place * count : (place + 1) * count]]


def rehearsal_folder(config: Config) -> Path:
    """Where Stage-1 rows come from: ``train.rehearsal_data``, else the sft run that holds ``model.path``."""
    if config.train.rehearsal_data:
        return Path(config.train.rehearsal_data)
    folder = resolve(config.model.path).resolve().parents[2]  # RUN/checkpoints/u0003/policy
    if not (folder / "sft_data.jsonl").is_file():
        raise UserError(
            f"train.rehearsal_rows={config.train.rehearsal_rows} needs Stage-1 rows, and model.path="
            f"{config.model.path!r} is no checkpoint of an sft run: set train.rehearsal_data to one, or "
            "train.rehearsal_rows=0"
        )
    return folder


def update_seed(seed: int, update: int) -> int:
    """Sampling seed of one update, 64 bits."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/update/{update}".encode(), digest_size=8).digest(), "big")
