"""Can the records be had again? Scores and episodes computed anew from stored weights, token for token."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from seedbed.config import Config, ModelSettings
from seedbed.engines.torch_engine import TorchEngine
from seedbed.envs.base import environment_from
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.samples import build_samples
from seedbed.scoring import score_pairs
from seedbed.track.store import TokenValues
from seedbed.train.model import folder_hashes, load_engine, resolve
from seedbed.types import PairedScores, Sample, Skill, Trajectory

CLOSE = 1e-3  #: nats of one token; the same weights in other batches on one machine stay below 1e-4


def weights_of(policy: str | Path) -> dict[str, str]:
    """sha256 of the weight files of a policy."""
    return folder_hashes(resolve(str(policy)), lambda name: name.endswith(".safetensors"))


def engine_of(policy: str | Path) -> tuple[TorchEngine, Renderer]:
    """The policy in ``policy``, loaded anew only if one of its files has changed."""
    return _loaded(str(policy), tuple(folder_hashes(resolve(str(policy))).items()))


@lru_cache(maxsize=4)
def _loaded(policy: str, files: tuple[tuple[str, str], ...]) -> tuple[TorchEngine, Renderer]:
    return load_engine(ModelSettings(path=policy))


def scores_again(
    policy: str | Path, config: Config, trajectory: Trajectory, skill: Skill | None
) -> tuple[list[Sample], list[PairedScores]]:
    """The rows of an episode and their scores in both contexts by the weights in ``policy``."""
    engine, renderer = engine_of(policy)
    engine.advance(trajectory.version)
    samples = build_samples(trajectory, renderer.stop_id)
    limit, temperature = config.rollout.max_prompt_tokens, config.rollout.temperature or 1.0
    skills = {trajectory.id: skill} if skill else {}
    scores = score_pairs(engine, renderer, samples, skills, temperature=temperature, max_prompt_tokens=limit)
    engine.release()
    return samples, scores


def distance(values: TokenValues, samples: list[Sample], scores: list[PairedScores]) -> float:
    """The largest difference, in nats, between stored and newly made scores in either context.

    Infinite where one has a score and the other has none.
    """
    rows = list(zip(samples, scores, strict=True))
    ordinary = np.concatenate([score.ordinary_T[sample.sampled_T] for sample, score in rows])
    nothing = [np.full(len(sample.ids_T), np.nan, np.float32) for sample in samples]
    skilled = np.concatenate(
        [
            (none if score.skill_T is None else score.skill_T)[sample.sampled_T]
            for (sample, score), none in zip(rows, nothing, strict=True)
        ]
    )
    return max(_apart(values.ordinary_T, ordinary), _apart(values.skill_T, skilled))


def replay(policy: str | Path, config: Config, trajectory: Trajectory, seed: int, attempts: int) -> Trajectory:
    """The episode of (task, attempt, seed) played again by the weights in ``policy``."""
    engine, renderer = engine_of(policy)
    engine.advance(trajectory.version)
    (group,) = collect_groups(
        engine,
        environment_from(config.env),
        renderer,
        config.rollout.model_copy(update={"temperature": config.collect.temperature}),
        [trajectory.task],
        attempts,
        seed=seed,
        only={(trajectory.task.id, trajectory.attempt)},
    )
    engine.release()
    return group.attempts_G[0]


def unlike(a: Trajectory, b: Trajectory) -> str:
    """What differs between two records of one episode, in words; empty if nothing does. Log-probs may by ``CLOSE``."""
    for name in ("task", "attempt", "seed", "goal", "version", "layout", "stop", "reward", "cause"):
        if getattr(a, name) != getattr(b, name):
            return f"{name}: {getattr(a, name)!r} and {getattr(b, name)!r}"
    if len(a.turns_K) != len(b.turns_K):
        return f"{len(a.turns_K)} and {len(b.turns_K)} turns"
    for k, (x, y) in enumerate(zip(a.turns_K, b.turns_K, strict=True)):
        for name in ("prompt", "text", "action", "observation", "reward", "finish", "prefix_break", "shortened"):
            if getattr(x, name) != getattr(y, name):
                return f"turn {k}, {name}: {getattr(x, name)!r} and {getattr(y, name)!r}"
        for name in ("prompt_ids_T", "response_ids_T"):
            if not np.array_equal(getattr(x, name), getattr(y, name)):
                return f"turn {k}, {name}"
        if _apart(x.logprobs_T, y.logprobs_T) > CLOSE:
            return f"turn {k}, log-probs"
    return ""


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    if len(a) != len(b) or not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    gaps = np.abs(a - b)
    return float(np.nanmax(gaps)) if np.isfinite(gaps).any() else 0.0
