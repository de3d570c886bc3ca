"""Which tokens does SEED distil, and is the gate the paper's?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from play import batch, episode, with_skills
from pydantic import TypeAdapter, ValidationError

from seedbed.algo import AlgoSettings, GrpoSettings, SeedSettings, make_algorithm
from seedbed.types import Batch

SEED = make_algorithm(SeedSettings())


def game() -> Batch:
    """A win with a skill, a loss with a skill, a loss whose analysis failed; two turns each."""
    made = batch([episode("a", i, r, [True, True]) for i, r in enumerate([10.0, 0.0, 0.0])])
    return with_skills(made, {"v0/a/0": "go to the fridge", "v0/a/1": "do not wait", "v0/a/2": ""})


def test_every_sampled_token_with_a_skill_takes_part_won_or_lost() -> None:
    made = game()
    streams, counts = SEED.streams(made)
    for row, sample in zip(streams[:4], made.samples, strict=False):
        np.testing.assert_array_equal(row.opd_mask_T, sample.sampled_T)
        assert (row.teacher_T[sample.sampled_T] == -0.5).all()
    assert all(row.teacher_T is None and row.opd_mask_T is None for row in streams[4:])
    assert counts["opd_rows"] == 4 and counts["opd_tokens"] == 12 and counts["opd_rows_no_skill"] == 2


def test_row_without_skill_scores_keeps_its_outcome_signal_and_is_counted() -> None:
    made = game()
    made.scores[0] = replace(made.scores[0], skill_T=None, skill_cut=True)
    streams, counts = SEED.streams(made)
    plain, _ = make_algorithm(GrpoSettings()).streams(made)
    assert streams[0].teacher_T is None and counts["opd_rows_cut"] == 1 and counts["opd_rows"] == 3
    for mine, theirs in zip(streams, plain, strict=True):
        np.testing.assert_array_equal(mine.advantage_T, theirs.advantage_T)


def test_token_without_a_finite_teacher_leaves_the_mask_and_is_counted() -> None:
    made = game()
    made.scores[0].skill_T[2] = -np.inf
    streams, counts = SEED.streams(made)
    assert not streams[0].opd_mask_T[2] and streams[0].opd_mask_T[3]
    assert counts["opd_not_finite"] == 1 and counts["opd_tokens"] == 11


def test_gate_by_hand() -> None:
    got = SEED.gate(torch.tensor([0.0, 0.2, -0.2, 100.0, -100.0]))
    torch.testing.assert_close(got, torch.tensor([0.5, 0.7310586, 0.2689414, 1.0, 0.0]))
    constant = make_algorithm(SeedSettings(sharpness=0.0)).gate(torch.tensor([-3.0, 7.0]))
    assert (constant == 0.5).all()


def test_settings_are_told_apart_by_name_and_default_to_the_paper() -> None:
    read = TypeAdapter(AlgoSettings).validate_python
    seed = read({"name": "seed"})
    assert (seed.coefficient, seed.sharpness, seed.invalid_penalty, seed.epsilon) == (0.01, 5.0, 0.1, 1e-6)
    assert make_algorithm(seed).needs_skills
    grpo = make_algorithm(read({"name": "grpo"}))
    assert grpo.gate is None and grpo.coefficient == 0.0 and not grpo.needs_skills
    with pytest.raises(ValidationError, match="coeficient"):
        read({"name": "seed", "coeficient": 0.1})
    with pytest.raises(ValidationError, match="sharpness"):
        read({"name": "grpo", "sharpness": 5.0})
