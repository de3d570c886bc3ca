"""Paired scores and the optimiser step: what must be equal, what must be exactly zero, what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from corehelp import Corridor, engine_for, play

from seedbed.algo import SeedSettings, make_algorithm
from seedbed.config import TrainSettings
from seedbed.engines.base import ScoreRow
from seedbed.render import Renderer
from seedbed.samples import build_samples
from seedbed.scoring import score_pairs
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
