"""What is the analyzer asked about a finished episode?

Two forms of one request. ``standalone`` is the paper's (Fig. 10, wording ours): a single user message that renders
the whole trajectory. ``continuation`` is ours: one more user message after a transcript, so that a small model reads
nothing twice.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from seedbed.types import Prompt, Skill, Trajectory, UserError

_SUMMARY = "`episode_summary`: one or two sentences on what happened."
_SKILL = (
    "`episode_skill`: one short piece of advice that helps the same agent with other tasks of this kind, addressed to "
    "the agent. After a success write a workflow: the rule that decided it and the order of the actions. After a "
    "failure write a rule of avoidance: the main mistake, the signs that it is about to happen, and what to do instead."
)

_STEPS = (
    "`step_skills`: for the critical steps alone, those where the episode was decided or where another action was "
    "needed, an object from the number of the step to one short piece of advice for that very step, addressed to the "
    "agent before it acts. At most {steps} steps; an empty object if none stands out."
)


def kind_of(trajectory: Trajectory) -> Literal["workflow", "avoidance"]:
    """The kind of skill an outcome gives (paper 1.1). The official code tests for a return of at least 1, ours for
    ``won``.
    """
    return "workflow" if trajectory.won else "avoidance"


def answer_schema(steps: int = 0) -> dict[str, Any]:
    """JSON schema of the answer: exactly two top-level strings, and with ``steps`` an object of step skills."""
    fields: dict[str, Any] = {name: {"type": "string"} for name in ("episode_summary", "episode_skill")}
    if steps:
        fields["step_skills"] = {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": steps}
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def answer_text(skill: Skill, steps: int = 0) -> str:
    """The answer that gives ``skill`` with its first ``steps`` step skills: what Stage 1 trains (official code, its SFT
    record). Steps are numbered from 1, as in the request.
    """
    answer: dict[str, Any] = {"episode_summary": skill.summary, "episode_skill": skill.text}
    if steps:
        answer["step_skills"] = {str(turn + 1): text for turn, text in skill.steps[:steps]}
    return json.dumps(answer, ensure_ascii=False)


def standalone(trajectory: Trajectory, steps: int = 0) -> Prompt:
    """Slots request, task, outcome, steps, end. No rewards are shown; responses are the full texts, reasoning included.

    A step shows the observation the policy saw before it responded; what the environment said last stands at the end.
    With ``steps``, at most so many critical-step skills are asked for too; raises ``UserError`` for a transcript, where
    no turn but the first has a place for one.
    """
    if steps and trajectory.layout == "transcript":
        raise UserError(
            f"{trajectory.id} was played with rollout.layout=transcript, where single turns have no skill slot: set "
            "analyzer.steps=0 or collect with rollout.layout=windowed"
        )
    request = "\n".join(
        [
            "You review one finished episode of an agent and write down what can be learned from it. "
            "Reply with one JSON object that follows this JSON schema, and nothing else:",
            json.dumps(answer_schema(steps)),
            _SUMMARY,
            _SKILL,
            *([_STEPS.format(steps=steps)] if steps else []),
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
