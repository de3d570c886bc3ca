"""What is the analyzer asked about a finished episode?

Two forms of one request. ``standalone`` is the paper's (Fig. 10, wording ours): a single user message that renders
the whole trajectory. ``continuation`` is ours: one more user message after a transcript, so that a small model reads
nothing twice.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from seedbed.types import Prompt, Skill, Trajectory

_SUMMARY = "`episode_summary`: one or two sentences on what happened."
_SKILL = (
    "`episode_skill`: one short piece of advice that helps the same agent with other tasks of this kind, addressed to "
    "the agent. After a success write a workflow: the rule that decided it and the order of the actions. After a "
    "failure write a rule of avoidance: the main mistake, the signs that it is about to happen, and what to do instead."
)


def kind_of(trajectory: Trajectory) -> Literal["workflow", "avoidance"]:
    """The kind of skill an outcome gives (paper 1.1). The official code tests for a return of at least 1, ours for
    ``won``.
    """
    return "workflow" if trajectory.won else "avoidance"


def answer_schema() -> dict[str, Any]:
    """JSON schema of the answer: exactly two top-level strings."""
    names = ["episode_summary", "episode_skill"]
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }


def answer_text(skill: Skill) -> str:
    """The answer that gives ``skill``: what Stage 1 trains (official code, its SFT record)."""
    return json.dumps({"episode_summary": skill.summary, "episode_skill": skill.text}, ensure_ascii=False)


def standalone(trajectory: Trajectory) -> Prompt:
    """Slots request, task, outcome, steps, end. No rewards are shown; responses are the full texts, reasoning included.

    A step shows the observation the policy saw before it responded; what the environment said last stands at the end.
    """
    request = "\n".join(
        [
            "You review one finished episode of an agent and write down what can be learned from it. "
            "Reply with one JSON object that follows this JSON schema, and nothing else:",
            json.dumps(answer_schema()),
            _SUMMARY,
            _SKILL,
        ]
    )
    steps = [
        f"Step {number}\nObservation: {dict(turn.prompt.slots).get('observation', '')}\nResponse: {turn.text}\n"
        f"Action valid: {'true' if turn.action.valid else 'false'}"
        for number, turn in enumerate(trajectory.turns_K, start=1)
    ]
    last = trajectory.turns_K[-1].observation if trajectory.turns_K else ""
    return Prompt(
        (
            ("request", request),
            ("task", f"Task: {trajectory.goal}"),
            ("outcome", f"episode_success: {_outcome(trajectory)}"),
            ("steps", "\n\n".join(steps)),
            ("end", f"Final observation: {last}" if last else ""),
        )
    )


def continuation(trajectory: Trajectory) -> Prompt:
    """Slots outcome, request: the user message that follows the transcript of the episode. At most 60 words."""
    wanted = "a workflow to repeat" if trajectory.won else "the mistake to avoid"
    return Prompt(
        (
            ("outcome", f"The episode is over: {_outcome(trajectory)}."),
            (
                "request",
                "Reply with only a JSON object of two strings: episode_summary (what happened) and "
                f"episode_skill (short advice for such tasks: {wanted}).",
            ),
        )
    )


def _outcome(trajectory: Trajectory) -> str:
    return "success" if trajectory.won else "failure"
