"""Seeds, McNemar and power against enumeration and simulation."""

from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.evaluate.paired import (
    contrast,
    detectable,
    detectable_paired,
    discordance,
    first_attempts,
    level,
    mcnemar,
    noise_paired,
    power_sentence,
    seed_rates,
)
from seedbed.evaluate.stats import micro, noise, noise_floor, paired_difference, wilson
from seedbed.types import UserError


def pair(a_only: int, b_only: int, both: int = 0) -> tuple[dict[str, bool], dict[str, bool]]:
    a = [True] * a_only + [False] * b_only + [True] * both
    b = [False] * a_only + [True] * b_only + [True] * both
    return {f"t{i}": x for i, x in enumerate(a)}, {f"t{i}": x for i, x in enumerate(b)}


def agrees(interval: tuple[float, float], exact: list[float], samples: int = 10_000) -> None:
    """Each end cuts 2.5 % off the exact distribution (equally likely values), up to Monte-Carlo error."""
    values, slack = np.asarray(exact), 4 * (0.025 * 0.975 / samples) ** 0.5
    for end, share in zip(interval, (0.025, 0.975), strict=True):
        assert (values < end - 1e-9).mean() <= share + slack and (values <= end + 1e-9).mean() >= share - slack


@pytest.mark.parametrize(
    ("a_only", "b_only", "p"),
    [(1, 9, 2 * (1 + 10) / 1024), (0, 5, 2 / 32), (3, 3, 1.0), (0, 0, 1.0), (9, 1, 2 * 11 / 1024)],
)
def test_mcnemar_by_hand(a_only, b_only, p):
    found = mcnemar(*pair(a_only, b_only, both=4))
    assert (found.a_only, found.b_only, found.tasks) == (a_only, b_only, a_only + b_only + 4)
    assert found.p == pytest.approx(p)


@given(st.integers(0, 6), st.integers(0, 6))
def test_mcnemar_is_the_share_of_coin_tosses_at_least_as_uneven(a_only, b_only):
    tosses = [abs(2 * sum(t) - len(t)) for t in itertools.product((0, 1), repeat=a_only + b_only)]
    assert mcnemar(*pair(a_only, b_only)).p == pytest.approx(np.mean([t >= abs(a_only - b_only) for t in tosses]))


def test_mcnemar_of_thousands_of_tasks_is_exact():
    n, k = 3000, 1440
    assert mcnemar(*pair(k, n - k)).p == pytest.approx(2 * sum(comb(n, i) for i in range(k + 1)) / 2**n)


def test_mcnemar_takes_one_attempt_a_task_and_no_fault():
    """Copies of an attempt are no further evidence."""
    lines = [{"task": f"t{i}", "attempt": k, "won": True, "stop": "won"} for i in range(4) for k in range(8)]
    lines += [{"task": "broken", "attempt": k, "won": k > 0, "stop": "won" if k else "fault"} for k in range(8)]
    assert first_attempts(lines) == {f"t{i}": True for i in range(4)}
    lost = dict.fromkeys(first_attempts(lines), False)
    assert mcnemar(first_attempts(lines), lost).p == 2 / 16


def test_equal_policies_are_called_different_in_5_of_100_comparisons():
    """A planted null: 2,000 pairs whose tasks are of any difficulty. Nominal rate within 2 points."""
    rng, excluded, small = np.random.default_rng(11), 0, 0
    for i in range(2000):
        p = rng.uniform(0.2, 0.9, 80)
        a, b = ({t: [x] for t, x in enumerate((rng.random(80) < p).tolist())} for _ in range(2))
        excluded += paired_difference(a, b, i, samples=300).excludes_zero
        small += mcnemar({t: x[0] for t, x in a.items()}, {t: x[0] for t, x in b.items()}).p < 0.05
    assert 0.03 <= excluded / 2000 <= 0.07
    assert 0.03 <= small / 2000 <= 0.05  # exact: never above


def test_macro_difference_counts_kinds_alike_and_resamples_inside_them():
    won_a = {"p0": [True], "p1": [False], "p2": [True], "q0": [True], "q1": [True]}
    won_b = {"p0": [False], "p1": [False], "p2": [False], "q0": [False], "q1": [True]}
    p, q = [1.0, 0.0, 1.0], [1.0, 0.0]
    found = contrast([won_a], [won_b], {t: t[0] for t in won_a})
    assert found.value == pytest.approx((2 / 3 + 1 / 2) / 2) and found.covers == "tasks only"
    draws = itertools.product(itertools.product(p, repeat=3), itertools.product(q, repeat=2))
    agrees((found.low, found.high), [(np.mean(x) + np.mean(y)) / 2 for x, y in draws])


def test_one_run_each_is_the_paired_difference():
    won_a, won_b = {f"t{i}": [i % 3 > 0] for i in range(30)}, {f"t{i}": [i % 2 > 0] for i in range(30)}
    assert contrast([won_a], [won_b]) == paired_difference(won_a, won_b, 0)
    assert level([won_a]) == micro(won_a)


def test_no_difference_on_any_task_still_has_an_interval():
    """As wide for kinds of equal size as without kinds."""
    won = {f"{k}{i}": [i % 2 > 0] for k in "pq" for i in range(10)}
    plain, kinds = contrast([won], [won]), contrast([won], [won], {t: t[0] for t in won})
    assert plain.low < 0 < plain.high and (kinds.low, kinds.high) == pytest.approx((plain.low, plain.high))


SEEDS = [  # of one arm, over tasks x, y, z
    {"x": [True], "y": [False], "z": [True, True]},
    {"x": [False], "y": [False], "z": [True, False]},
]
OTHERS = [{"x": [True], "y": [True], "z": [True]}, {"x": [False], "y": [True], "z": [False]}]


def matrix(arm: list[dict]) -> np.ndarray:
    return np.array([[np.mean(won[t]) for t in "xyz"] for won in arm])


def test_seeds_and_tasks_are_both_drawn():
    """Enumerated: 27 draws of tasks, shared, by one of two seeds in each arm: 108 equally likely differences."""
    a, b = matrix(SEEDS), matrix(OTHERS)
    exact = [
        a[s, list(tasks)].mean() - b[r, list(tasks)].mean()
        for tasks in itertools.product(range(3), repeat=3)
        for s in range(2)
        for r in range(2)
    ]
    found = contrast(SEEDS, OTHERS)
    assert found.value == pytest.approx(a.mean() - b.mean()) and found.covers == "tasks and training seeds"
    agrees((found.low, found.high), exact)
    alone = contrast(SEEDS, OTHERS[:1])
    agrees((alone.low, alone.high), [x for i, x in enumerate(exact) if i % 2 == 0])
    assert alone.covers == "tasks, and training seeds of one arm"
    rates = level(SEEDS)
    agrees(
        (rates.low, rates.high), [a[s, list(t)].mean() for t in itertools.product(range(3), repeat=3) for s in (0, 1)]
    )
    assert rates.method == "bootstrap over seeds and tasks" and seed_rates(SEEDS) == pytest.approx(a.mean(1))


def test_the_spread_between_seeds_is_not_understated():
    """Where tasks of a seed are all alike only seeds vary: the variance of the mean of S seeds is s^2 / S."""
    for share in ([0.2, 0.6], [0.1, 0.4, 0.4, 0.9]):
        arm = [{t: [i < 10 * x for i in range(10)] for t in "xyzw"} for x in share]
        assert level(arm, samples=40_000).se ** 2 == pytest.approx(np.var(share, ddof=1) / len(share), rel=0.05)
        kinds = level(arm, {t: "xyzw".index(t) % 2 for t in "xyzw"}, samples=40_000)
        assert kinds.value == pytest.approx(np.mean(share))


def test_with_seeds_that_differ_an_interval_of_tasks_only_is_too_sure():
    """Two equal ways of training whose seeds scatter by 6 points: three seeds each, against pooling them as one."""
    rng, wrong, pooled = np.random.default_rng(3), 0, 0
    for i in range(120):
        p = rng.uniform(0.3, 0.7, 100)
        arms = [[rng.random(100) < p + rng.normal(0, 0.06) for _ in range(3)] for _ in range(2)]
        a, b = ([{t: [bool(x)] for t, x in enumerate(run)} for run in arm] for arm in arms)
        wrong += contrast(a, b, seed=i, samples=400).excludes_zero
        as_one = [{t: [bool(run[t]) for run in arm] for t in range(100)} for arm in arms]
        pooled += paired_difference(*as_one, i, samples=400).excludes_zero
    assert wrong / 120 <= 0.07 and pooled / 120 >= 0.15


def test_seeds_that_all_win_have_wilsons_interval():
    arm = [{f"t{i}": [True] for i in range(10)}] * 2
    assert (level(arm).low, level(arm).high) == wilson(10, 10)


def test_seeds_without_a_shared_task_are_an_error():
    with pytest.raises(UserError, match="share no task"):
        contrast([{"x": [True]}, {"y": [True]}], [{"x": [True]}])


def test_128_tasks_at_85_per_cent_leave_9_points_to_noise():
    assert noise(128, 0.85) == pytest.approx(1.96 * (2 * 0.85 * 0.15 / 128) ** 0.5) == pytest.approx(0.0875, abs=5e-5)
    assert noise_floor(128, 0.85) == (
        "With 128 tasks at 85% a difference under about 9 points between two runs is noise."
    )


def test_what_is_detectable_is_seen_in_8_of_10_simulated_comparisons():
    rng, n, p = np.random.default_rng(1), 128, 0.6
    gap = detectable(n, p)
    a, b = (rng.binomial(n, q, 40_000) / n for q in (p + gap / 2, p - gap / 2))
    assert (np.abs(a - b) > noise(n, p)).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("n", "share"), [(128, 0.2), (500, 0.1), (120, 0.4)])
def test_what_is_detectable_in_pairs_is_seen_in_8_of_10_simulated_comparisons(n, share):
    gap = detectable_paired(n, share)
    draws = np.random.default_rng(2).multinomial(n, [(share + gap) / 2, (share - gap) / 2, 1 - share], 40_000) / n
    seen = np.abs(draws[:, 0] - draws[:, 1]) > noise_paired(n, share)
    assert seen.mean() == pytest.approx(0.8, abs=0.03)


def test_too_few_discordant_tasks_detect_nothing():
    assert detectable_paired(20, 0.1) is None and detectable_paired(20, 0.3) is None
    assert "if paired" not in power_sentence(20, 0.5, 0.1) and "Paired" not in power_sentence(20, 0.5, 0.0)


def test_power_in_words():
    """128 tasks at 85 %, 20 % ending differently: 1.96 sqrt(.2/128) = 7.7; 2.80 * 4.46 = 12.5 points."""
    assert power_sentence(128, 0.85, 0.2) == (
        "Paired by task, with 20% of the tasks ending differently, under about 8 points is noise. To be seen in 8 of "
        "10 such comparisons a true difference has to be of 13 points if not paired and of 11 points if paired."
    )


def test_discordance_is_that_of_single_attempts():
    a, b = {"x": [True], "y": [False], "z": [True, False]}, {"x": [False], "y": [False], "z": [True, True]}
    assert discordance([a], [b]) == pytest.approx((1 + 0 + 0.5) / 3)
