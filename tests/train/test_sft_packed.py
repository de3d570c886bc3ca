"""Rows packed end to end give the loss and the gradient of each row alone, with and without checkpointing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from seedbed.engines.base import ScoreRow
from seedbed.engines.packed import packed_logits, packs
from seedbed.engines.torch_engine import TorchEngine
from seedbed.skills.sft_data import SftRow
from seedbed.train.answers import answer_losses

SHAPE = dict(
    vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=256,
)  # fmt: skip
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE, tie_word_embeddings=True)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=16)),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(1)
    made = MODELS[request.param]().eval()
    with torch.no_grad():  # a fresh model is so small that wrong attention would hide in the tolerance
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    return made


def rows(lengths: tuple[int, ...] = (40, 7, 23, 64, 11), answer: int = 5) -> list[SftRow]:
    rng, out = np.random.default_rng(0), []
    for i, n in enumerate(lengths):
        at = np.arange(n)
        ids = rng.integers(0, 61, n).astype(np.int32)
        out.append(SftRow(ids, at >= n - answer, (at % 5 == 1) & (at < n - answer), f"t{i}", f"k{i}"))
    return out


def alone(model: nn.Module, data: list[SftRow], rehearsal: float) -> tuple[float, list[torch.Tensor]]:
    """Loss and gradients by transformers' own forward pass and torch's cross entropy, one row at a time."""
    model.set_attn_implementation("eager")
    model.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for name, scale in (("answer_T", 1.0), ("action_T", rehearsal)):
        count = sum(int(getattr(r, name).sum()) for r in data)
        for row in data:
            ids = torch.from_numpy(row.ids_T.astype(np.int64))[None]
            target = torch.where(torch.from_numpy(getattr(row, name))[None], ids, -100)[:, 1:]
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
            nll = nn.functional.cross_entropy(
                logits.flatten(0, 1), target.flatten(), ignore_index=-100, reduction="sum"
            )
            total = total + scale * nll / count
    total.backward()
    return float(total.detach()), [p.grad.clone() for p in model.parameters()]


def packed(model: nn.Module, data: list[SftRow], tokens: int, rehearsal: float, **how: bool):
    TorchEngine(model, stop_id=0)
    model.zero_grad(set_to_none=True)
    total = 0.0
    for loss in answer_losses(model, data, tokens, rehearsal, **how):
        loss.backward()
        total += float(loss.detach())
    return total, [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize(("tokens", "rehearsal"), [(1000, 0.0), (70, 0.0), (70, 0.4), (1, 0.4)])
def test_packed_rows_equal_single_rows_by_stock_transformers(model: nn.Module, tokens: int, rehearsal: float) -> None:
    loss, grads = alone(model, rows(), rehearsal)
    found, found_grads = packed(model, rows(), tokens, rehearsal)
    assert found == pytest.approx(loss, abs=1e-5)
    for mine, theirs in zip(found_grads, grads, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_a_row_does_not_see_its_neighbours(model: nn.Module) -> None:
    TorchEngine(model, stop_id=0)
    own, *others = (ScoreRow(r.ids_T, r.answer_T) for r in rows())
    with torch.no_grad():
        single, targets = packed_logits(model, [own])
        for neighbours in (others, others[::-1], others[1:3]):
            first, _ = packed_logits(model, [own, *neighbours])
            last, ids = packed_logits(model, [*neighbours, own])
            torch.testing.assert_close(first[: len(single)], single, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(last[-len(single) :], single, atol=1e-5, rtol=1e-5)
            assert torch.equal(ids[-len(single) :], targets)
        cut = np.concatenate([own.ids_T[:-9], own.ids_T[-9:][::-1]])  # but it does see its own past
        changed, _ = packed_logits(model, [ScoreRow(cut, own.select_T)])
        assert not torch.allclose(changed, single, atol=1e-2)


def test_positions_begin_anew_with_each_row(model: nn.Module) -> None:
    """Rows of 3, 1 and 4 tokens. (Rotary attention sees differences of positions only, so no output would tell.)"""
    TorchEngine(model, stop_id=0)
    seen: list[list[list[int]]] = []
    model.base_model.register_forward_pre_hook(
        lambda _, args, called: seen.append(called["position_ids"].tolist()), with_kwargs=True
    )
    with torch.no_grad():
        packed_logits(model, [ScoreRow(np.arange(n), np.arange(n) == 2) for n in (3, 1, 4)])
    assert seen == [[[0, 1, 2, 0, 0, 1, 2, 3]]]


def test_checkpointing_changes_no_gradient(model: nn.Module) -> None:
    loss, grads = packed(model, rows(), 70, 0.4)
    calls = []
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    model.base_model.layers[0].self_attn.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    found, found_grads = packed(model, rows(), 70, 0.4)
    assert sum(calls) == 2 * len(packs([len(r.ids_T) for r in rows()], 70))  # forward, and again in backward
    assert found == pytest.approx(loss, abs=1e-6)
    for mine, theirs in zip(found_grads, grads, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-6)


def test_bfloat16_computes_in_half_and_keeps_float32_gradients(model: nn.Module) -> None:
    loss, grads = packed(model, rows(), 1000, 0.0)
    found, found_grads = packed(model, rows(), 1000, 0.0, half=True)
    assert found != loss and found == pytest.approx(loss, rel=0.03)
    assert all(g.dtype == torch.float32 for g in found_grads)
    flat, half = (torch.cat([g.flatten() for g in gs]) for gs in (grads, found_grads))
    assert torch.nn.functional.cosine_similarity(flat, half, dim=0) > 0.98


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(1, 80))
def test_packs_hold_every_row_once_within_the_limit(lengths: list[int], limit: int) -> None:
    made = packs(lengths, limit)
    assert sorted(i for pack in made for i in pack) == list(range(len(lengths)))
    assert all(len(pack) == 1 or sum(lengths[i] for i in pack) <= limit for pack in made)
    half_empty = [pack for pack in made if 2 * sum(lengths[i] for i in pack) <= limit]
    assert len(half_empty) <= 1  # else the second one's rows would have fitted into the first


def test_the_first_token_of_a_row_has_no_prediction(model: nn.Module) -> None:
    TorchEngine(model, stop_id=0)
    with pytest.raises(ValueError, match="first token"):
        packed_logits(model, [ScoreRow(np.arange(4), np.ones(4, bool))])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: the one-kernel attention of packed rows runs there")
def test_one_kernel_for_all_rows_equals_a_kernel_a_row(model: nn.Module) -> None:
    TorchEngine(model.cuda(), stop_id=0)
    loss, grads = packed(model, rows(), 1000, 0.4, half=True)
    single, single_grads = packed(model, rows(), 1, 0.4, half=True)
    full, full_grads = packed(model, rows(), 1000, 0.4)
    assert loss == pytest.approx(single, rel=0.01) and loss == pytest.approx(full, rel=0.03)
    flat, one, whole = (torch.cat([g.flatten() for g in gs]) for gs in (grads, single_grads, full_grads))
    assert nn.functional.cosine_similarity(flat, one, dim=0) > 0.99
    assert nn.functional.cosine_similarity(flat, whole, dim=0) > 0.98
