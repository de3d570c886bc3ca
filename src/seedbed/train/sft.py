"""Stage 1, third step: fine-tune the policy to write the skills itself (paper 1.1, L_sft), then look at both roles.

Loss on the annotated answer only, as in the paper. ``sft.rehearsal`` adds the episode's own action tokens of the same
rows (ours): a tiny probe forgot how to act without them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from seedbed.config import Config
from seedbed.engines.torch_engine import TorchEngine
from seedbed.envs.base import make_environment
from seedbed.envs.panels import load_panel
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.skills.analyze import analyze, coverage
from seedbed.skills.sft_data import SftRow, build_rows, save_rows, split_rows
from seedbed.track.run import Run
from seedbed.track.store import read_skills
from seedbed.train.answers import answer_losses
from seedbed.train.collect import read_collected
from seedbed.train.interrupt import Interrupt, Stopped
from seedbed.train.model import load_engine, model_facts, same_tokens
from seedbed.train.state import latest_checkpoint, load_checkpoint, save_checkpoint
from seedbed.train.update import NonFinite, build_optimizer
from seedbed.types import Skill, UserError


def fine_tune(
    run: Run,
    config: Config,
    collected: Run,
    *,
    resume: bool = False,
    report: Callable[[dict[str, Any]], None] = lambda row: None,
) -> None:
    """Build the rows, train ``sft.epochs`` epochs, save a checkpoint after each. Resumes at an epoch's end.

    Raises ``UserError`` without a single valid skill and ``Stopped`` after a Ctrl-C.
    """
    settings = config.sft
    engine, renderer = load_engine(config.model)
    same_tokens(collected, config.model, renderer)
    train, validation, skills = _rows(config, collected, renderer)
    run.begin(config, "sft", collect_dir=str(collected.path), **model_facts(config.model, renderer))
    save_rows(run.path, train, validation, skills, collected.path)
    model = engine.model
    optimizer = build_optimizer(
        model, settings.lr, settings.weight_decay, betas=(0.9, 0.95)
    )  # official code, Stage-1 scripts
    done = 0
    if resume:
        newest = latest_checkpoint(run.checkpoints)
        done = load_checkpoint(newest, model, optimizer)["update"] if newest else 0
        run.rewind(done)
    per_epoch = math.ceil(len(train) / settings.batch_rows)
    with Interrupt() as interrupt:
        for epoch in range(done, settings.epochs):
            order = np.random.default_rng([config.seed, 3, epoch]).permutation(len(train))
            losses = []
            for i in range(per_epoch):
                step = epoch * per_epoch + i
                for group in optimizer.param_groups:
                    group["lr"] = settings.lr * _schedule(step, per_epoch * settings.epochs, settings.warmup)
                optimizer.zero_grad(set_to_none=True)
                rows = [train[j] for j in order[i * settings.batch_rows : (i + 1) * settings.batch_rows]]
                losses.append(0.0)
                for loss in answer_losses(model, rows, settings.micro_tokens, settings.rehearsal):
                    loss.backward()
                    losses[-1] += float(loss.detach())
                norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip))
                if not math.isfinite(norm):
                    raise NonFinite(f"the gradient norm of Stage-1 step {step + 1} is {norm}")
                optimizer.step()
            with torch.no_grad():
                held_out = [float(x) for x in answer_losses(model, validation, settings.micro_tokens, rehearsal=0.0)]
            row = {
                "update": epoch + 1,
                "steps": (epoch + 1) * per_epoch,
                "loss": float(np.mean(losses)),
                "validation_loss": sum(held_out) if held_out else None,
            }
            run.log(row)
            report(row)
            save_checkpoint(run.checkpoints, epoch + 1, model, renderer, optimizer, {"optimizer_steps": row["steps"]})
            if interrupt.requested and epoch + 1 < settings.epochs:
                raise Stopped(
                    f"stopped after epoch {epoch + 1} of {settings.epochs}; go on with: seedbed sft --resume {run.path}"
                )


def measure(engine: TorchEngine, renderer: Renderer, config: Config, *, tasks: int | None = None) -> dict[str, Any]:
    """Both roles of one policy at temperature 1: acting success, and the share of its own trajectories it can analyse.

    On every task of the panel, or on ``tasks`` of them spread evenly.
    """
    environment = make_environment(config.env.name, **config.env.options)
    settings = config.rollout.model_copy(update={"temperature": 1.0})
    panel = load_panel(config.env.panel).tasks
    chosen = panel[:: max(len(panel) // tasks, 1)][:tasks] if tasks else panel
    groups = collect_groups(engine, environment, renderer, settings, chosen, 1, seed=config.seed)
    trajectories = [t for g in groups for t in g.attempts_G]
    skills = analyze(engine, renderer, trajectories, config.analyzer)
    engine.release()
    return {
        "acting_success": float(np.mean([t.won for t in trajectories])),
        "episodes": len(trajectories),
        **coverage(skills, trajectories),
    }


def _rows(config: Config, collected: Run, renderer: Renderer) -> tuple[list[SftRow], list[SftRow], dict[str, Skill]]:
    """Train rows, validation rows, and the skills they come from."""
    skills = {s.trajectory: s for s, _ in read_skills(collected.skills)} if collected.skills.exists() else {}
    rows = build_rows(read_collected(collected), skills, renderer, config.sft.max_tokens)
    if not rows:
        raise UserError(
            f"{collected.path} holds no valid skill, so there is nothing to fine-tune on: run seedbed annotate first"
        )
    if config.sft.rehearsal and not any(row.action_T.any() for row in rows):
        raise UserError(
            f"sft.rehearsal={config.sft.rehearsal:g} has nothing to act on: rows of the windowed layout hold no "
            "sampled action; set sft.rehearsal=0 or collect with rollout.layout=transcript"
        )
    return *split_rows(rows, config.sft.validation, config.seed), skills


def _schedule(step: int, total: int, warmup: float) -> float:
    """Linear warm-up, then cosine to 0."""
    ramp = max(round(warmup * total), 1)
    if step < ramp:
        return (step + 1) / ramp
    return 0.5 * (1 + math.cos(math.pi * (step - ramp) / max(total - ramp, 1)))
