"""What is minimised: every loss term as a weighted sum over tokens, in plain tensors.

Rules all functions share:

* Elementwise and shape-agnostic: a padded ``[B, T]`` block and the flat list of its selected tokens give the same sum.
* ``weight`` says how much a token counts; 0 means masked. Weights come from ``aggregation_weights`` over the *whole*
  optimiser step, so the terms of its micro-batches add up and their size never changes the gradient.
* Masked entries may hold NaN or infinity in any input: they are replaced before any arithmetic, because 0 * NaN is NaN.
* Arithmetic is float32, or float64 if the inputs are. A non-finite *policy* log-prob at an active token of the policy
  loss is not repaired: the loss turns NaN and the trainer stops.
* ``Term.metrics`` are detached sums and counts: add them over micro-batches, then ``mean_metrics``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
KlKind = Literal["low_var_kl", "kl", "abs", "mse"]

LOG_RATIO_BOUND = 20.0  #: nats; exp(20) is far outside every clip range and still far from overflow
LOW_VAR_KL_BOUND = 10.0  #: official code: the k3 estimate of one token is cut here
OUTLIER_RATIO = 2.0  #: probability ratios beyond this factor, either way, are counted
_COUNTS = frozenset({"tokens", "dropped"})  #: metrics that stay counts; all others become means over the tokens


@dataclass(frozen=True, slots=True)
class Term:
    """One part of the objective on one micro-batch."""

    loss: Tensor  #: scalar, sum over tokens of weight times value
    metrics: dict[str, Tensor]  #: scalars without gradient; sums over active tokens, ``tokens`` is their number


def mean_metrics(sums: Mapping[str, Tensor]) -> dict[str, float]:
    """Means per active token from metrics summed over micro-batches; ``tokens`` and ``dropped`` stay counts."""
    tokens = max(float(sums["tokens"]), 1.0)
    return {name: float(value) / (1.0 if name in _COUNTS else tokens) for name, value in sums.items()}


def aggregation_weights(mask_BT: Tensor, mode: Aggregation) -> Tensor:
    """Per-token weights ``w_BT`` (float32) that turn a sum over one optimiser step into the named mean.

    ``mask_BT`` [B, T] holds all rows of the step, bool or non-negative token weights. *token-mean*: over all tokens;
    *seq-mean-token-sum*: row sums, mean over all B rows; *seq-mean-token-mean*: row means, mean over the rows that
    have a token (ours: the official code divides 0 by 0 for the others); *seq-mean-token-sum-norm*: sum over T.
    An empty mask gives zeros. Raises ``ValueError`` for another mode or shape.
    """
    if mask_BT.dim() != 2:
        raise ValueError(f"a step mask is [rows, tokens], not {tuple(mask_BT.shape)}")
    mask = mask_BT.double()
    if mode == "token-mean":
        divisor = mask.sum()
    elif mode == "seq-mean-token-sum":
        divisor = mask.new_tensor(mask.shape[0])
    elif mode == "seq-mean-token-mean":
        row_sums = mask.sum(1, keepdim=True)
        divisor = row_sums * (row_sums > 0).sum()
    elif mode == "seq-mean-token-sum-norm":
        divisor = mask.new_tensor(mask.shape[1])
    else:
        raise ValueError(f"unknown aggregation {mode!r}")
    return torch.where(mask != 0, mask / divisor, 0.0).float()


def weighted_sum(value: Tensor, weight: Tensor) -> Tensor:
    """Sum of weight times value over the tokens whose weight is not 0; scalar."""
    (value,) = _select(_active(weight, value), value)
    return (weight * value).sum()


def policy_loss(
    logp_BT: Tensor,
    old_BT: Tensor,
    advantage_BT: Tensor,
    weight_BT: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float = 3.0,
) -> Term:
    """PPO clip with dual clip (paper 1.1; Ye et al. 2020): r = exp(logp - old),

        max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)), and for A < 0 at most -A dual_clip.

    Metrics: ``clipped``, ``dual_clipped``, ``old_kl`` (old - logp) and ``outlier`` (ratio beyond a factor of 2).
    Raises ``ValueError`` if ``dual_clip`` is not above 1 (it would cut the unclipped objective).
    """
    if dual_clip <= 1.0:
        raise ValueError(f"dual_clip must be above 1, not {dual_clip}")
    active = _active(weight_BT, logp_BT, old_BT, advantage_BT)
    logp, old, advantage = _select(active, logp_BT, old_BT.detach(), advantage_BT.detach())
    log_ratio = logp - old
    ratio = log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()
    plain = -advantage * ratio
    clipped = -advantage * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    pessimistic = torch.maximum(plain, clipped)
    ceiling = -advantage * dual_clip
    negative = advantage < 0
    value = torch.where(negative, torch.minimum(pessimistic, ceiling), pessimistic)
    shift = log_ratio.detach()
    return Term(
        (weight_BT * value).sum(),
        {
            "tokens": active.sum(),
            "clipped": (clipped > plain).sum(),
            "dual_clipped": (negative & (pessimistic > ceiling)).sum(),
            "old_kl": -shift.sum(),
            "outlier": (shift.abs() > math.log(OUTLIER_RATIO)).sum(),
        },
    )


def sequence_log_ratio(logp_BT: Tensor, old_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """GSPO's log-ratio (Zheng et al. 2025): every token of a row carries the row's mean of logp - old, [B, T].

    Use it as ``logp`` of ``policy_loss`` with ``old`` 0; the gradient still reaches each token's own log-prob. A row
    without a token has 0.
    """
    mask = mask_BT != 0
    logp, old = _select(mask, logp_BT, old_BT.detach())
    mean_B1 = (logp - old).detach().sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
    return logp - logp.detach() + mean_B1


def opd_loss(logp_BT: Tensor, teacher_BT: Tensor, weight_BT: Tensor, gate: Callable[[Tensor], Tensor]) -> Term:
    """Gated on-policy distillation (paper 1.1, L_opd): gap = sg[teacher - logp], value sg[gate(gap)] (teacher - logp).

    The gap is live: it uses the current log-probs, as the official code does, while ``teacher_BT`` was scored before
    the update. The gradient with respect to ``logp_BT`` is exactly ``-gate * weight``: never negative weights, and not
    zero at gap 0. Nothing flows into the teacher or the gate. Active tokens whose teacher or policy log-prob is not
    finite contribute 0 and are counted in ``dropped``.

    Metrics: ``gate``, ``gate_open`` (gate > 0.5), ``gap``, ``gap_abs``, ``gap_wide`` (abs > 0.1), ``gap_low`` (< -0.5).
    """
    active = _active(weight_BT, logp_BT, teacher_BT)
    used = active & torch.isfinite(teacher_BT) & torch.isfinite(logp_BT)
    logp, teacher = _select(used, logp_BT, teacher_BT.detach())
    gap = teacher - logp.detach()
    gate_BT = torch.where(used, gate(gap), 0.0)
    return Term(
        (weight_BT * gate_BT * (teacher - logp)).sum(),
        {
            "tokens": used.sum(),
            "dropped": (active & ~used).sum(),
            "gate": gate_BT.sum(),
            "gate_open": (gate_BT > 0.5).sum(),
            "gap": gap.sum(),
            "gap_abs": gap.abs().sum(),
            "gap_wide": (gap.abs() > 0.1).sum(),
            "gap_low": (gap < -0.5).sum(),
        },
    )


def kl_loss(logp_BT: Tensor, reference_BT: Tensor, weight_BT: Tensor, *, kind: KlKind = "low_var_kl") -> Term:
    """Estimate of KL(policy || reference) on sampled tokens (Schulman 2020), d = logp - reference:

    *kl* d; *abs* |d|; *mse* d^2 / 2; *low_var_kl* exp(-d) + d - 1, cut at 10 (official code). The cut has no gradient:
    the tokens that drifted most are not pulled back, so ``cut`` counts them. Raises ``ValueError`` for another kind.
    """
    active = _active(weight_BT, logp_BT, reference_BT)
    logp, reference = _select(active, logp_BT, reference_BT.detach())
    drift = logp - reference
    cut = torch.zeros_like(active)
    if kind == "kl":
        value = drift
    elif kind == "abs":
        value = drift.abs()
    elif kind == "mse":
        value = 0.5 * drift.square()
    elif kind == "low_var_kl":
        bounded = drift.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
        estimate = torch.exp(-bounded) + bounded - 1.0
        cut = estimate > LOW_VAR_KL_BOUND
        value = estimate.clamp(max=LOW_VAR_KL_BOUND)
    else:
        raise ValueError(f"unknown KL estimate {kind!r}")
    return Term((weight_BT * value).sum(), {"tokens": active.sum(), "kl": value.detach().sum(), "cut": cut.sum()})


def entropy(logits_TV: Tensor, temperature: float = 1.0) -> Tensor:
    """Entropy in nats of each next-token distribution, shape without the last axis; a -inf logit adds 0, not NaN."""
    logp = torch.log_softmax(_widen(logits_TV) / temperature, dim=-1)
    return -(logp.exp() * torch.where(torch.isfinite(logp), logp, 0.0)).sum(-1)


def selected_logprobs(logits_TV: Tensor, ids_T: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probs of ``ids_T``, where ``logits_TV[i]`` is the prediction *of* ``ids_T[i]`` (already shifted by one).

    The temperature must be the sampler's: the ratio to its log-probs is 1 only then.
    """
    logits = _widen(logits_TV) / temperature
    return logits.gather(-1, ids_T.long().unsqueeze(-1)).squeeze(-1) - torch.logsumexp(logits, dim=-1)


def _widen(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _active(weight: Tensor, *values: Tensor) -> Tensor:
    """Where the weight is not 0. Raises ``ValueError`` if a shape differs: torch would broadcast [B, T] against [T]."""
    for value in values:
        if value.shape != weight.shape:
            raise ValueError(f"shapes differ: weights {tuple(weight.shape)}, values {tuple(value.shape)}")
    return weight != 0


def _select(active: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
    """The values with 0 where not active: a masked NaN reaches neither the sum nor, through it, the gradient."""
    return tuple(torch.where(active, _widen(value), 0.0) for value in values)
