"""The rule annotator reads only words, names no instance, and finds the mistake that was made."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pytest

from seedbed.envs.alfworld.expert import Lesson
from seedbed.prompts.analyzer import answer_text
from seedbed.skills import rules
from seedbed.types import Action, Prompt, Skill, StopReason, Task, Trajectory, Turn

ROOM = (
    "You are in the middle of a room. Looking quickly around you, "
    "you see a drawer 1, a fridge 1, a microwave 1, and a desk 1."
)
ALL = [(kind, lesson) for kind in rules.KINDS for lesson in rules.lessons(kind)]


def trajectory(goal: str, *steps: tuple[str, str], won: bool = False) -> Trajectory:
    """An episode as it would have been recorded in the transcript layout."""
    none = np.zeros(0, np.int32)
    seen, turns = ROOM, []
    for action, answer in steps:
        prompt = Prompt((("task", f"Your task is to: {goal}"), ("skill", ""), ("observation", seen)))
        turns.append(
            Turn(
                prompt,
                none,
                none,
                np.zeros(0, np.float32),
                "stop",
                f"<action>{action}</action>",
                Action(action, True),
                answer,
            )
        )
        seen = answer
    task = Task("generated_train/any/0", "alfworld", "generated_train", "any")
    return Trajectory(
        task, 0, goal, tuple(turns), StopReason.WON if won else StopReason.STEP_CAP, 0.0, "transcript", 7, 0
    )


TAKE = (
    ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a egg 1, and a pen 1."),
    ("take egg 1 from desk 1", "You pick up the egg 1 from the desk 1."),
)
PUT = (
    ("go to desk 1", "You arrive at desk 1. On the desk 1, you see nothing."),
    ("move egg 1 to desk 1", "You move the egg 1 to the desk 1."),
)
HEAT = (("heat egg 1 with microwave 1", "You heat the egg 1 using the microwave 1."),)
OLDER = {  # what format 2.1.1 says instead; shared by all transcripts here
    "You arrive at desk 1.": "You arrive at loc 7.",
    "You arrive at drawer 1.": "You arrive at loc 31.",
    "move egg 1 to desk 1": "put egg 1 in/on desk 1",
    "You move the egg 1 to the desk 1.": "You put the egg 1 in/on the desk 1.",
}
Steps = tuple[tuple[str, str], ...]
MISTAKES = [
    ("put a hot egg in desk.", TAKE + PUT, Lesson("avoidance", "heat", "key")),
    ("put a cool egg in desk.", TAKE + HEAT + PUT, Lesson("avoidance", "cool", "key")),  # treated, but not as asked
    (
        "put a hot egg in desk.",
        TAKE + HEAT,
        Lesson("avoidance", "", "stray"),
    ),  # nothing wrong yet, the turns ran out
    ("put two egg in desk.", TAKE + PUT, Lesson("avoidance", "two", "key")),
    ("put a egg in fridge.", TAKE + PUT, Lesson("avoidance", "pick", "key")),
    ("look at egg under the desklamp.", TAKE, Lesson("avoidance", "look", "key")),
    ("put a mug in fridge.", TAKE, Lesson("avoidance", "", "wrong")),
    (
        "put a mug in desk.",
        (("go to drawer 1", "You arrive at drawer 1. The drawer 1 is closed."),),
        Lesson("avoidance", "", "shut"),
    ),
    ("put a mug in desk.", (("look", "Nothing happens."),), Lesson("avoidance", "", "stray")),
]


def in_older_words(steps: Steps) -> Steps:
    def say(text: str) -> str:
        for new, old in OLDER.items():
            text = text.replace(new, old)
        return text

    return tuple((say(action), say(answer)) for action, answer in steps)


@pytest.mark.parametrize(("goal", "steps", "lesson"), MISTAKES)
def test_mistakes_are_read_off_the_words(goal: str, steps: Steps, lesson: Lesson) -> None:
    assert rules.diagnose(trajectory(goal, *steps)) == lesson


@pytest.mark.parametrize(("goal", "steps", "lesson"), MISTAKES)
def test_mistakes_are_read_off_the_words_of_the_older_format(goal: str, steps: Steps, lesson: Lesson) -> None:
    """2.1.1: the same lesson in the same words, which name a deed and no command of either format."""
    before = in_older_words(steps)
    assert before != steps or steps == (("look", "Nothing happens."),)
    newer, older = trajectory(goal, *steps), trajectory(goal, *before)
    assert rules.diagnose(older) == lesson
    assert rules.annotate(older) == rules.annotate(newer)


def test_a_success_gives_the_workflow_of_its_kind_and_carries_its_origin() -> None:
    played = trajectory("put a hot egg in desk.", *TAKE, *HEAT, *PUT, won=True)
    skill = rules.annotate(played)
    assert (skill.trajectory, skill.kind, skill.status, skill.source, skill.version) == (
        played.id,
        "workflow",
        "ok",
        "rules",
        7,
    )
    assert skill.valid and "microwave" in skill.text and skill.summary.startswith("Won.")
    assert json.loads(answer_text(skill)) == {"episode_summary": skill.summary, "episode_skill": skill.text}
    assert rules.annotate(played) == skill
    assert rules.annotate(trajectory("put a hot egg in desk.", *TAKE, *HEAT, *in_older_words(PUT), won=True)) == skill


@pytest.mark.parametrize(("kind", "lesson"), ALL)
def test_no_text_names_an_instance_and_wordings_differ(kind: str, lesson: Lesson) -> None:
    assert lesson.fits(kind)
    texts = {rules.phrase(lesson, variant) for variant in range(2)}
    assert len(texts) == 2
    assert not any(re.search(r"\d", text) for text in (*texts, rules.summary(lesson)))


def test_no_two_lessons_share_a_text() -> None:
    texts = [rules.phrase(lesson, variant) for lesson in {lesson for _, lesson in ALL} for variant in range(2)]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("kind", rules.KINDS)
def test_right_and_wrong_skills(kind: str) -> None:
    rng = random.Random(0)
    own = {rules.phrase(Lesson("workflow", kind), variant) for variant in range(2)}
    assert {rules.right_skill(kind, rng) for _ in range(30)} == own
    assert not own & {rules.wrong_skill(kind, rng) for _ in range(100)}


def test_the_answer_is_plain_json_even_with_quotes() -> None:
    skill = Skill("t", "workflow", "ok", 'say "yes"', "a\nb")
    assert json.loads(answer_text(skill)) == {"episode_summary": "a\nb", "episode_skill": 'say "yes"'}
