"""One policy update: rows and streams become optimiser steps. Knows terms and weights, no method names.

A minibatch (one optimiser step) is a number of whole groups; its micro-batches only bound memory. Every term is a sum
with weights that were computed over the whole minibatch, so the micro-batch size never changes the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def build_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.AdamW:
    """AdamW with decay on matrices only (norm weights are left alone)."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    vectors = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=settings.lr, betas=(0.9, 0.999), foreach=True)


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
    settings: TrainSettings,
    *,
    coefficient: float,
    gate: Callable[[Tensor], Tensor] | None,
    temperature: float,
    first_step: int,
    rehearse: Callable[[int], Sequence[SftRow]],
) -> dict[str, Any]:
    """Take one optimiser step per minibatch and return metrics.

    ``rehearse(step)`` gives Stage-1 rows to add, often none. Raises ``NonFinite`` before a step with a non-finite
    gradient. Without any sampled token nothing changes.
    """
    sums: dict[str, dict[str, Tensor]] = {term: {} for term in _TERMS}
    losses = dict.fromkeys((*_TERMS, "rehearsal"), 0.0)
    norms, steps = [], 0
    parts = _probe(model, rows, settings, coefficient, gate, temperature) if rows else {}
    for batch in minibatches(rows, settings.minibatch_rows):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * min(1.0, (first_step + steps + 1) / max(settings.warmup, 1))
        optimizer.zero_grad(set_to_none=True)
        weights = _weights(batch, settings)
        for micro in micro_batches([len(r.score.ids_T) for r in batch], settings.micro_tokens):
            terms = _terms(
                model,
                [batch[i] for i in micro],
                [weights[i] for i in micro],
                settings,
                coefficient,
                gate,
                temperature,
                sums,
            )
            for name, term in terms.items():
                losses[name] += float(term.detach())
            sum(terms.values()).backward()
        losses["rehearsal"] += _rehearse(model, rehearse(first_step + steps), settings)
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip))
        if not np.isfinite(norm):
            raise NonFinite(
                f"the gradient norm of optimiser step {first_step + steps + 1} is {norm}; losses so far: {losses}"
            )
        optimizer.step()
        norms.append(norm)
        steps += 1
    return _report(sums, losses, norms, parts, steps, optimizer.param_groups[0]["lr"])


def _probe(
    model: nn.Module,
    rows: Sequence[Row],
    settings: TrainSettings,
    coefficient: float,
    gate: Callable[[Tensor], Tensor] | None,
    temperature: float,
) -> dict[str, float]:
    """Gradient norm of each weighted term before the update.

    On a few rows spread over it, because a backward pass per term is dear.
    """
    few = rows[:: -(-len(rows) // _PROBE_ROWS)]
    terms = _terms(
        model, few, _weights(few, settings), settings, coefficient, gate, temperature, {term: {} for term in _TERMS}
    )
    return {
        name: _norm(torch.autograd.grad(term, list(model.parameters()), retain_graph=True, allow_unused=True))
        for name, term in terms.items()
    }


def _terms(
    model: nn.Module,
    rows: Sequence[Row],
    weights: Sequence[tuple[np.ndarray, np.ndarray]],
    settings: TrainSettings,
    coefficient: float,
    gate: Callable[[Tensor], Tensor] | None,
    temperature: float,
    sums: dict[str, dict[str, Tensor]],
) -> dict[str, Tensor]:
    """The weighted terms of one micro-batch as they are summed into the objective (DESIGN 1.7)."""
    logits, targets = selected_logits(model, [r.score for r in rows])
    device = logits.device

    def flat(values: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(values)).to(device)

    logp = selected_logprobs(logits, targets, temperature)
    weight, taught = flat([w for w, _ in weights]), flat([w for _, w in weights])
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
    spread = entropy(logits if settings.entropy_coefficient else logits.detach(), temperature)
    _add(sums["entropy"], {"tokens": torch.tensor(len(logp)), "entropy": spread.detach().sum()})
    if settings.entropy_coefficient:
        terms["entropy"] = -settings.entropy_coefficient * weighted_sum(spread, weight)
    if settings.kl_coefficient:
        kl = kl_loss(logp, flat([r.reference for r in rows]), weight)
        _add(sums["kl"], kl.metrics)
        terms["kl"] = settings.kl_coefficient * kl.loss
    if gate is not None and coefficient:
        opd = opd_loss(logp, flat([r.teacher for r in rows]), taught, gate)
        _add(sums["opd"], opd.metrics)
        terms["opd"] = coefficient * opd.loss
    return terms


def _weights(batch: Sequence[Row], settings: TrainSettings) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per row (policy weights, distillation weights) over the whole minibatch; each term has its own token count."""
    longest = max(len(r.old) for r in batch)
    masks = torch.zeros(2, len(batch), longest, dtype=torch.bool)
    for i, row in enumerate(batch):
        masks[0, i, : len(row.old)] = True
        masks[1, i, : len(row.old)] = torch.from_numpy(~np.isnan(row.teacher))
    policy, taught = (aggregation_weights(mask, settings.aggregation).numpy() for mask in masks)
    return [(policy[i, : len(row.old)], taught[i, : len(row.old)]) for i, row in enumerate(batch)]


def answer_loss(
    model: nn.Module, rows: Sequence[SftRow], micro_tokens: int, rehearsal: float, scale: float = 1.0
) -> float:
    """Stage-1 loss of ``rows``, gradients accumulated.

    Mean NLL of the answers plus ``rehearsal`` times that of the own actions.
    """
    if not rows:
        return 0.0
    counts = [max(sum(int(getattr(r, name).sum()) for r in rows), 1) for name in ("answer_T", "action_T")]
    total = 0.0
    for micro in micro_batches([len(r.ids_T) for r in rows], micro_tokens):
        picked = [rows[i] for i in micro]
        masks = [r.answer_T | r.action_T if rehearsal else r.answer_T for r in picked]
        logits, targets = selected_logits(model, [ScoreRow(r.ids_T, m) for r, m in zip(picked, masks, strict=True)])
        weight = np.concatenate(
            [np.where(r.answer_T[m], 1 / counts[0], rehearsal / counts[1]) for r, m in zip(picked, masks, strict=True)]
        )
        loss = -scale * weighted_sum(
            selected_logprobs(logits, targets), torch.from_numpy(weight.astype(np.float32)).to(logits.device)
        )
        if torch.is_grad_enabled():
            loss.backward()
        total += float(loss.detach())
    return total


def _rehearse(model: nn.Module, rows: Sequence[SftRow], settings: TrainSettings) -> float:
    return answer_loss(model, rows, settings.micro_tokens, rehearsal=0.0, scale=settings.rehearsal_weight)


def _teacher(sample: Sample, stream: Streams) -> np.ndarray:
    at = sample.sampled_T
    if stream.teacher_T is None or stream.opd_mask_T is None:
        return np.full(int(at.sum()), np.nan, np.float32)
    return np.where(stream.opd_mask_T, stream.teacher_T, np.nan)[at].astype(np.float32)


def _add(into: dict[str, Tensor], metrics: dict[str, Tensor]) -> None:
    for name, value in metrics.items():
        into[name] = into.get(name, 0) + value.detach().cpu()


def _norm(grads: Sequence[Tensor | None]) -> float:
    return float(torch.sqrt(sum((g.float().square().sum() for g in grads if g is not None), torch.zeros(()))))


def _report(
    sums: dict[str, dict[str, Tensor]],
    losses: dict[str, float],
    norms: list[float],
    parts: dict[str, float],
    steps: int,
    lr: float,
) -> dict[str, Any]:
    means = {term: mean_metrics(values) for term, values in sums.items() if values}
    out: dict[str, Any] = {"optimizer_steps": steps, "lr": lr, "grad_norm": float(np.mean(norms)) if norms else 0.0}
    out |= {f"loss_{name}": value / max(steps, 1) for name, value in losses.items()}
    out |= {f"grad_{name}": value for name, value in parts.items()}
    out["loss_total"] = sum(losses.values()) / max(steps, 1)
    if "policy" in means:
        out |= {
            "tokens_trained": int(means["policy"]["tokens"]),
            "clip_share": means["policy"]["clipped"],
            "old_kl": means["policy"]["old_kl"],
            "outlier_share": means["policy"]["outlier"],
            "entropy": means["entropy"]["entropy"],
        }
    if "kl" in means:
        out["kl"] = means["kl"]["kl"]
    if "opd" in means:
        out["opd_dropped"] = int(means["opd"]["dropped"])
    return out
