"""Paired scores and the optimiser step: what must be equal, what must be exactly zero, what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from corehelp import Corridor, engine_for, play, random_policy

from seedbed.algo import SeedSettings, make_algorithm
from seedbed.config import TrainSettings
from seedbed.engines.base import ScoreRow
from seedbed.engines.torch_engine import TorchEngine
from seedbed.render import Renderer
from seedbed.samples import build_samples
from seedbed.scoring import score_pairs, skill_context
from seedbed.train.update import Objective, build_optimizer, build_rows, minibatches, update_policy
from seedbed.types import Batch, Skill, replace


def scored_batch(
    renderer: Renderer,
    engine,
    *,
    merge: bool = True,
    skill: str = "Open every door before you speak.",
    fails: tuple[int, ...] = (1,),
):
    """Four groups of mixed outcome with skills for all but the attempts in ``fails``."""
    groups = play(renderer, Corridor(wins=(0, 3, 4, 7)), attempts=3, tasks=3)
    batch = Batch(groups)
    batch.skills = {
        t.id: Skill(
            t.id, "workflow", "ok" if t.attempt not in fails else "no_json", skill if t.attempt not in fails else ""
        )
        for t in batch.trajectories
    }
    batch.samples = [s for t in batch.trajectories for s in build_samples(t, renderer.stop_id, merge)]
    batch.scores = score_pairs(engine, renderer, batch.samples, batch.skills, temperature=1.0, max_prompt_tokens=4000)
    return batch


def gradients(
    renderer: Renderer, *, merge: bool = True, coefficient: float = 0.5, **settings
) -> tuple[dict, dict[str, torch.Tensor]]:
    engine = engine_for(renderer)
    batch = scored_batch(renderer, engine, merge=merge)
    algorithm = make_algorithm(SeedSettings(coefficient=coefficient))
    batch.streams, _ = algorithm.streams(batch)
    reference = [s * 0.9 for s in engine.score([ScoreRow(s.ids_T, s.sampled_T) for s in batch.samples])]
    train = TrainSettings(**{"minibatch_rows": 1000, "lr": 1e-9, "grad_clip": 1e9, **settings})
    report = update_policy(
        engine.model,
        build_optimizer(engine.model, train.lr, train.weight_decay),
        build_rows(batch, reference),
        Objective(train, 1.0, coefficient, algorithm.gate),
        first_step=0,
        rehearse=lambda step: [],
    )
    return report, {name: p.grad.clone() for name, p in engine.model.named_parameters()}


def close(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-6, msg=lambda m, name=name: f"{name}: {m}")


def test_micro_batch_size_never_changes_the_gradient(renderer: Renderer) -> None:
    (whole_report, whole), (small_report, small) = (
        gradients(renderer, micro_tokens=100_000),
        gradients(renderer, micro_tokens=16),
    )
    close(whole, small)
    for term in ("policy", "opd", "kl", "entropy"):
        assert whole_report[f"loss_{term}"] == pytest.approx(small_report[f"loss_{term}"], abs=1e-6)
        assert whole_report[f"loss_{term}"] != 0


def test_merged_rows_and_split_rows_give_equal_loss(renderer: Renderer) -> None:
    (merged_report, merged), (split_report, split) = gradients(renderer, merge=True), gradients(renderer, merge=False)
    close(merged, split)
    assert merged_report["loss_total"] == pytest.approx(split_report["loss_total"], abs=1e-6)


def test_an_empty_skill_shifts_nothing(renderer: Renderer) -> None:
    for skill in ("", "   "):
        engine = engine_for(renderer)
        batch = scored_batch(renderer, engine, fails=())
        empty = {k: replace(s, text=skill) for k, s in batch.skills.items()}
        usable = {k: Forced(*(getattr(s, f) for f in Skill.__dataclass_fields__)) for k, s in empty.items()}
        scores = score_pairs(engine, renderer, batch.samples, usable, temperature=1.0, max_prompt_tokens=4000)
        for sample, score in zip(batch.samples, scores, strict=True):
            assert (score.gap_T[sample.sampled_T] == 0).all()


class Forced(Skill):
    """A skill that counts as valid although it is empty: the empty-skill control."""

    valid = True


def test_a_real_skill_shifts_something_and_needs_one_version(renderer: Renderer) -> None:
    engine = engine_for(renderer)
    batch = scored_batch(renderer, engine)
    for sample, score in zip(batch.samples, batch.scores, strict=True):
        if sample.trajectory.attempt == 1:
            assert score.skill_T is None and score.gap_T is None
        else:
            assert (
                np.isfinite(score.gap_T[sample.sampled_T]).all() and np.abs(score.gap_T[sample.sampled_T]).max() > 1e-3
            )
            assert np.isnan(score.gap_T[~sample.sampled_T]).all()
    engine.advance(1)
    with pytest.raises(AssertionError, match="versions"):
        score_pairs(engine, renderer, batch.samples, batch.skills, temperature=1.0, max_prompt_tokens=4000)


def test_a_skill_that_does_not_fit_is_counted_not_cut(renderer: Renderer) -> None:
    engine = engine_for(renderer)
    batch = scored_batch(renderer, engine, skill="x" * 500, fails=())
    longest = max(s.prompt_len for s in batch.samples)
    scores = score_pairs(
        engine, renderer, batch.samples, batch.skills, temperature=1.0, max_prompt_tokens=longest + 100
    )
    assert all(s.skill_cut and s.skill_T is None for s in scores)


def test_rows_without_a_skill_train_by_outcome_alone(renderer: Renderer) -> None:
    """Tokens of attempt 1 (no skill) have no distillation weight: a different teacher there cannot matter."""
    engine = engine_for(renderer)
    batch = scored_batch(renderer, engine)
    batch.streams, counts = make_algorithm(SeedSettings()).streams(batch)
    rows = build_rows(batch, None)
    for row, sample in zip(rows, batch.samples, strict=True):
        assert np.isnan(row.teacher).all() == (sample.trajectory.attempt == 1)
    assert counts["opd_rows_no_skill"] == sum(s.trajectory.attempt == 1 for s in batch.samples)


def test_minibatches_are_whole_groups(renderer: Renderer) -> None:
    engine = engine_for(renderer)
    batch = scored_batch(renderer, engine)
    batch.streams, _ = make_algorithm(SeedSettings()).streams(batch)
    rows = build_rows(batch, None)
    split = minibatches(rows, turns=1)
    assert [{r.group for r in m} for m in split] == [{"door-0"}, {"door-1"}, {"door-2"}]
    assert sum(len(m) for m in minibatches(rows, turns=10_000)) == len(rows) and len(minibatches(rows, 10_000)) == 1


def test_several_minibatches_use_the_snapshot_as_old_policy(renderer: Renderer) -> None:
    """The first step has ratio 1 everywhere; later ones do not, since old log-probs stay those of the snapshot."""
    first, _ = gradients(renderer, lr=1e-2, minibatch_rows=1000)
    later, _ = gradients(renderer, lr=1e-2, minibatch_rows=1)
    assert first["optimizer_steps"] == 1 and abs(first["old_kl"]) < 1e-6
    assert later["optimizer_steps"] == 3 and abs(later["old_kl"]) > 1e-4


def test_a_batch_without_tokens_changes_nothing(renderer: Renderer) -> None:
    engine = engine_for(renderer)
    before = {k: v.clone() for k, v in engine.model.state_dict().items()}
    train = TrainSettings(lr=1.0)
    report = update_policy(
        engine.model,
        build_optimizer(engine.model, train.lr, train.weight_decay),
        [],
        Objective(train, 1.0, 1.0, torch.sigmoid),
        first_step=0,
        rehearse=lambda step: [],
    )
    assert report["optimizer_steps"] == 0 and report["loss_total"] == 0
    assert all(torch.equal(v, before[k]) for k, v in engine.model.state_dict().items())


def test_every_term_equals_its_formula_at_another_temperature(renderer: Renderer) -> None:
    """All terms of one step, from a plain forward pass per row and the formulas of the paper in float64 (T = 0.7)."""
    engine, temperature, coefficient = engine_for(renderer), 0.7, 0.5
    batch = scored_batch(renderer, engine)
    batch.scores = score_pairs(
        engine, renderer, batch.samples, batch.skills, temperature=temperature, max_prompt_tokens=4000
    )
    algorithm = make_algorithm(SeedSettings(coefficient=coefficient))
    batch.streams, _ = algorithm.streams(batch)
    start = random_policy(len(renderer.tokenizer))
    with torch.no_grad():
        for parameter in start.parameters():
            parameter.mul_(1.02)  # drifted, but no token so far that the estimate is cut
    reference = TorchEngine(start, renderer.stop_id).score(
        [ScoreRow(s.ids_T, s.sampled_T) for s in batch.samples], temperature
    )

    def logp_of(model: torch.nn.Module, ids: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            logits = model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].double() / temperature
        logp = torch.log_softmax(logits, -1).numpy()[np.nonzero(at)[0] - 1]
        return logp[np.arange(len(logp)), ids[at]], logp

    sums, tokens, taught = dict.fromkeys(("policy", "kl", "entropy", "opd"), 0.0), 0, 0
    for sample, stream in zip(batch.samples, batch.streams, strict=True):
        at = sample.sampled_T
        own, full = logp_of(engine.model, sample.ids_T, at)
        ref, _ = logp_of(start, sample.ids_T, at)
        sums["policy"] -= float(stream.advantage_T[at].sum())  # ratio 1 at the first step
        sums["kl"] += float((np.exp(ref - own) - (ref - own) - 1).sum())
        sums["entropy"] += float(-(np.exp(full) * full).sum())
        tokens += int(at.sum())
        skill = batch.skills[sample.trajectory.id]
        if skill.valid:
            ids = skill_context(sample, skill.text, renderer)
            there = np.concatenate([np.zeros(len(ids) - len(at), bool), at])
            teacher, _ = logp_of(engine.model, ids, there)
            gap = teacher - own
            sums["opd"] += float((gap / (1 + np.exp(-5 * gap))).sum())
            taught += len(gap)
    assert 0 < taught < tokens
    train = TrainSettings(minibatch_rows=1000, kl_coefficient=0.1, entropy_coefficient=0.2, lr=1e-2, warmup=10)
    before = {name: p.detach().clone() for name, p in engine.model.named_parameters()}
    optimizer = build_optimizer(engine.model, train.lr, weight_decay=0.0)
    report = update_policy(
        engine.model,
        optimizer,
        build_rows(batch, reference),
        Objective(train, temperature, coefficient, algorithm.gate),
        first_step=0,
        rehearse=lambda step: [],
    )
    assert report["loss_policy"] == pytest.approx(sums["policy"] / tokens, abs=1e-5)
    assert report["loss_kl"] == pytest.approx(0.1 * sums["kl"] / tokens, rel=1e-4)
    assert report["loss_entropy"] == pytest.approx(-0.2 * sums["entropy"] / tokens, rel=1e-4)
    assert report["loss_opd"] == pytest.approx(0.5 * sums["opd"] / taught, rel=1e-3)
    # warm-up: a first Adam step moves by the learning rate of step 1 of 10; clipping bounds the gradient it saw
    moved = max(float((p.detach() - before[name]).abs().max()) for name, p in engine.model.named_parameters())
    assert moved == pytest.approx(1e-3, rel=1e-2)
    seen = torch.sqrt(sum((state["exp_avg"] / 0.1).square().sum() for state in optimizer.state.values()))
    assert report["grad_norm"] > 1 and float(seen) == pytest.approx(1.0, rel=1e-3)
