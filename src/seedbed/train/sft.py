"""Stage 1, third step: fine-tune the policy to write the skills itself (paper 1.1, L_sft), then look at both roles.

Loss on the annotated answer only, as in the paper. ``sft.rehearsal`` adds the episode's own action tokens of the same
rows (ours): a tiny probe forgot how to act without them. Weights are kept and saved in float32, which Stage 2 starts
from; with ``model.dtype=bfloat16`` every pass computes in bfloat16.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from seedbed.config import Config
from seedbed.engines.torch_engine import TorchEngine
from seedbed.envs.base import environment_from
from seedbed.envs.panels import load_panel
from seedbed.render import Renderer
from seedbed.rollout import check_faults, collect_groups
from seedbed.skills.analyze import analyze, coverage
from seedbed.skills.kinds import kind_agreement
from seedbed.skills.sft_chats import save_chats
from seedbed.skills.sft_data import SftRow, SftSet, build_rows, save_rows, split_rows, within
from seedbed.track.run import Run
from seedbed.track.store import read_skills
from seedbed.train import lora
from seedbed.train.answers import answer_losses
from seedbed.train.collect import read_collected
from seedbed.train.interrupt import Interrupt, Stopped
from seedbed.train.model import load_policy, model_facts, same_tokens
from seedbed.train.sft_eval import analysis_quality, engine_of, held_out, held_out_loss
from seedbed.train.state import latest_checkpoint, load_checkpoint, save_checkpoint
from seedbed.train.update import NonFinite, build_optimizer
from seedbed.types import Trajectory, UserError


def fine_tune(
    run: Run,
    config: Config,
    collected: Run,
    *,
    resume: bool = False,
    report: Callable[[dict[str, Any]], None] = lambda row: None,
) -> None:
    """Build the rows, train ``sft.epochs`` epochs, measure and save after each. Resumes at an epoch's end.

    Two checkpoints stay: the last, and the best by parse rate on held-out episodes, then by held-out loss
    (``best.json``). Raises ``UserError`` without a single valid skill and ``Stopped`` after a Ctrl-C.
    """
    settings, half = config.sft, config.model.dtype == "bfloat16"
    model, renderer = load_policy(config.model.model_copy(update={"dtype": "float32"}))
    engine_of(model, renderer, half=False)  # refuses models that no forward pass of ours is true for
    optimizer = _prepare(model, config)
    rows, trajectories = build_set(run, config, collected, renderer)
    asked = held_out(trajectories, rows.validation, settings.eval_trajectories)
    done = 0
    if resume:
        newest = latest_checkpoint(run.checkpoints)
        if newest and settings.lora_rank and run.manifest["model"] != model_facts(config.model, renderer)["model"]:
            raise UserError(
                f"the model at model.path={config.model.path!r} is not the one this LoRA run started from: put it back "
                "or start a new run"
            )
        done = load_checkpoint(newest, model, optimizer)["update"] if newest else 0
        run.rewind(done)
        if done:
            _keep_best(run)
    with Interrupt() as interrupt:
        for epoch in range(done, settings.epochs):
            row = {"update": epoch + 1, **_train_epoch(model, optimizer, rows.train, config, epoch)}
            optimizer.zero_grad(set_to_none=True)
            row["validation_loss"] = held_out_loss(model.eval(), rows.validation, settings.micro_tokens, half=half)
            written = analysis_quality(engine_of(model, renderer, half=half), renderer, asked, config.analyzer)
            row |= {key: written[key] for key in ("analysed", "parse_rate", "kind_agreement")}
            run.log(row)
            save_checkpoint(run.checkpoints, epoch + 1, model, renderer, optimizer, {"optimizer_steps": row["steps"]})
            _keep_best(run)
            report(row)
            if interrupt.requested and epoch + 1 < settings.epochs:
                raise Stopped(
                    f"stopped after epoch {epoch + 1} of {settings.epochs}; go on with: seedbed sft --resume {run.path}"
                )


def build_set(run: Run, config: Config, collected: Run, renderer: Renderer) -> tuple[SftSet, list[Trajectory]]:
    """The rows of a collect run and the episodes behind them, stored in ``run`` in every form; needs no weights."""
    trajectories = read_collected(collected)
    if any(t.layout == "transcript" for t in trajectories):  # else rows hold text alone, whoever sampled it
        same_tokens(collected, config.model, renderer)
    rows = _rows(config, collected, trajectories, renderer)
    place = os.path.relpath(collected.path, run.path)
    run.begin(config, "sft", collect_dir=place, **model_facts(config.model, renderer))
    before = _digest(run)
    save_rows(run.path, rows, collected.path)
    if before not in ("", _digest(run)) and latest_checkpoint(run.checkpoints):
        raise UserError(
            f"{collected.path} gives other rows than those that {run.path} was trained on so far: "
            "restore its skills, or start a new run with --out"
        )
    chats = save_chats(run.path, rows, trajectories, collected.path)
    summary = {**rows.summary(config.sft.max_tokens), "chats": chats, "sft_data_sha256": _digest(run)}
    run.write_json("sft_set.json", summary)
    return rows, trajectories


def _digest(run: Run) -> str:
    path = run.path / "sft_data.jsonl"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def measure(engine: TorchEngine, renderer: Renderer, config: Config, *, tasks: int | None = None) -> dict[str, Any]:
    """Both roles of one policy at temperature 1: acting success, and the share of its own trajectories it can analyse.

    On every task of the panel, or on ``tasks`` of them spread evenly.
    """
    environment = environment_from(config.env)
    settings = config.rollout.model_copy(update={"temperature": 1.0})
    panel = load_panel(config.env.panel).tasks
    chosen = panel[:: max(len(panel) // tasks, 1)][:tasks] if tasks else panel
    groups = collect_groups(engine, environment, renderer, settings, chosen, 1, seed=config.seed)
    trajectories = [t for g in groups for t in g.attempts_G]
    check_faults(trajectories, config.train)
    skills = analyze(engine, renderer, trajectories, config.analyzer)
    engine.release()
    return {
        "acting_success": float(np.mean([t.won for t in trajectories if not t.faulty])),
        "episodes": len(trajectories),
        "faults": sum(t.faulty for t in trajectories),
        **coverage(skills, trajectories),
        "kind_agreement": kind_agreement(skills.values()),
    }


def best_epoch(history: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row of the best epoch: highest parse rate, then lowest held-out loss, then the later one."""
    return max(history, key=lambda r: (r["parse_rate"] or 0.0, -(r["validation_loss"] or 0.0), r["update"]))


def _rows(config: Config, collected: Run, trajectories: Sequence[Trajectory], renderer: Renderer) -> SftSet:
    skills = {s.trajectory: s for s, _ in read_skills(collected.skills)} if collected.skills.exists() else {}
    built = build_rows(trajectories, skills, renderer, config.analyzer.steps)
    if not built:
        raise UserError(
            f"{collected.path} holds no valid skill, so there is nothing to fine-tune on: run seedbed annotate first"
        )
    rows, dropped = within(built, config.sft.max_tokens, config.sft.too_long)
    if not rows:
        raise UserError(f"every Stage-1 row is over sft.max_tokens={config.sft.max_tokens}: raise it")
    if config.sft.rehearsal and not any(row.action_T.any() for row in rows):
        raise UserError(
            f"sft.rehearsal={config.sft.rehearsal:g} has nothing to act on: rows of the windowed layout hold no "
            "sampled action; set sft.rehearsal=0 or collect with rollout.layout=transcript"
        )
    train, validation = split_rows(rows, config.sft.validation, config.seed)
    return SftSet(train, validation, dropped, skills, config.analyzer.steps)


def _prepare(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """Choose what is trained and how activations are kept; AdamW as in the official Stage-1 scripts."""
    settings = config.sft
    if settings.lora_rank:
        lora.attach(model, settings.lora_rank, settings.lora_alpha, config.seed)
    if settings.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return build_optimizer(model, settings.lr, settings.weight_decay, betas=(0.9, 0.95))


def _train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, train: Sequence[SftRow], config: Config, epoch: int
) -> dict[str, Any]:
    """One pass over the rows in an order of (seed, epoch). Raises ``NonFinite`` before a step that is not finite."""
    settings, half = config.sft, config.model.dtype == "bfloat16"
    order = np.random.default_rng([config.seed, 3, epoch]).permutation(len(train))
    steps = math.ceil(len(train) / settings.batch_rows)
    losses, norms = [], []
    model.train(settings.checkpointing)  # only training mode checkpoints
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()  # no dropout anywhere, as in Stage 2
    for i in range(steps):
        step = epoch * steps + i
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * _schedule(step, steps * settings.epochs, settings.warmup)
        optimizer.zero_grad(set_to_none=True)
        rows = [train[j] for j in order[i * settings.batch_rows : (i + 1) * settings.batch_rows]]
        losses.append(0.0)
        for loss in answer_losses(model, rows, settings.micro_tokens, settings.rehearsal, half=half):
            loss.backward()
            losses[-1] += float(loss.detach())
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip)))
        if not math.isfinite(norms[-1]):
            raise NonFinite(f"the gradient norm of Stage-1 step {step + 1} is {norms[-1]}")
        optimizer.step()
    return {
        "steps": (epoch + 1) * steps,
        "loss": float(np.mean(losses)),
        "grad_norm": float(np.mean(norms)),
        "lr": optimizer.param_groups[0]["lr"],
    }


def _keep_best(run: Run) -> None:
    """Remove every checkpoint but the last and the best, and say which is the best."""
    best = best_epoch(run.history())
    newest = latest_checkpoint(run.checkpoints)
    keep = {newest, run.checkpoints / f"u{best['update']:04d}"}
    run.write_json("best.json", {"checkpoint": f"checkpoints/u{best['update']:04d}", **best})
    for path in set(run.checkpoints.glob("u[0-9]*")) - keep:
        shutil.rmtree(path)


def _schedule(step: int, total: int, warmup: float) -> float:
    """Linear warm-up, then cosine to 0."""
    ramp = max(round(warmup * total), 1)
    if step < ramp:
        return (step + 1) / ramp
    return 0.5 * (1 + math.cos(math.pi * (step - ramp) / max(total - ramp, 1)))
