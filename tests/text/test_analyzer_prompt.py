"""Does the analyzer see what the policy saw, and is it asked for what the parser reads?"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from seedbed.prompts.analyzer import answer_schema, continuation, kind_of, standalone
from seedbed.types import Trajectory

Episode = Callable[..., Trajectory]


def test_standalone_shows_every_step_as_the_policy_met_it(episode: Episode) -> None:
    prompt = standalone(episode(won=False))
    slots = dict(prompt.slots)
    assert list(slots) == ["request", "task", "outcome", "steps", "end"]
    assert slots["task"] == "Task: put a mug on the desk"
    assert slots["outcome"] == "episode_success: failure"
    assert slots["steps"] == (
        "Step 1\nObservation: A room with a fridge.\n"
        "Response: <think>look inside</think><action>open fridge 1</action>\n"
        "Action valid: true\n\n"
        "Step 2\nObservation: The fridge holds a mug.\nResponse: take it\nAction valid: false"
    )
    assert slots["end"] == "Final observation: Nothing happens. (last)"
    assert "7.25" not in prompt.text, "rewards are not shown"


def test_outcome_decides_kind_and_words(episode: Episode) -> None:
    assert (kind_of(episode(won=True)), kind_of(episode(won=False))) == ("workflow", "avoidance")
    assert dict(standalone(episode(won=True)).slots)["outcome"] == "episode_success: success"
    texts = {won: continuation(episode(won=won)).text for won in (True, False)}
    assert "success" in texts[True] and "failure" not in texts[True]
    assert "failure" in texts[False] and "success" not in texts[False]
    for text in texts.values():
        assert len(text.split()) <= 60
        assert text.count("episode_summary") == text.count("episode_skill") == 1


def test_request_carries_the_schema(episode: Episode) -> None:
    schema = answer_schema()
    request = dict(standalone(episode(won=True)).slots)["request"]
    assert list(schema["properties"]) == schema["required"] == ["episode_summary", "episode_skill"]
    assert schema["additionalProperties"] is False
    assert json.dumps(schema) in request
    assert all(f"`{field}`" in request for field in schema["required"])


def test_neither_form_has_a_place_for_a_skill(episode: Episode) -> None:
    for prompt in (standalone(episode(won=True)), continuation(episode(won=True))):
        with pytest.raises(ValueError, match="no skill slot"):
            prompt.with_skill("x")
