"""The one place where an operation of the golden vectors meets the public functions of seedbed.

A vector is what the official code does with fresh inputs. Each function here takes the ``inputs`` of a case and returns
results under the names of its ``expected``; it may compose public functions in the order the vector's operation says,
but computes nothing of its own. To cover an operation: write the function, add it to ``OPERATIONS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from seedbed import loss
from seedbed.algo import SeedSettings
from seedbed.algo.advantages import AdvantageSettings, group_advantages
from seedbed.algo.seed import Seed

Json = dict[str, Any]
KL_KINDS = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}  #: the official code has two names for each


def tensor(values: Any, *, grad: bool = False) -> Tensor:
    """Nested lists, in which "nan", "inf", "-inf" are strings, as float32."""

    def numbers(value: Any) -> Any:
        return [numbers(v) for v in value] if isinstance(value, list) else float(value)

    return torch.tensor(numbers(values), dtype=torch.float32, requires_grad=grad)


def gate(beta: float) -> Callable[[Tensor], Tensor]:
    return Seed(SeedSettings(sharpness=beta)).gate


def opd_loss(inputs: Json) -> Json:
    student, teacher = tensor(inputs["student_logp"], grad=True), tensor(inputs["teacher_logp"])
    mask, steps = tensor(inputs["response_mask"]), inputs["step_mask"]
    if mask.shape != student.shape:
        raise ValueError("the response mask has another shape")
    if steps is not None:
        step_mask = tensor(steps)
        mask = mask * (step_mask.unsqueeze(1) if step_mask.dim() == 1 else step_mask)
    mask = torch.where(torch.isfinite(teacher), mask, 0.0)  # as Seed.streams does
    beta = inputs["gate_beta"]
    term = loss.opd_loss(student, teacher, loss.aggregation_weights(mask, inputs["loss_agg_mode"]), gate(beta))
    term.loss.backward()
    means, gap = loss.mean_metrics(term.metrics), teacher - student.detach()
    return {
        "loss": term.loss,
        "grad_student_logp": student.grad,
        "opd_active_token_ratio": means["tokens"] / mask.numel(),
        "opd_gate_mean": means["gate"],
        "opd_gate_active_ratio": means["gate_open"],
        "opd_teacher_gap_mean": means["gap"],
        "gate_per_token": gate(beta)(gap),
        "gap_per_token": gap,
    }


def settings(inputs: Json, **more: Any) -> AdvantageSettings:
    return AdvantageSettings(normalise={"mean_std_norm": "mean_std", "mean_norm": "mean"}[inputs["mode"]], **more)


def over_tokens(rows: Iterable[float], inputs: Json) -> list[list[float]]:
    return [[float(a)] * n + [0.0] * (inputs["T"] - n) for a, n in zip(rows, inputs["response_len"], strict=True)]


def episode_advantage(inputs: Json) -> Json:
    how = settings(inputs, epsilon=inputs["epsilon"], statistics=inputs["stats_across"])
    rows = group_advantages(inputs["uid"], inputs["traj_uid"], inputs["row_reward"], how)
    return {"row_advantage": rows, "advantages": over_tokens(rows, inputs)}


def reward_to_advantage(inputs: Json) -> Json:
    penalty = inputs["invalid_action_penalty_coef"]
    scores = [r - penalty * bad for r, bad in zip(inputs["episode_reward"], inputs["action_invalid"], strict=True)]
    kept = [row for row, length in enumerate(inputs["response_len"]) if length]  # as advantage_streams does
    values = group_advantages(
        [inputs["uid"][r] for r in kept],
        [inputs["traj_uid"][r] for r in kept],
        [scores[r] for r in kept],
        settings(inputs),
    )
    rows = [0.0] * len(scores)
    for row, value in zip(kept, values, strict=True):
        rows[row] = float(value)
    return {"row_score": scores, "row_advantage": rows, "advantages": over_tokens(rows, inputs)}


def clipped_report(term: loss.Term, logp: Tensor) -> Json:
    term.loss.backward()
    means = loss.mean_metrics(term.metrics)
    return {
        "pg_loss": term.loss,
        "grad_log_prob": logp.grad,
        "pg_clipfrac": means["clipped"],
        "pg_clipfrac_lower": means["dual_clipped"],
        "ppo_kl": means["old_kl"],
    }


def policy_loss(inputs: Json) -> Json:
    logp = tensor(inputs["log_prob"], grad=True)
    both = inputs["cliprange"]
    low, high = inputs["cliprange_low"], inputs["cliprange_high"]
    term = loss.policy_loss(
        logp,
        tensor(inputs["old_log_prob"]),
        tensor(inputs["advantages"]),
        loss.aggregation_weights(tensor(inputs["response_mask"]), inputs["loss_agg_mode"]),
        clip_low=both if low is None else low,
        clip_high=both if high is None else high,
        dual_clip=inputs["clip_ratio_c"],
    )
    return clipped_report(term, logp)


def policy_loss_gspo(inputs: Json) -> Json:
    logp, mask = tensor(inputs["log_prob"], grad=True), tensor(inputs["response_mask"])
    term = loss.policy_loss(
        loss.sequence_log_ratio(logp, tensor(inputs["old_log_prob"]), mask),
        torch.zeros_like(logp),
        tensor(inputs["advantages"]),
        loss.aggregation_weights(mask, "seq-mean-token-mean"),  # official: whatever was asked for
        clip_low=inputs["cliprange_low"],
        clip_high=inputs["cliprange_high"],
        dual_clip=1e9,  # official: GSPO has none
    )
    return clipped_report(term, logp)


def kl_loss(inputs: Json) -> Json:
    logp, ref = tensor(inputs["log_prob"], grad=True), tensor(inputs["ref_log_prob"])
    kind = KL_KINDS.get(inputs["kl_type"], inputs["kl_type"])
    weight = loss.aggregation_weights(tensor(inputs["response_mask"]), inputs["loss_agg_mode"])
    term = loss.kl_loss(logp, ref, weight, kind=kind)
    term.loss.backward()
    one = torch.ones(1)
    per_token = [
        [loss.kl_loss(a[None], b[None], one, kind=kind).loss for a, b in zip(*rows, strict=True)]
        for rows in zip(logp.detach(), ref, strict=True)
    ]
    return {"kl_loss": term.loss, "grad_log_prob": logp.grad, "kl_per_token": per_token}


def agg_loss(inputs: Json) -> Json:
    weight = loss.aggregation_weights(tensor(inputs["loss_mask"]), inputs["loss_agg_mode"])
    return {"loss": loss.weighted_sum(tensor(inputs["loss_mat"]), weight)}


def entropy(inputs: Json) -> Json:
    logits = tensor(inputs["logits"], grad=True)
    per_token = loss.entropy(logits)
    weight = loss.aggregation_weights(tensor(inputs["response_mask"]), inputs["loss_agg_mode"])
    mean = loss.weighted_sum(per_token, weight)
    mean.backward()
    return {"entropy_per_token": per_token, "entropy": mean, "grad_logits": logits.grad}


def logprob_from_logits(inputs: Json) -> Json:
    ids = torch.tensor(inputs["labels"])
    return {"log_prob": loss.selected_logprobs(tensor(inputs["logits"]), ids, inputs["temperature"])}


def actor_total_loss(inputs: Json, rows: int | None = None) -> Json:
    """Whole optimiser step in micro-batches of ``rows`` (default: the case's). ``micro_batches`` holds each of them
    normalised by its own tokens, as the official code logs it; the total uses weights over the step."""
    size = rows or inputs["micro_batch_rows"]
    mask = tensor(inputs["response_mask"])
    opd_mask = mask * tensor(inputs["teacher_row_mask"]).unsqueeze(1)
    logits = tensor(inputs["logits"], grad=True)
    whole = slice(0, len(mask))
    parts = [slice(start, start + size) for start in range(0, len(mask), size)]

    def terms(part: slice, scope: slice) -> tuple[Tensor, Json]:
        mode = inputs["loss_agg_mode"]
        weight = loss.aggregation_weights(mask[scope], mode)
        opd_weight = loss.aggregation_weights(opd_mask[scope], mode)
        if scope is whole:
            weight, opd_weight = weight[part], opd_weight[part]
        logp = loss.selected_logprobs(logits[part], torch.tensor(inputs["labels"])[part])
        policy = loss.policy_loss(
            logp,
            tensor(inputs["old_log_prob"])[part],
            tensor(inputs["advantages"])[part],
            weight,
            clip_low=inputs["clip"],
            clip_high=inputs["clip"],
            dual_clip=inputs["clip_ratio_c"],
        )
        opd = loss.opd_loss(logp, tensor(inputs["teacher_logp"])[part], opd_weight, gate(inputs["opd_gate_beta"]))
        kl = loss.kl_loss(logp, tensor(inputs["ref_log_prob"])[part], weight, kind=inputs["kl_type"])
        spread = loss.weighted_sum(loss.entropy(logits[part]), weight)
        total = (
            policy.loss
            - inputs["entropy_coeff"] * spread
            + inputs["opd_loss_coef"] * opd.loss
            + inputs["kl_loss_coef"] * kl.loss
        )
        means = loss.mean_metrics(policy.metrics)
        return total, {
            "pg_loss": policy.loss,
            "entropy": spread,
            "opd_loss": opd.loss,
            "kl_loss": kl.loss,
            "policy_loss": total,
            "pg_clipfrac": means["clipped"],
            "ppo_kl": means["old_kl"],
            "opd_active_token_ratio": int(opd.metrics["tokens"]) / mask[part].numel(),
        }

    total = torch.zeros(())
    for part in parts:
        value, _ = terms(part, whole)
        value.backward()
        total += value.detach()
    return {"total_loss": total, "grad_logits": logits.grad, "micro_batches": [terms(part, part)[1] for part in parts]}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "opd_loss": opd_loss,
    "episode_advantage": episode_advantage,
    "grpo_outcome_advantage": episode_advantage,  # the same estimator under another name
    "reward_to_advantage": reward_to_advantage,
    "policy_loss": policy_loss,
    "policy_loss_gspo": policy_loss_gspo,
    "kl_loss": kl_loss,
    "agg_loss": agg_loss,
    "entropy": entropy,
    "logprob_from_logits": logprob_from_logits,
    "actor_total_loss": actor_total_loss,
}

#: Operations without a counterpart here, each with the reason. Everything in neither table fails the test.
NOT_YET: dict[str, str] = {
    **dict.fromkeys(
        (
            "sdar_loss",
            "skill_sd_loss",
            "rlsd_advantage",
            "rlsd_lambda_schedule",
            "skillsd_lambda_schedule",
            "gigpo_step_groups",
            "step_discounted_returns",
            "gigpo_advantage",
            "opid_advantage",
            "select_skill_teacher_sources",
        ),
        "the method family around SEED is later work",
    ),
    **dict.fromkeys(("project_action_tag", "parse_analysis"), "text, not numbers: text_ops.py and test_golden_text.py"),
    **dict.fromkeys(
        ("project_ezpoints", "projection_requires_think"), "text, not numbers: visual_ops.py and test_golden_visual.py"
    ),
    **dict.fromkeys(
        ("insert_skill", "left_truncation_of_skill", "pad_or_truncate", "extract_task_description"),
        "a skill fills a slot of a structured prompt here; no rendered text is edited",
    ),
    **dict.fromkeys(
        ("project_search", "answer_score", "search_episode", "normalize_answer"),
        "text, not numbers: search_ops.py and test_golden_search.py",
    ),
    **dict.fromkeys(
        ("webshop_reward", "attribute_reward", "option_reward", "type_reward", "normalize_color", "token_set_ratio"),
        "a case at a time: webshop_ops.py and test_golden_webshop.py",
    ),
}

#: Results of the official code that have no counterpart by design: (operation, key) -> reason.
NO_COUNTERPART: dict[tuple[str, str], str] = {
    ("opd_loss", "loss_requires_grad"): "an empty term is 0 with gradient 0, so it can always be added and backed",
    ("reward_to_advantage", "metrics"): "names of the official log",
    ("reward_to_advantage", "token_level_rewards"): "rewards belong to turns, never to a token position",
    ("reward_to_advantage", "step_reward_after_penalty"): "only used by estimators with step rewards",
}
