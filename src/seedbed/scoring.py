"""How the same tokens are scored in both contexts (paper 1.1: nothing is sampled again).

The skill context is a second rendering of the row's own prompt with the skill slot filled, followed by exactly the ids
that follow it in the row. A windowed turn with a critical-step skill has that one before the footer instead (official
code, step_priority). Both contexts are scored by the same weights, engine, dtype and temperature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from seedbed.engines.base import Engine, ScoreRow
from seedbed.prompts.base import skill_block, with_step_skill
from seedbed.render import Renderer, chat_of
from seedbed.types import Message, PairedScores, Sample, Skill


def skill_context(sample: Sample, skill: str, renderer: Renderer, step: str = "") -> np.ndarray:
    """``H(h, s)`` plus the row's own continuation, int32 ids. Without text it is the ordinary row itself.

    ``step`` is the skill of the row's only turn and takes the place of ``skill``.
    """
    if step:
        chat = [Message("user", with_step_skill(sample.trajectory.turns_K[sample.turns[0]].prompt, step).text)]
    else:
        chat = chat_of(sample.trajectory, sample.turns[0], skill_block(skill) if skill.strip() else "")
    prompt = renderer.open(chat).ids_T
    return np.concatenate([prompt, sample.ids_T[sample.prompt_len :]]).astype(np.int32)


def step_skill(sample: Sample, skill: Skill) -> str:
    """The skill of a windowed row's very turn, empty if its turn is not a critical one."""
    return dict(skill.steps).get(sample.turns[0], "") if sample.trajectory.layout == "windowed" else ""


def score_pairs(
    engine: Engine,
    renderer: Renderer,
    samples: Sequence[Sample],
    skills: Mapping[str, Skill],
    *,
    temperature: float,
    max_prompt_tokens: int,
) -> list[PairedScores]:
    """Ordinary log-probs of every row, and skill-context log-probs of rows whose trajectory has a valid skill.

    A skill whose prompt is longer than ``max_prompt_tokens`` is not cut: the row takes no part in OPD (``skill_cut``).
    Raises ``AssertionError`` if a trajectory, its skill and the scorer do not share one policy version.
    """
    ordinary = engine.score([ScoreRow(s.ids_T, s.sampled_T) for s in samples], temperature)
    rows: dict[int, ScoreRow] = {}
    cut: set[int] = set()
    for i, sample in enumerate(samples):
        skill = skills.get(sample.trajectory.id)
        if skill is None or not skill.valid:
            continue
        if not sample.trajectory.version == skill.version == engine.version:
            raise AssertionError(
                f"{sample.trajectory.id}: trajectory, skill and scorer have versions {sample.trajectory.version}, "
                f"{skill.version} and {engine.version}"
            )
        ids_T = skill_context(sample, skill.text, renderer, step_skill(sample, skill))
        grown = len(ids_T) - len(sample.ids_T)
        longest = len(sample.trajectory.turns_K[sample.turns[-1]].prompt_ids_T)
        if longest + grown > max_prompt_tokens:
            cut.add(i)
        else:
            shift = np.zeros(max(grown, 0), bool)
            selected = np.concatenate([shift, sample.sampled_T]) if grown >= 0 else sample.sampled_T[-grown:]
            rows[i] = ScoreRow(ids_T, selected)
    changed = [i for i, row in rows.items() if not np.array_equal(row.ids_T, samples[i].ids_T)]
    taught = dict(zip(changed, engine.score([rows[i] for i in changed], temperature), strict=True))
    out = []
    for i, sample in enumerate(samples):
        teacher = taught.get(i, ordinary[i]) if i in rows else None
        out.append(
            PairedScores(
                _spread(ordinary[i], sample),
                None if teacher is None else _spread(teacher, sample),
                engine.version,
                skill_cut=i in cut,
            )
        )
    return out


def _spread(values: np.ndarray, sample: Sample) -> np.ndarray:
    """Values of the sampled tokens at their places in the row, NaN elsewhere."""
    out = np.full(len(sample.ids_T), np.nan, np.float32)
    out[sample.sampled_T] = values
    return out
