"""One policy update: rows and streams become optimiser steps. Knows terms and weights, no method names.

A minibatch (one optimiser step) is a number of whole groups; its micro-batches only bound memory. Every term is a sum
with weights that were computed over the whole minibatch, so the micro-batch size never changes the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seedbed.config import TrainSettings
from seedbed.engines.base import ScoreRow
from seedbed.engines.forward import micro_batches, selected_logits
from seedbed.loss import (
    aggregation_weights,
    entropy,
    kl_loss,
    mean_metrics,
    opd_loss,
    policy_loss,
    selected_logprobs,
    weighted_sum,
)
from seedbed.skills.sft_data import SftRow
from seedbed.train.answers import answer_losses
from seedbed.types import Batch, Sample, Streams

_TERMS = ("policy", "opd", "kl", "entropy")
_PROBE_ROWS = 4


class NonFinite(RuntimeError):
    """A loss or gradient is not finite. The step was not taken; the last checkpoint is intact."""


@dataclass(frozen=True, slots=True)
class Row:
    """A training row with everything the loss needs, per sampled token (flat, in row order)."""

    score: ScoreRow
    turns: int
    group: str
    old: np.ndarray
    advantage: np.ndarray
    teacher: np.ndarray  #: NaN where the token takes no part in distillation
    reference: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised: the settings of the terms and the distillation of the algorithm (no gate: none)."""

    settings: TrainSettings
    temperature: float
    coefficient: float
    gate: Callable[[Tensor], Tensor] | None


def build_optimizer(
    model: nn.Module, lr: float, weight_decay: float, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.AdamW:
    """AdamW with decay on matrices only (norm weights are left alone)."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    vectors = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=betas, foreach=True)


def build_rows(batch: Batch, reference: Sequence[np.ndarray] | None) -> list[Row]:
    """Align samples, scores, streams and reference log-probs. Old log-probs are the scorer's ordinary ones."""
    rows = []
    for i, (sample, score, stream) in enumerate(zip(batch.samples, batch.scores, batch.streams, strict=True)):
        at = sample.sampled_T
        rows.append(
            Row(
                ScoreRow(sample.ids_T, at),
                len(sample.turns),
                sample.trajectory.task.id,
                score.ordinary_T[at],
                stream.advantage_T[at],
                _teacher(sample, stream),
                None if reference is None else reference[i],
            )
        )
    return rows


def minibatches(rows: Sequence[Row], turns: int) -> list[list[Row]]:
    """Whole groups, in order, at least ``turns`` turns each (the last may be smaller)."""
    out: list[list[Row]] = [[]]
    for i, row in enumerate(rows):
        starts_group = i > 0 and rows[i - 1].group != row.group
        if starts_group and sum(r.turns for r in out[-1]) >= turns:
            out.append([])
        out[-1].append(row)
    return [m for m in out if m]


def update_policy(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Row],
    objective: Objective,
    *,
    first_step: int,
    rehearse: Callable[[int], Sequence[SftRow]],
) -> dict[str, Any]:
    """Take one optimiser step per minibatch and return metrics.

    ``rehearse(step)`` gives Stage-1 rows to add, often none. Raises ``NonFinite`` before a step with a non-finite
    gradient. Without any sampled token nothing changes.
    """
    settings = objective.settings
    sums: dict[str, dict[str, Tensor]] = {term: {} for term in _TERMS}
    losses = dict.fromkeys((*_TERMS, "rehearsal"), 0.0)
    norms, steps = [], 0
    probe = _probe(model, rows, objective) if rows else {}
    for batch in minibatches(rows, settings.minibatch_rows):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * min(1.0, (first_step + steps + 1) / max(settings.warmup, 1))
        optimizer.zero_grad(set_to_none=True)
        for terms in _micro_terms(model, batch, objective, sums):
            for name, term in terms.items():
                losses[name] += float(term.detach())
            sum(terms.values()).backward()
        for loss in answer_losses(model, rehearse(first_step + steps), settings.micro_tokens, rehearsal=0.0):
            (settings.rehearsal_weight * loss).backward()
            losses["rehearsal"] += settings.rehearsal_weight * float(loss.detach())
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip))
        if not np.isfinite(norm):
            raise NonFinite(
                f"the gradient norm of optimiser step {first_step + steps + 1} is {norm}; losses so far: {losses}"
            )
        optimizer.step()
        norms.append(norm)
        steps += 1
    return _report(sums, losses, norms, probe, steps, optimizer.param_groups[0]["lr"])


def _probe(model: nn.Module, rows: Sequence[Row], objective: Objective) -> dict[str, float]:
    """Norm of each weighted term's gradient before the update, on a few rows: a backward pass per term is dear.

    Rows with an advantage come first, lest a draw of tied groups show a policy gradient of 0 that the update has not.
    """
    ranked = sorted(range(len(rows)), key=lambda i: not rows[i].advantage.any())
    active = [rows[i] for i in ranked[: max(sum(bool(r.advantage.any()) for r in rows), _PROBE_ROWS)]]
    few = active[:: -(-len(active) // _PROBE_ROWS)]
    total: dict[str, list[Tensor | None]] = {}
    for terms in _micro_terms(model, few, objective, {term: {} for term in _TERMS}):
        for name, term in terms.items():
            grads = torch.autograd.grad(term, list(model.parameters()), retain_graph=True, allow_unused=True)
            total[name] = [_plus(a, b) for a, b in zip(total.get(name, [None] * len(grads)), grads, strict=True)]
    return {name: _norm(grads) for name, grads in total.items()}


def _micro_terms(
    model: nn.Module, batch: Sequence[Row], objective: Objective, sums: dict[str, dict[str, Tensor]]
) -> Iterator[dict[str, Tensor]]:
    """The weighted terms of each micro-batch of one optimiser step, as they are summed into the objective.

    ``sums`` collects the terms' metrics.
    """
    settings, weights = objective.settings, _weights(batch, objective.settings)
    for micro in micro_batches([len(r.score.ids_T) for r in batch], settings.micro_tokens):
        rows = [batch[i] for i in micro]
        logits, targets = selected_logits(model, [r.score for r in rows])

        def flat(values: Sequence[np.ndarray], device: torch.device = logits.device) -> Tensor:
            return torch.from_numpy(np.concatenate(values)).to(device)

        logp = selected_logprobs(logits, targets, objective.temperature)
        weight, taught = (flat([weights[i][which] for i in micro]) for which in (0, 1))
        policy = policy_loss(
            logp,
            flat([r.old for r in rows]),
            flat([r.advantage for r in rows]),
            weight,
            clip_low=settings.clip,
            clip_high=settings.clip,
            dual_clip=settings.dual_clip,
        )
        _add(sums["policy"], policy.metrics)
        terms = {"policy": policy.loss}
        spread = entropy(logits if settings.entropy_coefficient else logits.detach(), objective.temperature)
        _add(sums["entropy"], {"tokens": torch.tensor(len(logp)), "entropy": spread.detach().sum()})
        if settings.entropy_coefficient:
            terms["entropy"] = -settings.entropy_coefficient * weighted_sum(spread, weight)
        if settings.kl_coefficient:
            kl = kl_loss(logp, flat([r.reference for r in rows]), weight)
            _add(sums["kl"], kl.metrics)
            terms["kl"] = settings.kl_coefficient * kl.loss
        if objective.gate is not None and objective.coefficient:
            opd = opd_loss(logp, flat([r.teacher for r in rows]), taught, objective.gate)
            _add(sums["opd"], opd.metrics)
            terms["opd"] = objective.coefficient * opd.loss
        yield terms


def _weights(batch: Sequence[Row], settings: TrainSettings) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per row (policy weights, distillation weights) over the whole minibatch; each term has its own token count."""
    longest = max(len(r.old) for r in batch)
    masks = torch.zeros(2, len(batch), longest, dtype=torch.bool)
    for i, row in enumerate(batch):
        masks[0, i, : len(row.old)] = True
        masks[1, i, : len(row.old)] = torch.from_numpy(~np.isnan(row.teacher))
    policy, taught = (aggregation_weights(mask, settings.aggregation).numpy() for mask in masks)
    return [(policy[i, : len(row.old)], taught[i, : len(row.old)]) for i, row in enumerate(batch)]


def _teacher(sample: Sample, stream: Streams) -> np.ndarray:
    at = sample.sampled_T
    if stream.teacher_T is None or stream.opd_mask_T is None:
        return np.full(int(at.sum()), np.nan, np.float32)
    return np.where(stream.opd_mask_T, stream.teacher_T, np.nan)[at].astype(np.float32)


def _add(into: dict[str, Tensor], metrics: dict[str, Tensor]) -> None:
    for name, value in metrics.items():
        into[name] = into.get(name, 0) + value.detach().cpu()


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def _norm(grads: Sequence[Tensor | None]) -> float:
    return float(torch.sqrt(sum((g.float().square().sum() for g in grads if g is not None), torch.zeros(()))))


def _report(
    sums: dict[str, dict[str, Tensor]],
    losses: dict[str, float],
    norms: list[float],
    probe: dict[str, float],
    steps: int,
    lr: float,
) -> dict[str, Any]:
    means = {term: mean_metrics(values) for term, values in sums.items() if values}
    out: dict[str, Any] = {"optimizer_steps": steps, "lr": lr, "grad_norm": float(np.mean(norms)) if norms else 0.0}
    out |= {f"loss_{name}": value / max(steps, 1) for name, value in losses.items()}
    out |= {f"grad_probe_{name}": value for name, value in probe.items()}
    out["loss_total"] = sum(losses.values()) / max(steps, 1)
    if "policy" in means:
        out |= {
            "tokens_trained": int(means["policy"]["tokens"]),
            "clip_share": means["policy"]["clipped"],
            "dual_clip_share": means["policy"]["dual_clipped"],
            "old_kl": means["policy"]["old_kl"],
            "outlier_share": means["policy"]["outlier"],
            "entropy": means["entropy"]["entropy"],
        }
    if "kl" in means:
        out |= {"kl": means["kl"]["kl"], "kl_cut_share": means["kl"]["cut"]}
    if "opd" in means:  # while the policy moves; gap_* and gate_* of the snapshot are in track/metrics.py
        out |= {"opd_dropped": int(means["opd"]["dropped"]), "live_gap": means["opd"]["gap"]}
        out["live_gate"] = means["opd"]["gate"]
    return out
