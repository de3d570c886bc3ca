"""What may honestly be said of SEED against GRPO after one run of each? Sentences, from the results alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from seedbed.evaluate.stats import Difference, difference, noise_floor

FEW_TASKS = 20  #: below this a bootstrap over tasks is itself unreliable


def differences(
    evals_grpo: Sequence[Mapping[str, Any]], evals_seed: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Difference]]:
    """(SEED's evaluation, SEED minus GRPO) for every pair of equal panel and temperature, temperature descending."""
    out = []
    for seed in sorted(evals_seed, key=lambda e: -e["temperature"]):
        for grpo in evals_grpo:
            if (grpo["panel_hash"], grpo["temperature"]) == (seed["panel_hash"], seed["temperature"]):
                out.append((seed, difference(seed, grpo)))
                break
    return out


def verdict(
    evals_grpo: Sequence[Mapping[str, Any]],
    evals_seed: Sequence[Mapping[str, Any]],
    entropies: Mapping[str, float | None],
) -> list[str]:
    """Sentences: each paired interval and whether it excludes 0, what entropy does to it, and what was not tested.

    ``entropies`` has the token entropy (nats) under the keys ``grpo`` and ``seed``. Results are those of ``evaluate``.
    """
    pairs = differences(evals_grpo, evals_seed)
    if not pairs:
        return [
            "SEED and GRPO were not evaluated on the same panel at the same temperature: nothing can be said about "
            "their difference."
        ]
    out = [_interval(result, gap) for result, gap in pairs]
    if len(pairs) > 1:
        chance = 1 - 0.95 ** len(pairs)
        out.append(
            f"{len(pairs)} intervals are shown: were there no difference at all, at least one would still exclude 0 in "
            f"up to {chance:.0%} of cases."
        )
    first, gap = pairs[0]
    out.append(
        noise_floor(gap.tasks, first["summary"]["micro"]["value"] or 0.0).removesuffix(".")
        + " if tasks are not paired."
    )
    if gap.tasks < FEW_TASKS:
        out.append(f"{gap.tasks} tasks are too few for these intervals to be trusted.")
    above = [result["temperature"] for result, gap in pairs if gap.low > 0]
    open_ = [result["temperature"] for result, gap in pairs if not gap.excludes_zero]
    if above and open_ and max(above) > min(open_):
        out.append(
            f"A difference at temperature {max(above):g} that is not seen at {min(open_):g} is what mere sharpening "
            f"of the policy would look like."
        )
    out.append(_entropy(entropies.get("grpo"), entropies.get("seed")))
    out.append(
        "That the contents of the skills matter is not shown by this: it takes the controls of the study (shuffled "
        "skills, constant gate), not run here."
    )
    out.append(
        "One RL seed an arm: the intervals cover the choice of tasks and the sampling, not another training run."
    )
    return out


def _interval(result: Mapping[str, Any], gap: Difference) -> str:
    says = (
        "the interval excludes 0" if gap.excludes_zero else "the interval does not exclude 0, so no difference is shown"
    )
    return (
        f"At temperature {result['temperature']:g} SEED minus GRPO is {100 * gap.value:+.1f} points (95 % interval "
        f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}, {gap.tasks} paired tasks): {says}."
    )


def _entropy(grpo: float | None, seed: float | None) -> str:
    flatters = "lower entropy flatters a policy at temperature 1"
    if grpo is None or seed is None or not (math.isfinite(grpo) and math.isfinite(seed)):
        return f"The entropies of the two policies are not known, and {flatters}."
    values = f"({seed:.3f} for SEED, {grpo:.3f} for GRPO, nats a token)"
    if abs(seed - grpo) < 0.0005:
        return f"The entropies of the two policies are alike {values}; {flatters}."
    lower = "SEED" if seed < grpo else "GRPO"
    return (
        f"The entropy of {lower} is the lower one {values}, and {flatters}: part of its score there may be sharpening."
    )
