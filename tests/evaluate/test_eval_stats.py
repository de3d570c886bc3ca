"""Intervals against independent computations: closed forms, exhaustive enumeration, simulated coverage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.evaluate.stats import difference, macro, micro, noise, noise_floor, paired_difference, wilson, won_by_task
from seedbed.types import UserError


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_bounds_solve_the_score_equation(kn):
    """By definition each bound p solves (k/n - p)^2 = z^2 p (1 - p) / n; solved here as a polynomial."""
    k, n = kn
    z2, p = 1.96**2, k / n
    roots = np.sort(np.roots([1 + z2 / n, -(2 * p + z2 / n), p * p]).real)
    assert wilson(k, n) == pytest.approx(tuple(roots), abs=1e-6)


def test_wilson_known_value_and_ends():
    assert wilson(7, 10) == pytest.approx((0.3968, 0.8922), abs=1e-4)
    assert wilson(0, 10)[0] == 0 and wilson(10, 10)[1] == 1
    assert wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="3 successes of 2"):
        wilson(3, 2)


def test_micro_of_single_attempts_is_wilson_with_the_textbook_standard_error():
    won = {f"t{i}": [i < 7] for i in range(10)}
    found = micro(won)
    assert (found.value, found.method) == (0.7, "Wilson")
    assert (found.low, found.high) == wilson(7, 10)
    assert found.se == pytest.approx(0.145, abs=5e-4)


def ends_of(exact: list) -> tuple:
    """2.5 % and 97.5 % points of a discrete distribution given by its equally likely values."""
    return tuple(np.quantile(exact, [0.025, 0.975], method="inverted_cdf"))


def test_cluster_bootstrap_equals_enumeration_of_all_resamples():
    """Five tasks have 3,125 equally likely resamples: the bootstrap must reproduce their distribution."""
    won = {"a": [True, True], "b": [True, False], "c": [False, False], "d": [True, True], "e": [False, False]}
    shares = [1.0, 0.5, 0.0, 1.0, 0.0]
    exact = [np.mean(draw) for draw in itertools.product(shares, repeat=5)]
    found = micro(won, samples=40_000)
    assert found.value == 0.5 and found.method == "bootstrap over tasks"
    assert (found.low, found.high) == pytest.approx(ends_of(exact), abs=1e-9)
    assert found.se == pytest.approx(np.std(exact), abs=1e-9)  # linearised = exact when counts are equal


def test_attempts_of_a_task_are_not_taken_for_new_tasks():
    """Eight identical attempts carry what one carries: no interval may shrink as Wilson over episodes would."""
    one = micro({f"t{i}": [i % 2 == 0] for i in range(40)})
    eight = micro({f"t{i}": [i % 2 == 0] * 8 for i in range(40)})
    assert eight.high - eight.low == pytest.approx(one.high - one.low, rel=0.1)
    assert wilson(160, 320)[1] - wilson(160, 320)[0] < 0.5 * (eight.high - eight.low)


def test_results_that_are_all_alike_still_have_an_interval():
    found = micro({f"t{i}": [True, True] for i in range(10)})
    assert found.value == 1 and (found.low, found.high) == wilson(10, 10)
    kinds = {f"t{i}": "ab"[i % 2] for i in range(10)}
    assert macro({f"t{i}": [True] for i in range(10)}, kinds).low == pytest.approx(wilson(5, 5)[0])


def test_macro_weighs_kinds_and_micro_weighs_episodes():
    won = {f"p{i}": [True] for i in range(9)} | {"q0": [False]}
    kinds = {t: t[0] for t in won}
    assert micro(won).value == 0.9
    assert macro(won, kinds).value == 0.5


def test_macro_interval_is_the_stratified_one():
    """Enumerated: kinds of 2 and 1 tasks, resampled inside each kind."""
    won = {"p0": [True], "p1": [False], "q0": [True]}
    found = macro(won, {t: t[0] for t in won}, samples=20_000)
    exact = [(np.mean(p) + 1.0) / 2 for p in itertools.product([1.0, 0.0], repeat=2)]
    assert found.value == 0.75
    assert (found.low, found.high) == pytest.approx((min(exact), max(exact)))
    assert found.se == pytest.approx(np.std(exact), abs=0.005)


def test_nothing_measured_is_said_and_not_zero():
    assert micro({}).value is None and macro({"a": []}, {"a": "k"}).value is None


def test_paired_difference_equals_enumeration():
    won_a = {"x": [True, True], "y": [True, False], "z": [False, False], "only a": [True]}
    won_b = {"x": [False, False], "y": [True, True], "z": [False, False], "only b": [True], "broken": []}
    won_a |= {"v": [False], "w": [True]}
    won_b |= {"v": [False], "w": [False]}
    gaps = [1.0, -0.5, 0.0, 0.0, 1.0]
    exact = [np.mean(draw) for draw in itertools.product(gaps, repeat=5)]
    found = paired_difference(won_a, won_b, seed=3, samples=40_000)
    assert found.value == pytest.approx(np.mean(gaps))
    assert (found.low, found.high) == pytest.approx(ends_of(exact), abs=1e-9)
    assert (found.tasks, found.dropped) == (5, 3)
    assert not found.excludes_zero
    turned = paired_difference(won_b, won_a, seed=3, samples=40_000)
    assert (turned.value, turned.low, turned.high) == pytest.approx((-found.value, -found.high, -found.low))


def test_pairing_removes_what_tasks_have_in_common():
    """Same 20 % advantage on tasks whose difficulty varies: paired, it is beyond noise; by two Wilson intervals not."""
    won_a = {f"t{i}": [i < 60] for i in range(100)}
    won_b = {f"t{i}": [i < 50] for i in range(100)}
    assert paired_difference(won_a, won_b, 0).excludes_zero
    assert wilson(60, 100)[0] < wilson(50, 100)[1]


def test_paired_interval_covers_the_truth_about_95_times_in_100():
    rng, covered = np.random.default_rng(5), 0
    for i in range(300):
        p = rng.uniform(0.2, 0.8, 80)  # true difference 0.1
        a, b = rng.random((80, 2)) < (p + 0.1)[:, None], rng.random((80, 2)) < p[:, None]
        found = paired_difference(dict(enumerate(a.tolist())), dict(enumerate(b.tolist())), i, samples=500)
        covered += found.low <= 0.1 <= found.high
    assert 270 <= covered <= 297  # 95 % +- 3 standard errors (1.26 %), a small-sample allowance below


def test_no_shared_task_is_an_error():
    with pytest.raises(UserError, match="share no task"):
        paired_difference({"a": [True]}, {"b": [True]}, 0)


def test_results_of_different_tests_are_not_compared():
    result = {"panel_hash": "1", "temperature": 1.0, "episodes": [{"task": "a", "won": True, "stop": "won"}]}
    assert difference(result, result).value == 0
    for key, other in (("panel_hash", "2"), ("temperature", 0.4)):
        with pytest.raises(UserError, match=f"different {key}"):
            difference(result, {**result, key: other})


def test_faults_are_no_outcomes():
    episodes = [
        {"task": "a", "won": False, "stop": "fault"},
        {"task": "a", "won": True, "stop": "won"},
        {"task": "b", "won": False, "stop": "fault"},
    ]
    assert won_by_task(episodes) == {"a": [True], "b": []}


def test_noise_floor_by_simulation():
    """Two runs of the same policy: the stated difference is exceeded by about 5 % of pairs."""
    rng = np.random.default_rng(0)
    pairs = rng.binomial(120, 0.7, (20_000, 2)) / 120
    exceeded = (np.abs(pairs[:, 0] - pairs[:, 1]) > noise(120, 0.7)).mean()
    assert 0.03 < exceeded < 0.065
    assert math.isclose(noise(120, 0.7), 0.116, abs_tol=5e-4)
    assert noise_floor(120, 0.7).startswith("With 120 tasks at 70% a difference under about 12 points")
