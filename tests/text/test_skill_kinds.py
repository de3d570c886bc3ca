"""The kind of a written skill, from its words alone."""

from __future__ import annotations

import pytest

from seedbed.skills import rules
from seedbed.skills.kinds import kind_agreement, text_kind
from seedbed.types import Skill

WORKFLOWS = [
    "Find the item first, treat it at the right appliance, then carry it to the target.",
    "Search with all attributes in the query. Check colour and size. Buy only after the price matches.",
    "1. Open closed places.\n2. Take the object.\n3. Go to the lamp and switch it on.\n4. Do not put it down before.",
    "Query the exact entity, read the passages, and answer from what they say.",
    "Look at the desk; take the pen; move it to the drawer.",
    "Unfailingly effective: go straight to the fridge, cool the egg and place it.",  # no word of warning in "unfailing"
    "",
]
AVOIDANCES = [
    "Do not walk to the destination before the object is in hand.",
    "Don\u2019t buy a partial match: rewrite the query until every attribute fits.",
    "Avoid answering without a direct hit.",
    "The main mistake was heating an empty hand. Watch for it when nothing is held. Take the object first instead.",
    "Never repeat a search that found nothing; rephrase it.",
    "The agent failed because the drawer stayed shut. Open it before looking elsewhere.",
    "You should not leave a room early. Check every shelf.",
    "Rather than wandering, list the unvisited places and go through them.",
]


@pytest.mark.parametrize("text", WORKFLOWS)
def test_a_workflow_is_recognised(text: str) -> None:
    assert text_kind(text) == "workflow"


@pytest.mark.parametrize("text", AVOIDANCES)
def test_an_avoidance_is_recognised(text: str) -> None:
    assert text_kind(text) == "avoidance"


def test_all_that_the_rules_can_write_is_of_its_kind() -> None:
    written = [
        (rules.phrase(lesson, v), lesson.flavour) for k in rules.KINDS for lesson in rules.lessons(k) for v in (0, 1)
    ]
    assert len(written) == 60 and [text_kind(text) for text, _ in written] == [kind for _, kind in written]


def test_agreement_counts_valid_skills_only() -> None:
    def skill(kind: str, status: str, text: str) -> Skill:
        return Skill("t", kind, status, text)

    agreeing, opposed = skill("avoidance", "ok", AVOIDANCES[0]), skill("workflow", "ok", AVOIDANCES[0])
    broken = skill("workflow", "not_json", "")
    assert kind_agreement([agreeing, opposed, opposed, broken]) == 1 / 3
    assert kind_agreement([broken]) is None and kind_agreement([]) is None
