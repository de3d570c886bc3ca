"""Are the skills of a run fit to train on? Failures, duplicates, diversity, length, kinds, leaks, forbidden tasks.

Works on what is stored: no model, no environment. A skill from a task outside the allowed split is an error; everything
else is a finding with numbers for a person to judge (ours).
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from seedbed.skills.kinds import kind_agreement
from seedbed.types import Skill, Trajectory

_SHINGLE = 3  #: words
_ALWAYS_SAID = frozenset(["yes", "no", "true", "false", "none"])  # an answer that gives nothing away


def audit(
    trajectories: Sequence[Trajectory],
    skills: Mapping[str, Skill],
    *,
    allowed_split: str,
    held_out: Mapping[str, str],
    instance: str = "",
    secrets: Mapping[str, Sequence[str]] | None = None,
    near: float = 0.7,
    sample: int = 6,
) -> dict[str, Any]:
    """A JSON-able account of ``skills`` (by trajectory id) and of the episodes they were written about.

    ``held_out`` maps task ids of panels to the panel's name; ``instance`` is the environment's pattern of names that
    only one game has; ``secrets`` maps task ids to texts that give the task away (gold answers). ``near`` is the least
    Jaccard similarity of word triples at which two texts count as near-duplicates.
    """
    about = {t.id: t for t in trajectories if not t.faulty and t.turns_K}
    written = {key: skill for key, skill in skills.items() if key in about}
    valid = {key: skill for key, skill in written.items() if skill.valid}
    return {
        "episodes": len(about),
        "faults": sum(t.faulty for t in trajectories),
        "skills": len(written),
        "valid": len(valid),
        "without_episode": sorted(set(skills) - set(about)),
        "unannotated": len(set(about) - set(skills)),
        "statuses": dict(Counter(s.status for s in written.values()).most_common()),
        "repairs": dict(Counter(r for s in valid.values() for r in set(s.repairs)).most_common()),
        "kinds": _kinds(about, valid),
        "kind_agreement": kind_agreement(valid.values()),
        "step_skills": _per_skill([len(s.steps) for s in valid.values()]),
        "length_words": _quantiles([len(s.text.split()) for s in valid.values()]),
        **_likeness([s.text for s in valid.values()], near),
        "leaks": _leaks(about, valid, instance, secrets or {}),
        "forbidden": [
            {"trajectory": key, "task": t.task.id, "why": why}
            for key in sorted(written)
            if (why := _forbidden(t := about[key], allowed_split, held_out))
        ],
        "sample": [
            {"trajectory": key, "kind": valid[key].kind, "task_kind": about[key].task.kind, "text": valid[key].text}
            for key in _drawn({s.text: key for key, s in sorted(valid.items())}, sample)
        ],
    }


def clusters(texts: Sequence[str], near: float) -> list[list[int]]:
    """Indices grouped by chains of near-duplicates: Jaccard of word triples at least ``near``. Exact, not hashed.

    Two sets that similar share an element among the rarest few of each, so only such pairs are compared.
    """
    shingles = [_shingles(text) for text in texts]
    rarity = Counter(s for found in shingles for s in found)
    leader = list(range(len(texts)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    seen: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, found in enumerate(shingles):
        ordered = sorted(found, key=lambda s: (rarity[s], s))
        prefix = ordered[: len(ordered) - math.ceil(near * len(ordered) - 1e-9) + 1]
        for j in {j for s in prefix for j in seen[s]}:
            if find(i) != find(j) and _jaccard(found, shingles[j]) >= near:
                leader[find(i)] = find(j)
        for s in prefix:
            seen[s].append(i)
    groups: dict[int, list[int]] = defaultdict(list)
    for i in range(len(texts)):
        groups[find(i)].append(i)
    return sorted(groups.values(), key=lambda g: (-len(g), g[0]))


def _likeness(texts: Sequence[str], near: float) -> dict[str, Any]:
    distinct = Counter(_flat(text) for text in texts)
    unique = list(distinct)
    groups = clusters(unique, near)
    sizes = [sum(distinct[unique[i]] for i in group) for group in groups]
    pairs = Counter(pair for text in texts for pair in _pairs(text))
    return {
        "distinct": len(distinct),
        "duplicates": len(texts) - len(distinct),
        "near_duplicates": len(distinct) - len(groups),
        "clusters": len(groups),
        "effective_number": _effective(sizes),  # exp of the entropy of the cluster sizes
        "distinct_word_pairs": len(pairs) / pairs.total() if pairs else None,
        "most_repeated": [{"count": count, "text": text} for text, count in distinct.most_common(3) if count > 1],
    }


def _kinds(about: Mapping[str, Trajectory], valid: Mapping[str, Skill]) -> dict[str, dict[str, int]]:
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for key, skill in valid.items():
        table[skill.kind][about[key].task.kind] += 1
    return {kind: dict(sorted(counts.items())) for kind, counts in sorted(table.items())}


def _leaks(
    about: Mapping[str, Trajectory], valid: Mapping[str, Skill], instance: str, secrets: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    found = []
    for key, skill in sorted(valid.items()):
        trajectory = about[key]
        for name in sorted(set(_instances(skill.text, trajectory, instance))):
            found.append({"trajectory": key, "kind": "instance", "text": name})
        said = "\n".join([skill.text, *(text for _, text in skill.steps)])  # of a step: its things may be named
        for secret in secrets.get(trajectory.task.id, ()):
            known = secret.casefold() in _ALWAYS_SAID or _says(trajectory.goal, secret)
            if not known and _says(said, secret):
                found.append({"trajectory": key, "kind": "answer", "text": secret})
    return found


def _instances(text: str, trajectory: Trajectory, instance: str) -> Iterator[str]:
    """Names of the pattern that also occur in the episode: "step 3" of an advice is no thing of the game."""
    named = {m.group().casefold() for m in re.finditer(instance, text, re.IGNORECASE)} if instance else set()
    if named:
        seen = "\n".join(
            f"{dict(t.prompt.slots).get('observation', '')}\n{t.action.text}\n{t.observation}"
            for t in trajectory.turns_K
        )
        yield from (name for name in named if _says(seen, name) and not _says(trajectory.goal, name))


def _says(text: str, words: str) -> bool:
    return bool(words.strip()) and bool(re.search(rf"(?<!\w){re.escape(words.casefold())}(?!\w)", text.casefold()))


def _forbidden(trajectory: Trajectory, allowed_split: str, held_out: Mapping[str, str]) -> str:
    if trajectory.task.split != allowed_split:
        return f"split {trajectory.task.split!r}, allowed is {allowed_split!r}"
    panel = held_out.get(trajectory.task.id)
    return f"task of panel {panel!r}" if panel else ""


def _drawn(distinct: Mapping[str, str], count: int) -> list[str]:
    return random.Random(0).sample(list(distinct.values()), min(count, len(distinct)))


def _flat(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = _flat(text).split()
    return frozenset(tuple(words[i : i + _SHINGLE]) for i in range(max(len(words) - _SHINGLE + 1, 1)))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    words = _flat(text).split()
    return pairwise(words)


def _jaccard(a: frozenset[Any], b: frozenset[Any]) -> float:
    return len(a & b) / len(a | b)


def _effective(sizes: Sequence[int]) -> float:
    p = np.asarray(sizes, np.float64) / max(sum(sizes), 1)
    return float(np.exp(-(p * np.log(p)).sum())) if len(p) else 0.0


def _per_skill(counts: Sequence[int]) -> dict[str, float] | None:
    """Share of the skills with critical-step skills beside them, and how many they have on average over all."""
    return {"share": sum(n > 0 for n in counts) / len(counts), "mean": sum(counts) / len(counts)} if counts else None


def _quantiles(values: Sequence[int]) -> dict[str, float] | None:
    if not values:
        return None
    low, middle, high = np.percentile(values, [5, 50, 95])
    return {"p5": float(low), "median": float(middle), "p95": float(high), "max": float(max(values))}
