"""Do the loss terms have the values, gradients and blind spots they promise?"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seedbed.algo import SeedSettings, make_algorithm
from seedbed.loss import (
    Term,
    aggregation_weights,
    entropy,
    kl_loss,
    mean_metrics,
    opd_loss,
    policy_loss,
    selected_logprobs,
    sequence_log_ratio,
    weighted_sum,
)

GATE = make_algorithm(SeedSettings()).gate
MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")

TERMS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Term]] = {  #: (logp, other, advantage, weight)
    "policy": policy_loss,
    "opd": lambda logp, other, _, weight: opd_loss(logp, other, weight, GATE),
    **{
        kind: lambda logp, other, _, weight, kind=kind: kl_loss(logp, other, weight, kind=kind)
        for kind in ("low_var_kl", "kl", "abs", "mse")
    },
}


def step(seed: int, rows: int = 6, length: int = 9, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """logp, other, advantage and a ragged mask with one empty row, reproducible."""
    g = torch.Generator().manual_seed(seed)
    logp, other, advantage = (torch.randn(rows, length, generator=g, dtype=dtype) for _ in range(3))
    mask = torch.arange(length) < torch.randint(1, length + 1, (rows, 1), generator=g)
    mask[rows // 2] = False
    return -logp.abs(), -other.abs(), advantage, mask


def run(name: str, logp: Tensor, other: Tensor, advantage: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Term]:
    logp = logp.clone().requires_grad_()
    term = TERMS[name](logp, other, advantage, weight)
    term.loss.backward()
    return term.loss.detach(), logp.grad, term


# --- masks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", TERMS)
def test_junk_in_masked_places_changes_no_bit(name: str, junk: float) -> None:
    *inputs, mask = step(0)
    weight = aggregation_weights(mask, "token-mean")
    loss, grad, term = run(name, *(torch.where(mask, x, 0.0) for x in inputs), weight)
    dirty_loss, dirty_grad, dirty = run(name, *(torch.where(mask, x, junk) for x in inputs), weight)
    assert torch.equal(loss, dirty_loss) and torch.equal(grad, dirty_grad)
    assert torch.isfinite(loss) and grad.abs().sum() > 0
    for key, value in term.metrics.items():
        assert torch.equal(value, dirty.metrics[key]) and not value.requires_grad


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("mode", MODES)
def test_step_without_a_token_is_zero_with_zero_gradient(name: str, mode: str) -> None:
    *inputs, mask = step(1)
    loss, grad, term = run(name, *inputs, aggregation_weights(torch.zeros_like(mask), mode))
    assert loss == 0.0 and (grad == 0.0).all() and term.metrics["tokens"] == 0
    assert all(value == 0.0 for value in mean_metrics(term.metrics).values())


@pytest.mark.parametrize("name", TERMS)
def test_flat_selected_tokens_give_the_padded_result(name: str) -> None:
    *inputs, mask = step(2)
    weight = aggregation_weights(mask, "token-mean")
    loss, grad, term = run(name, *inputs, weight)
    flat_loss, flat_grad, flat = run(name, *(x[mask] for x in inputs), weight[mask])
    torch.testing.assert_close(flat_loss, loss)
    torch.testing.assert_close(flat_grad, grad[mask])
    assert mean_metrics(flat.metrics) == pytest.approx(mean_metrics(term.metrics))


def test_shapes_are_never_broadcast() -> None:
    logp = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="shapes differ"):
        opd_loss(logp, torch.zeros(2, 3), torch.ones(3), GATE)
    with pytest.raises(ValueError, match="shapes differ"):
        policy_loss(logp, logp, torch.zeros(2, 1), torch.ones(2, 3))


# --- aggregation -------------------------------------------------------------------------------------------------


def test_aggregations_by_hand() -> None:
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    value = torch.tensor([[1.0, 2.0, 3.0, 9.0], [10.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]])
    expected = {
        "token-mean": 16 / 4,
        "seq-mean-token-sum": 16 / 3,
        "seq-mean-token-mean": (2 + 10) / 2,
        "seq-mean-token-sum-norm": 16 / 4,
    }
    for mode, mean in expected.items():
        assert weighted_sum(value, aggregation_weights(mask, mode)) == pytest.approx(mean)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="token-sum"):
        aggregation_weights(torch.ones(1, 1), "token-sum")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rows, tokens"):
        aggregation_weights(torch.ones(3), "token-mean")
    with pytest.raises(ValueError, match="full"):
        kl_loss(torch.zeros(1), torch.zeros(1), torch.ones(1), kind="full")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dual_clip"):
        policy_loss(torch.zeros(1), torch.zeros(1), torch.zeros(1), torch.ones(1), dual_clip=1.0)


@given(
    seed=st.integers(0, 10_000), cut=st.integers(1, 6), mode=st.sampled_from(MODES), name=st.sampled_from(list(TERMS))
)
def test_micro_batches_add_up_to_the_step(seed: int, cut: int, mode: str, name: str) -> None:
    *inputs, mask = step(seed)
    weight = aggregation_weights(mask, mode)
    loss, grad, term = run(name, *inputs, weight)
    parts = [run(name, *(x[i : i + cut] for x in inputs), weight[i : i + cut]) for i in range(0, len(mask), cut)]
    torch.testing.assert_close(sum(p[0] for p in parts), loss)
    torch.testing.assert_close(torch.cat([p[1] for p in parts]), grad)
    for key, value in term.metrics.items():
        torch.testing.assert_close(sum(p[2].metrics[key] for p in parts), value)


@given(
    seed=st.integers(0, 10_000),
    mode=st.sampled_from(MODES),
    name=st.sampled_from(list(TERMS)),
    order=st.permutations(range(6)),
)
def test_order_of_rows_does_not_matter(seed: int, mode: str, name: str, order: list[int]) -> None:
    *inputs, mask = step(seed)
    loss, grad, _ = run(name, *inputs, aggregation_weights(mask, mode))
    mixed_loss, mixed_grad, _ = run(name, *(x[order] for x in inputs), aggregation_weights(mask[order], mode))
    torch.testing.assert_close(mixed_loss, loss)
    torch.testing.assert_close(mixed_grad, grad[order])


# --- gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TERMS.keys() - {"opd"}))
def test_gradient_is_the_slope_of_the_value(name: str) -> None:
    """Central differences in float64; the terms are continuous and the draws stay off their kinks."""
    *inputs, mask = step(3, rows=3, length=4, dtype=torch.float64)
    logp, *rest = inputs
    weight = aggregation_weights(mask, "token-mean").double()
    _, grad, _ = run(name, logp, *rest, weight)
    h = 1e-6
    for index in mask.nonzero():
        bump = torch.zeros_like(logp)
        bump[tuple(index)] = h
        slope = (TERMS[name](logp + bump, *rest, weight).loss - TERMS[name](logp - bump, *rest, weight).loss) / (2 * h)
        torch.testing.assert_close(slope, grad[tuple(index)], rtol=1e-6, atol=1e-8)


def test_distillation_gradient_is_minus_gate_times_weight_and_only_the_policy_has_one() -> None:
    """The value is not a potential of this gradient: gate and teacher are held fixed."""
    s = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    t = torch.tensor([-0.5, -3.0, math.nan], requires_grad=True)
    weight = torch.tensor([0.5, 0.5, 0.0])
    term = opd_loss(s, t, weight, GATE)
    term.loss.backward()
    gates = [1 / (1 + math.exp(-5 * gap)) for gap in (0.5, -1.0)]
    assert t.grad is None
    torch.testing.assert_close(s.grad, torch.tensor([-0.5 * gates[0], -0.5 * gates[1], 0.0]))
    assert term.loss.item() == pytest.approx(0.5 * (gates[0] * 0.5 - gates[1] * 1.0))
    means = mean_metrics(term.metrics)
    assert means["gap"] == pytest.approx(-0.25)  # the sampled reverse KL is its negative
    assert (means["gap_wide"], means["gap_low"], means["gate_open"]) == (1.0, 0.5, 0.5)
    assert means["gap_abs"] == pytest.approx(0.75) and means["gate"] == pytest.approx(sum(gates) / 2)


def test_small_step_follows_the_skill_in_proportion_but_never_pushes_a_token_down() -> None:
    """Preferred tokens rise more than disliked ones; both rise. A skill that changes nothing still pushes with 0.5."""
    s = torch.tensor([-1.0, -2.0, -0.7], requires_grad=True)
    opd_loss(s, torch.tensor([-0.5, -3.0, -0.7]), torch.ones(3), GATE).loss.backward()
    moved = (s - 0.1 * s.grad).detach() - s.detach()
    assert moved[0] > moved[2] > moved[1] > 0
    assert s.grad[2] == -0.5


def test_gap_is_live() -> None:
    """After the policy has moved to the teacher the gate is 0.5 again, though the teacher was scored before."""
    teacher = torch.tensor([-0.5])
    before = opd_loss(torch.tensor([-1.0]), teacher, torch.ones(1), GATE).metrics["gate"]
    after = opd_loss(teacher.clone(), teacher, torch.ones(1), GATE).metrics["gate"]
    assert before == pytest.approx(1 / (1 + math.exp(-2.5))) and after == 0.5


@pytest.mark.parametrize("teacher,policy", [(-math.inf, -1.0), (math.nan, -1.0), (-1.0, -math.inf)])
def test_pair_that_is_not_finite_is_dropped_and_counted(teacher: float, policy: float) -> None:
    s = torch.tensor([policy, -1.0], requires_grad=True)
    term = opd_loss(s, torch.tensor([teacher, -1.0]), torch.ones(2), GATE)
    term.loss.backward()
    assert term.loss == 0.0 and s.grad.tolist() == [0.0, -0.5]
    assert term.metrics["dropped"] == 1 and term.metrics["tokens"] == 1


# --- policy, KL, entropy -----------------------------------------------------------------------------------------


def test_policy_loss_by_hand() -> None:
    """ratio 1.5: +A clipped at 1.2; -A not clipped; ratio 5 with -A capped at 3; ratio 0.5: -A clipped at 0.8."""
    ratio = torch.tensor([1.5, 1.5, 5.0, 0.5, 0.5])
    advantage = torch.tensor([1.0, -1.0, -1.0, -1.0, 1.0])
    logp = ratio.log().requires_grad_()
    values = torch.tensor([-1.2, 1.5, 3.0, 0.8, -0.5])
    term = policy_loss(logp, torch.zeros(5), advantage, torch.ones(5))
    assert term.loss.item() == pytest.approx(values.sum().item())
    term.loss.backward()
    torch.testing.assert_close(logp.grad, torch.tensor([0.0, 1.5, 0.0, 0.0, -0.5]))
    assert (term.metrics["clipped"], term.metrics["dual_clipped"]) == (2, 1)
    assert term.metrics["outlier"] == 1  # 5; a ratio of 0.5 is on the edge of a factor of 2


def test_sampler_ratio_outliers_are_counted() -> None:
    """Sampler -1.00: trainer -1.02 is in the normal band (0.9802), trainer -2.00 (0.3679) is an outlier."""
    term = policy_loss(torch.tensor([-1.02, -2.0]), torch.tensor([-1.0, -1.0]), torch.zeros(2), torch.ones(2))
    assert term.metrics["outlier"] == 1
    assert mean_metrics(term.metrics)["old_kl"] == pytest.approx(0.51)


@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_overflowing_ratio_gives_finite_value_and_gradient(advantage: float) -> None:
    logp = torch.tensor([-1.0, -500.0], requires_grad=True)
    loss = policy_loss(logp, torch.tensor([-500.0, -1.0]), torch.full((2,), advantage), torch.ones(2)).loss
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(logp.grad).all()


def test_broken_policy_is_not_hidden() -> None:
    """A NaN log-prob at an active token makes the loss NaN, so that the trainer stops."""
    assert policy_loss(torch.tensor([math.nan]), torch.zeros(1), torch.ones(1), torch.ones(1)).loss.isnan()


def test_kl_estimates_by_hand() -> None:
    logp, ref = torch.tensor([-1.0]), torch.tensor([-1.5])
    expected = {"kl": 0.5, "abs": 0.5, "mse": 0.125, "low_var_kl": math.exp(-0.5) + 0.5 - 1}
    for kind, value in expected.items():
        assert kl_loss(logp, ref, torch.ones(1), kind=kind).loss.item() == pytest.approx(value)
    far = kl_loss(torch.tensor([-40.0, -1.0]), torch.tensor([-0.1, -math.inf]), torch.ones(2))
    assert far.loss == 20.0 and far.metrics["cut"] == 2


@given(st.integers(0, 10_000))
def test_low_variance_kl_is_unbiased_below_its_cut(seed: int) -> None:
    """Its mean over all tokens of a vocabulary, weighted by the policy, is the exact KL."""
    g = torch.Generator().manual_seed(seed)
    logp, ref = (torch.rand(7, generator=g, dtype=torch.float64).log_softmax(0) for _ in range(2))
    estimate = kl_loss(logp, ref, logp.exp()).loss
    torch.testing.assert_close(estimate, (logp.exp() * (logp - ref)).sum())


def test_entropy_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0, -math.inf], [60.0, 0.0, 0.0]], requires_grad=True)
    got = entropy(logits)
    torch.testing.assert_close(got, torch.tensor([math.log(2), 0.0]))
    got.sum().backward()
    assert torch.isfinite(logits.grad).all()
    torch.testing.assert_close(entropy(torch.tensor([1.0, 0.0]), temperature=0.5), entropy(torch.tensor([2.0, 0.0])))


# --- log-probs ---------------------------------------------------------------------------------------------------


def test_temperature_is_part_of_a_logprob() -> None:
    logits, token = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0])
    sampler = -0.202573  # log-prob of token 0 at temperature 0.6
    right = selected_logprobs(logits, token, 0.6)
    assert right.item() == pytest.approx(sampler, abs=1e-6)
    assert math.exp(selected_logprobs(logits, token).item() - sampler) == pytest.approx(0.8146, abs=1e-4)


def test_half_precision_logits_are_read_in_single_precision() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]], dtype=torch.bfloat16)
    got = selected_logprobs(logits, torch.tensor([0]))
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(2 - math.log(math.exp(2) + math.exp(1) + 1), abs=1e-6)


@pytest.mark.parametrize("prompt", [[10, 11], [50, 51, 52, 11]])
def test_counting_model_reveals_a_shift_by_one(prompt: list[int]) -> None:
    """P(next = current + 1) = 0.9, the rest uniform over 99: two right tokens after either prompt."""
    ids = torch.tensor(prompt + [12, 13])
    logits = torch.full((len(ids), 100), math.log(0.1 / 99))
    logits[torch.arange(len(ids)), ids + 1] = math.log(0.9)
    n = len(prompt)
    aligned = selected_logprobs(logits[n - 1 : -1], ids[n:])
    torch.testing.assert_close(aligned, torch.full((2,), -0.10536), atol=1e-5, rtol=0)
    assert (selected_logprobs(logits[n:], ids[n:]) < -6.8).all()


def test_the_sequence_ratio_is_the_row_mean_with_each_tokens_own_gradient() -> None:
    logp = torch.tensor([[-1.0, -2.0, math.nan], [-0.5, math.inf, math.nan]], requires_grad=True)
    old = torch.tensor([[-1.5, -1.0, 0.0], [-0.5, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    ratio = sequence_log_ratio(logp, old, mask)
    assert ratio[0, :2].tolist() == [-0.25, -0.25]  # mean of 0.5 and -1
    assert ratio[1].tolist() == [0.0, 0.0, 0.0]
    (3.0 * ratio[0, 0] + 5.0 * ratio[0, 1]).backward()
    assert logp.grad.tolist() == [[3.0, 5.0, 0.0], [0.0, 0.0, 0.0]]
