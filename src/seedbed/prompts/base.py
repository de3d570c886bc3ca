"""How an environment's words become a prompt: ordered slots, one builder for all environments.

Slots: role, task, SKILL, history, now, observation, actions, footer. The skill slot is always there and empty in the
ordinary context. Source of the slot order: official code at 2cf2fad, wording ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seedbed.types import Prompt

SKILL_HEADING = "**Skill from an earlier episode** (use it as guidance):"
STEP_HEADING = "**Skill for this step** (use it as guidance):"


@dataclass(frozen=True, slots=True)
class Wording:
    """The sentences of one environment."""

    role: str  #: who the policy is
    think: str = "First reason step by step inside <think> </think> tags."
    act: str = "Then give exactly one admissible action inside <action> </action> tags."
    act_only: str = "Answer with exactly one action inside <action> </action> tags."  #: without reasoning
    task: str = "Your task is to:"
    task_first: bool = False  #: also the first prompt has the task before the observation, as later ones do
    steps: bool = False  #: there is nothing to see at first, and history is each action with what it brought


def skill_block(text: str) -> str:
    """The filled skill slot: heading and the skill in square brackets (official code, ``H(h, s)``)."""
    return f"{SKILL_HEADING} [{text.strip()}]"


def with_step_skill(prompt: Prompt, text: str) -> Prompt:
    """The same prompt with the skill of its own turn before the footer, at the end without one (official code)."""
    block = ("step_skill", f"{STEP_HEADING} [{text.strip()}]")
    names = [name for name, _ in prompt.slots]
    at = names.index("footer") if "footer" in names else len(names)
    return Prompt((*prompt.slots[:at], block, *prompt.slots[at:]))


def footer(wording: Wording, think: bool) -> str:
    return f"{wording.think} {wording.act}" if think else wording.act_only


def windowed(
    wording: Wording,
    *,
    goal: str,
    observation: str,
    admissible: Sequence[str],
    think: bool,
    history: Sequence[tuple[str, str]],
    turn: int,
    keep: int,
) -> Prompt:
    """A fresh single-message prompt of turn ``turn`` (0-based) with the last ``keep`` observation-action pairs."""
    task = f"{wording.task} {goal}"
    actions = "Your admissible actions are: [" + ", ".join(f"'{a}'" for a in admissible) + "]" if admissible else ""
    tail = (("actions", actions), ("footer", "Now it is your turn. " + footer(wording, think)))
    if turn == 0:
        seen = (("now", "" if wording.steps else "Your current observation is:"), ("observation", observation))
        asked = (("task", task), ("skill", ""))
        return Prompt((("role", wording.role), *((asked + seen) if wording.task_first else (seen + asked)), *tail))
    recent = history[-keep:] if keep else []
    first = turn - len(recent) + 1
    if wording.steps:
        brought = [seen.strip() for seen, _ in recent[1:]] + [""]  # the newest result is the observation
        lines = [" ".join(filter(None, (f"Step {first + i}:", recent[i][1], brought[i]))) for i in range(len(recent))]
        past, now = "\n".join([f"You have already taken {turn} step(s).", *lines]), ""
    else:
        lines = [
            f"[Observation {first + i}: '{seen}', Action {first + i}: '{done}']"
            for i, (seen, done) in enumerate(recent)
        ]
        past = f"You have already taken {turn} step(s)." + (
            f" The last {len(recent)} observations and actions: " + " ".join(lines) if recent else ""
        )
        now = f"You are now at step {turn + 1} and your current observation is:"
    return Prompt(
        (
            ("role", wording.role),
            ("task", task),
            ("skill", ""),
            ("history", past),
            ("now", now),
            ("observation", observation),
        )
        + tail
    )


def transcript_first(
    wording: Wording, *, goal: str, observation: str, admissible: Sequence[str], think: bool
) -> Prompt:
    """The first user message of an append-only chat; the only one with a skill slot."""
    return Prompt(
        (
            ("role", f"{wording.role} {footer(wording, think)}"),
            ("task", f"{wording.task} {goal}"),
            ("skill", ""),
            ("observation", observation),
            ("actions", _listed(admissible)),
        )
    )


def transcript_next(*, observation: str, admissible: Sequence[str]) -> Prompt:
    """A later user message: just the new observation."""
    return Prompt((("observation", observation), ("actions", _listed(admissible))))


def _listed(admissible: Sequence[str]) -> str:
    return "Admissible actions: [" + ", ".join(f"'{a}'" for a in admissible) + "]" if admissible else ""
