"""Generation and scoring agree with each other, with transformers, and with themselves in any batch (T7, T8)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from corehelp import ids, random_policy

from seedbed.engines.base import Request, Sampling, ScoreRow
from seedbed.engines.torch_engine import TorchEngine, _draw
from seedbed.types import UserError

STOP = 3


def continuation(prompt: np.ndarray, response: np.ndarray) -> ScoreRow:
    full = np.concatenate([prompt, response]).astype(np.int32)
    return ScoreRow(full, np.arange(len(full)) >= len(prompt))


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_sampler_equals_scorer_over_many_ragged_turns(kind: str) -> None:
    engine = TorchEngine(random_policy(kind=kind), STOP)
    rng = np.random.default_rng(0)
    contexts = {slot: ids(rng, 3, 50) for slot in range(9)}
    for turn in range(5):
        alive = [slot for slot in contexts if (slot + turn) % 4]  # slots drop out and come back
        requests = [Request(contexts[s], 100 * s + turn, s) for s in alive]
        for slot, done in zip(alive, engine.generate(requests, Sampling(1.0, 12)), strict=True):
            (scored,) = engine.score([continuation(contexts[slot], done.ids_T)])
            np.testing.assert_allclose(done.logprobs_T, scored, atol=1e-5)
            contexts[slot] = np.concatenate([contexts[slot], done.ids_T, ids(rng, 1, 70)]).astype(np.int32)


def test_cached_turns_equal_a_fresh_start_and_greedy_equals_transformers() -> None:
    model = random_policy()
    warm, rng = TorchEngine(model, STOP), np.random.default_rng(1)
    prompt = ids(rng, 20, 21)
    first = warm.generate([Request(prompt, 1, 0)], Sampling(0.0, 10))[0]
    longer = np.concatenate([prompt, first.ids_T, ids(rng, 5, 6)]).astype(np.int32)
    again = warm.generate([Request(longer, 2, 0)], Sampling(0.0, 10))[0]
    cold = TorchEngine(model, STOP).generate([Request(longer, 2, 0)], Sampling(0.0, 10))[0]
    assert np.array_equal(again.ids_T, cold.ids_T)
    np.testing.assert_allclose(again.logprobs_T, cold.logprobs_T, atol=1e-5)
    model.set_attn_implementation("sdpa")
    stock = model.generate(
        torch.tensor(longer[None].astype(np.int64)),
        max_new_tokens=10,
        do_sample=False,
        eos_token_id=STOP,
        pad_token_id=0,
    )
    assert again.ids_T.tolist() == stock[0, len(longer) :].tolist()


def test_batch_composition_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    requests = [Request(ids(rng, 3, 60), seed, seed) for seed in range(7)]
    model = random_policy()
    together = TorchEngine(model, STOP).generate(requests, Sampling(1.0, 16))
    alone = [TorchEngine(model, STOP).generate([r], Sampling(1.0, 16))[0] for r in requests]
    backwards = TorchEngine(model, STOP, max_batch=3).generate(requests[::-1], Sampling(1.0, 16))[::-1]
    rows = [continuation(r.prompt_ids_T, c.ids_T) for r, c in zip(requests, together, strict=True)]
    scored = TorchEngine(model, STOP).score(rows)
    for i in range(len(requests)):
        for other in (alone[i], backwards[i]):
            assert np.array_equal(together[i].ids_T, other.ids_T)
            np.testing.assert_allclose(together[i].logprobs_T, other.logprobs_T, atol=1e-5)
        np.testing.assert_allclose(TorchEngine(model, STOP, score_tokens=1).score([rows[i]])[0], scored[i], atol=1e-5)
    assert len({c.ids_T.tobytes() for c in together}) == len(requests)


def test_log_probs_belong_to_the_temperature_drawn_at() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    for temperature, wanted in ((0.6, -0.202573), (1.0, -0.407606)):  # T8; log softmax by hand
        drawn, logp = _draw(logits, torch.tensor([0.0]), temperature)
        assert drawn.item() == 0
        assert logp.item() == pytest.approx(wanted, abs=1e-5)


def test_draws_follow_the_distribution_exactly() -> None:
    n = 4000
    probabilities = torch.tensor([0.5, 0.25, 0.0, 0.2, 0.05])
    drawn, _ = _draw(probabilities.log().expand(n, -1), (torch.arange(n) + 0.5) / n, 1.0)
    assert torch.bincount(drawn, minlength=5).tolist() == [2000, 1000, 0, 800, 200]


def test_a_position_too_far_is_refused_before_compute() -> None:
    with pytest.raises(UserError, match="rollout.max_new_tokens"):
        TorchEngine(random_policy(), STOP).generate(
            [Request(np.arange(4090, dtype=np.int32) % 200, 0, 0)], Sampling(1.0, 100)
        )


def test_scoring_reads_the_right_position() -> None:
    """T7b: with P(next = current + 1) = 0.9 both contexts give log 0.9; log(0.1 / 99) would show a shift by one."""

    class Successor(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"max_position_embeddings": 64, "num_key_value_heads": 1, "vocab_size": 100}
            self.config = type("C", (), sizes)()
            self.anchor = torch.nn.Parameter(torch.zeros(1))
            self.base_model = lambda input_ids, **_: type(
                "H", (), {"last_hidden_state": input_ids[..., None].float()}
            )()

        def set_attn_implementation(self, _: str) -> None: ...

        def forward(self, input_ids: torch.Tensor, **_: object):
            hidden = self.base_model(input_ids).last_hidden_state
            logits = self.get_output_embeddings()(hidden)
            return type("O", (), {"logits": logits})()

        def get_output_embeddings(self):
            def logits(hidden: torch.Tensor) -> torch.Tensor:
                out = torch.full((*hidden.shape[:-1], 100), float(np.log(0.1 / 99)))
                return out.scatter(-1, hidden.long() + 1, float(np.log(0.9)))

            return logits

    engine = TorchEngine(Successor(), stop_id=0)
    rows = [continuation(np.array(p), np.array([12, 13])) for p in ([10, 11], [50, 51, 52, 11])]
    for scored in engine.score(rows):
        np.testing.assert_allclose(scored, [-0.10536, -0.10536], atol=1e-5)


def test_no_slot_ever_reads_what_another_prompt_left_behind() -> None:
    """Random slot sets and prompts that grow, shrink, diverge or repeat, against a forward pass without any cache."""
    rng = np.random.default_rng(3)
    for trial in range(6):
        model = random_policy(kind=("qwen3", "llama")[trial % 2], seed=trial)
        engine, last = TorchEngine(model, STOP, max_batch=int(rng.integers(1, 6))), {}
        for call in range(6):
            requests = []
            for slot in rng.choice(8, rng.integers(1, 8), replace=False).tolist():
                before = last.get(slot, ids(rng, 1, 40))
                keep = before[: int(rng.integers(0, len(before) + 1))]
                prompt = np.concatenate([keep, ids(rng, 1, int(rng.choice([2, 33, 34, 66])))]).astype(np.int32)
                requests.append(Request(prompt, int(rng.integers(1 << 40)), slot))
            temperature = float(rng.choice([0.0, 0.7, 1.0]))
            for request, done in zip(requests, engine.generate(requests, Sampling(temperature, 6)), strict=True):
                row = continuation(request.prompt_ids_T, done.ids_T)
                (scored,) = TorchEngine(model, STOP).score([row], temperature or 1.0)
                np.testing.assert_allclose(done.logprobs_T, scored, atol=3e-5)
                last[request.slot] = row.ids_T
            if call == 3:  # new weights: nothing computed by the old ones may survive
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.mul_(1.1)
                engine.advance(1)


def test_an_interrupted_call_leaves_no_half_written_rows() -> None:
    model, rng = random_policy(), np.random.default_rng(4)
    engine, a, b = TorchEngine(model, STOP), ids(rng, 30, 31), ids(rng, 40, 41)
    clean = engine.generate([Request(a, 1, 0)], Sampling(1.0, 4))[0]
    whole, calls = model.base_model.forward, []

    def breaks(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*args, **kwargs)

    model.base_model.forward = breaks
    with pytest.raises(KeyboardInterrupt):
        engine.generate([Request(b, 2, 0)], Sampling(1.0, 4))
    model.base_model.forward = whole
    again = engine.generate([Request(a, 1, 0)], Sampling(1.0, 4))[0]
    assert np.array_equal(clean.ids_T, again.ids_T)
    np.testing.assert_allclose(clean.logprobs_T, again.logprobs_T, atol=1e-5)


def test_models_the_engine_cannot_score_are_refused() -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel

    gemma = Gemma2Config(
        vocab_size=99, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, head_dim=16
    )
    gpt2 = GPT2Config(vocab_size=99, n_embd=32, n_layer=1, n_head=2)
    for model in (Gemma2ForCausalLM(gemma), GPT2LMHeadModel(gpt2)):
        with pytest.raises(UserError, match=type(model).__name__):
            TorchEngine(model.eval(), STOP)
