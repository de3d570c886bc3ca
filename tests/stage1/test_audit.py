"""What an audit of skills finds: planted faults are counted exactly, clean sets are left alone."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from seedbed.skills.audit import audit, clusters
from seedbed.types import Action, Prompt, Skill, StopReason, Task, Trajectory, Turn, replace


def episode(task: str, attempt: int = 0, *, won: bool = True, split: str = "train", saw: str = "drawer 3 is shut"):
    import numpy as np

    none = np.zeros(0, np.int32)
    turn = Turn(
        Prompt((("observation", saw),)),
        none,
        none,
        none.astype(np.float32),
        "stop",
        "go",
        Action("go", True),
        "on shelf 2",
    )
    stop = StopReason.WON if won else StopReason.LOST
    return Trajectory(
        Task(task, "toy", split, "pick"), attempt, "put mug in shelf 1", (turn,), stop, 0.0, "windowed", 0, 0
    )


def skill(of: Trajectory, text: str, **changes: object) -> Skill:
    kind = "workflow" if of.won else "avoidance"
    return Skill(**{"trajectory": of.id, "kind": kind, "status": "ok", "text": text, **changes})


def found(pairs, **options):
    settings = {"allowed_split": "train", "held_out": {}, **options}
    return audit([t for t, _ in pairs], {s.trajectory: s for _, s in pairs if s}, **settings)


def test_counts_of_a_planted_set():
    a, b, c, d, e = (episode(name, won=name != "c") for name in "abcde")
    broken = replace(episode("f"), stop=StopReason.FAULT, cause="lost")
    pairs = [
        (a, skill(a, "Open the fridge, then take the mug.")),
        (b, skill(b, "open the FRIDGE then take the mug", status="ok_repaired", repairs=("fence", "trailing_comma"))),
        (c, skill(c, "Never put the mug down before you clean it.")),
        (d, skill(d, "", status="truncated")),
        (e, None),
        (broken, None),
    ]
    report = found(pairs)
    assert (report["episodes"], report["faults"], report["skills"], report["valid"]) == (5, 1, 4, 3)
    assert report["unannotated"] == 1 and report["without_episode"] == []
    assert report["statuses"] == {"ok": 2, "ok_repaired": 1, "truncated": 1}
    assert report["repairs"] == {"fence": 1, "trailing_comma": 1}
    assert report["kinds"] == {"avoidance": {"pick": 1}, "workflow": {"pick": 2}}
    assert (report["distinct"], report["duplicates"], report["clusters"]) == (2, 1, 2)
    shares = (2 / 3, 1 / 3)
    assert report["effective_number"] == pytest.approx(math.exp(-sum(p * math.log(p) for p in shares)))
    assert report["length_words"]["max"] == 9 and report["length_words"]["median"] == 7
    assert {s["trajectory"] for s in report["sample"]} == {a.id, b.id, c.id}


def test_a_name_of_one_game_is_a_leak_and_a_number_of_the_advice_is_not():
    pattern = r"\b[a-z]+ \d+\b"
    t = episode("a")
    leaks = found([(t, skill(t, "First open Drawer 3, then do step 2 and use shelf 2."))], instance=pattern)["leaks"]
    assert [(leak["kind"], leak["text"]) for leak in leaks] == [("instance", "drawer 3"), ("instance", "shelf 2")]
    assert not found([(t, skill(t, "Put it in shelf 1 by step 2."))], instance=pattern)["leaks"], (
        "the goal says shelf 1"
    )


@pytest.mark.parametrize(
    ("text", "leak"),
    [
        ("Search the capital and answer Paris.", True),
        ("Search paris-like words.", True),
        ("Comparisons help.", False),
        ("Say yes at the end.", False),
    ],
)
def test_a_gold_answer_is_a_leak_where_it_is_said_as_words(text, leak):
    t = episode("a")
    report = found([(t, skill(t, text))], secrets={"a": ("Paris", "yes", "mug")})
    assert [x["text"] for x in report["leaks"]] == (["Paris"] if leak else [])


def test_skills_of_forbidden_tasks_are_named():
    inside, other, held = episode("a"), episode("b", split="valid_seen"), episode("c")
    report = found([(t, skill(t, "look first")) for t in (inside, other, held)], held_out={"c": "toy-panel"})
    assert [(line["task"], line["why"]) for line in report["forbidden"]] == [
        ("b", "split 'valid_seen', allowed is 'train'"),
        ("c", "task of panel 'toy-panel'"),
    ]


def triples(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[i : i + 3]) for i in range(max(len(words) - 2, 1))}


@pytest.mark.parametrize("near", [0.3, 0.5, 0.7, 1.0])
def test_clusters_are_those_of_comparing_every_pair(near):
    rng = random.Random(5)
    texts = []
    for _ in range(60):
        base = (
            rng.choice(texts).split() if texts and rng.random() < 0.7 else rng.choices("a b c d e f g h".split(), k=12)
        )
        base = list(base)
        base[rng.randrange(len(base))] = rng.choice("abcdefgh")
        texts.append(" ".join(base))
    leader = list(range(len(texts)))
    for i, j in itertools.combinations(range(len(texts)), 2):
        a, b = triples(texts[i]), triples(texts[j])
        if len(a & b) / len(a | b) >= near:
            leader = [leader[i] if x == leader[j] else x for x in leader]
    expected = {frozenset(i for i in range(len(texts)) if leader[i] == x) for x in set(leader)}
    assert {frozenset(group) for group in clusters(texts, near)} == expected
    assert 1 < len(expected) < 60


def test_nothing_to_audit_is_said_with_numbers_not_an_error():
    report = found([(episode("a"), None)])
    assert (report["valid"], report["kind_agreement"], report["length_words"], report["effective_number"]) == (
        0,
        None,
        None,
        0,
    )
