"""How sure is a success rate, and how sure is a difference between two? Intervals that a reader can recompute.

Tasks are the unit of chance, not episodes: attempts of one task resemble each other, so whole tasks are resampled. All
intervals are 95 % unless ``z`` says otherwise. Rates are shares in 0..1; nothing here knows a model or an environment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seedbed.types import UserError

Outcomes = Mapping[str, Sequence[bool]]  #: task id -> won or not, one entry an attempt (faults left out)

_BLOCK = 1 << 21  # resampled entries held at once: 16 MB of indices


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate with its interval and standard error. ``value`` is None if nothing was measured."""

    value: float | None
    low: float
    high: float
    se: float | None
    method: str  #: how the interval was made


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean success of ``a`` minus that of ``b`` over the tasks that both played."""

    value: float
    low: float
    high: float
    tasks: int  #: tasks played by both
    dropped: int  #: tasks that only one of them played without a fault
    covers: str = "tasks only"  #: what else might have been drawn: the interval knows nothing of other training seeds

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "excludes_zero": self.excludes_zero}


def wilson(k: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Score interval of ``k`` successes in ``n`` independent trials (Wilson 1927); (0, 1) if there was no trial."""
    if not 0 <= k <= n:
        raise ValueError(f"{k} successes of {n} trials")
    if n == 0:
        return 0.0, 1.0
    p, extra = k / n, z * z / n
    middle = (p + extra / 2) / (1 + extra)
    half = z * math.sqrt(p * (1 - p) / n + extra / (4 * n)) / (1 + extra)
    return (0.0 if k == 0 else middle - half), (1.0 if k == n else middle + half)


def micro(won: Outcomes, *, seed: int = 0, samples: int = 10_000) -> Estimate:
    """Success over all episodes. Wilson if no task was played twice, otherwise a bootstrap over whole tasks.

    A bootstrap of results that are all alike has no width; the interval is then Wilson's over tasks.
    """
    played = [list(outcomes) for outcomes in won.values() if len(outcomes)]
    if not played:
        return Estimate(None, 0.0, 1.0, None, "nothing measured")
    wins, counts = np.array([sum(o) for o in played], float), np.array([len(o) for o in played], float)
    value = float(wins.sum() / counts.sum())
    # of a ratio of sums (linearised); sqrt(p(1-p)/n) if every task was played once
    se = float(np.sqrt(((wins - value * counts) ** 2).sum()) / counts.sum())
    if counts.max() == 1:
        return Estimate(value, *wilson(int(wins.sum()), len(played)), se, "Wilson")
    low, high = _interval(_resampled(wins, counts, np.random.default_rng(seed), samples))
    if low == high and value in (0.0, 1.0):
        return Estimate(value, *wilson(round(value * len(played)), len(played)), se, "Wilson over tasks (all alike)")
    return Estimate(value, low, high, se, "bootstrap over tasks")


def macro(won: Outcomes, kinds: Mapping[str, str], *, seed: int = 0, samples: int = 10_000) -> Estimate:
    """Mean over task kinds of the success of each kind; ``kinds`` maps task id to kind.

    The interval resamples tasks inside every kind. Where each kind is at 0 or 1 that has no width; it is then the mean
    of the kinds' Wilson bounds, which is wider than 95 %. Kinds with nothing measured are left out.
    """
    by_kind: dict[str, list[Sequence[bool]]] = {}
    for task, outcomes in won.items():
        if len(outcomes):
            by_kind.setdefault(kinds[task], []).append(outcomes)
    if not by_kind:
        return Estimate(None, 0.0, 1.0, None, "nothing measured")
    rng, rates, draws = np.random.default_rng(seed), [], []
    for kind in sorted(by_kind):
        wins = np.array([sum(o) for o in by_kind[kind]], float)
        counts = np.array([len(o) for o in by_kind[kind]], float)
        rates.append(wins.sum() / counts.sum())
        draws.append(_resampled(wins, counts, rng, samples))
    value, means = float(np.mean(rates)), np.mean(draws, axis=0)
    low, high = _interval(means)
    if low == high:
        bounds = [
            wilson(round(rate * len(by_kind[k])), len(by_kind[k]))
            for rate, k in zip(rates, sorted(by_kind), strict=True)
        ]
        low, high = (float(x) for x in np.mean(bounds, axis=0))
        return Estimate(value, low, high, 0.0, "mean of the kinds' Wilson bounds (all alike)")
    return Estimate(value, low, high, float(means.std()), "bootstrap over tasks inside kinds")


def paired_difference(
    won_a: Outcomes, won_b: Outcomes, seed: int, samples: int = 10_000, kinds: Mapping[str, str] | None = None
) -> Difference:
    """``a`` minus ``b`` over paired tasks: attempts of a task are averaged first, then tasks are resampled.

    Every task counts alike (micro), or every kind if ``kinds`` maps task id to kind (macro; tasks are resampled inside
    kinds). Says how much another draw of *tasks* (and of attempts) would move the difference. It says nothing about
    another training seed. Raises ``UserError`` if no task was played by both.
    """
    shared = shared_tasks([won_a, won_b])
    of_kind = strata(shared, kinds)
    gaps = np.array([sum(won_a[t]) / len(won_a[t]) - sum(won_b[t]) / len(won_b[t]) for t in shared])
    rng = np.random.default_rng(seed)
    draws = [_resampled(gaps[at], np.ones(len(at)), rng, samples) for at in of_kind]
    value = float(np.mean([gaps[at].mean() for at in of_kind]))
    low, high = with_width(_interval(np.mean(draws, axis=0)), of_kind)
    return Difference(value, low, high, len(shared), len(won_a.keys() | won_b.keys()) - len(shared))


def shared_tasks(runs: Sequence[Outcomes]) -> list[str]:
    """Tasks that every run played at least once without a fault, in order. Raises ``UserError`` if there is none."""
    shared = sorted(t for t in runs[0] if all(len(won.get(t, ())) for won in runs))
    if not shared:
        raise UserError("the two evaluations share no task: evaluate both on the same panel")
    return shared


def strata(tasks: Sequence[str], kinds: Mapping[str, str] | None) -> list[np.ndarray]:
    """Places of the tasks of each kind, kinds in order; of all tasks as one if ``kinds`` is None."""
    names = np.array([kinds[t] if kinds else "" for t in tasks])
    return [np.flatnonzero(names == name) for name in sorted(set(names.tolist()))]


def with_width(interval: tuple[float, float], of_kind: Sequence[np.ndarray]) -> tuple[float, float]:
    """The interval of a difference, or, where tasks that all agree bootstrap to no width, what Wilson leaves open of so
    few tasks, over a range of 2. Of kinds: of as many tasks as give a plain mean the variance that theirs has."""
    low, high = interval
    if math.isclose(low, high, abs_tol=1e-9):
        tasks = len(of_kind) ** 2 / sum(1 / len(at) for at in of_kind)
        slack = 2 * 1.96**2 / (tasks + 1.96**2)
        low, high = max(low - slack, -1.0), min(high + slack, 1.0)
    return low, high


def difference(result_a: Mapping[str, Any], result_b: Mapping[str, Any], seed: int = 0) -> Difference:
    """``paired_difference`` of two results of ``evaluate``. Raises ``UserError`` if they are not of the same test."""
    for key in ("panel_hash", "temperature", "template_hash", "rollout", "env_facts"):
        if result_a.get(key) != result_b.get(key):
            raise UserError(
                f"two evaluations with different {key} ({result_a.get(key)} and {result_b.get(key)}) cannot be "
                f"compared: evaluate both alike"
            )
    return paired_difference(won_by_task(result_a["episodes"]), won_by_task(result_b["episodes"]), seed)


def won_by_task(episodes: Sequence[Mapping[str, Any]]) -> dict[str, list[bool]]:
    """Outcomes by task of an evaluation's episodes. A fault is no outcome; a task of faults only has an empty list."""
    won: dict[str, list[bool]] = {}
    for episode in episodes:
        outcomes = won.setdefault(episode["task"], [])
        if episode["stop"] != "fault":
            outcomes.append(bool(episode["won"]))
    return won


def noise(n: int, p: float, z: float = 1.96) -> float:
    """The difference (a share) that two equal policies, each on ``n`` tasks at success ``p``, exceed in 5 % of cases.

    For independent episodes; pairing by task can only lower it.
    """
    if n < 1:
        raise ValueError("no tasks")
    return z * math.sqrt(2 * p * (1 - p) / n)


def noise_floor(n: int, p: float) -> str:
    """``noise`` as a sentence for people."""
    return (
        f"With {n} tasks at {p:.0%} a difference under about {100 * noise(n, p):.0f} points between two runs is noise."
    )


def _resampled(sums: np.ndarray, counts: np.ndarray, rng: np.random.Generator, samples: int) -> np.ndarray:
    """``samples`` draws of (sum of sums) / (sum of counts) over tasks drawn with replacement."""
    n, rows, out = len(sums), max(1, _BLOCK // len(sums)), []
    for start in range(0, samples, rows):
        picks = rng.integers(0, n, (min(rows, samples - start), n))
        out.append(sums[picks].sum(1) / counts[picks].sum(1))
    return np.concatenate(out)


def _interval(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)
