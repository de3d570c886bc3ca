"""The nouns of seedbed: what flows from a game to a gradient.

Shape suffixes used everywhere: ``_P`` task, ``_G`` attempt of a task, ``_K`` turn of an episode, ``_T`` token,
``_B`` row of a micro-batch, ``_V`` vocabulary. This module imports nothing of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np


class StopReason(StrEnum):
    """Why an episode ended. Everything but ``FAULT`` is the policy's own doing and stays in its group."""

    WON = "won"  #: the environment reports success (also on the very last allowed turn)
    LOST = "lost"  #: the environment ended the episode without success
    STEP_CAP = "step_cap"  #: the turn limit was reached first
    TRUNCATED_TURN = "truncated_turn"  #: a response hit the token limit; the environment was not stepped
    CONTEXT_EXHAUSTED = "context_exhausted"  #: the next prompt would not fit; nothing was cut silently
    FAULT = "fault"  #: environment or engine broke: excluded from training, counted, with its cause


class Origin(IntEnum):
    """Where a token of a training row came from. Only ``SAMPLED`` tokens train, whatever their id."""

    PAD = 0
    PROMPT = 1
    SAMPLED = 2
    FORCED = 3  #: put there by the template where the policy did not write it (an end of turn after a cut response)


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do. ``id`` is unique within its environment and is all that is needed to make the task again."""

    id: str
    env: str
    split: str
    kind: str  #: task type, for results by type (ALFWorld: pick, look, clean, heat, cool, two)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the environment says after the start or after an action."""

    text: str
    admissible: tuple[str, ...] = ()  #: legal actions, if the environment can list them
    reward: float = 0.0
    done: bool = False
    won: bool = False
    image: np.ndarray | None = field(default=None, compare=False)  #: uint8 (rows, columns, RGB); never stored


@dataclass(frozen=True, slots=True)
class Action:
    """A response read as an action. ``valid`` is the format check of the environment's projection, not legality."""

    text: str
    valid: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """A user message as ordered named slots. The slot ``skill`` is a place, empty in the ordinary context.

    The skill context is the *same* prompt with that slot filled (paper 1.1, ``H(h, s)``): no rendered text is edited.
    """

    slots: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.slots]
        if len(set(names)) != len(names):
            raise ValueError(f"a slot occurs twice in a prompt: {names}")

    def with_skill(self, block: str) -> Prompt:
        """The same prompt with ``block`` in its skill slot. Raises ``ValueError`` if the prompt has no such slot."""
        if all(name != "skill" for name, _ in self.slots):
            raise ValueError("this prompt has no skill slot")
        return Prompt(tuple((name, block if name == "skill" else text) for name, text in self.slots))

    @property
    def text(self) -> str:
        """The message as sent: non-empty slots, one a line."""
        return "\n".join(text for _, text in self.slots if text)


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``content`` is data: control tokens inside it are encoded as ordinary characters."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt and the response sampled for it. Ids are what the engine saw and drew; text is only for reading."""

    prompt: Prompt  #: the newest user message; earlier ones are the earlier turns'
    prompt_ids_T: np.ndarray  #: int32, the whole context the engine received
    response_ids_T: np.ndarray  #: int32, sampled, a sampled end-of-turn token included
    logprobs_T: np.ndarray  #: float32, the sampler's, of ``response_ids_T`` at the sampling temperature
    finish: str  #: "stop" (end-of-turn sampled) or "length"
    text: str  #: decoded response without its end-of-turn token
    action: Action
    observation: str = ""  #: what the environment answered; empty if it was not stepped
    reward: float = 0.0
    prefix_break: bool = False  #: this prompt does not extend the previous prompt plus response (transcript layout)
    shortened: bool = False  #: the prompt limit left room for fewer history pairs than asked for (windowed layout)

    def __post_init__(self) -> None:
        if len(self.response_ids_T) != len(self.logprobs_T):
            raise ValueError(f"a turn has {len(self.response_ids_T)} sampled ids but {len(self.logprobs_T)} log-probs")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A finished episode: the unit that earns one outcome, gets one skill and becomes one or more rows."""

    task: Task
    attempt: int  #: 0..N-1 within the group
    goal: str  #: the task sentence the policy read
    turns_K: tuple[Turn, ...]
    stop: StopReason
    reward: float  #: episode return (sum of turn rewards)
    layout: str  #: "windowed" or "transcript"
    version: int  #: number of optimiser updates of the policy that played it
    seed: int  #: together with the turn index decides every sampled token
    cause: str = ""  #: for ``FAULT``: what broke

    @property
    def id(self) -> str:
        """Stable name: ``v<version>/<task>/<attempt>``."""
        return f"v{self.version}/{self.task.id}/{self.attempt}"

    @property
    def won(self) -> bool:
        return self.stop is StopReason.WON

    @property
    def faulty(self) -> bool:
        return self.stop is StopReason.FAULT

    @property
    def sampled_tokens(self) -> int:
        return sum(len(turn.response_ids_T) for turn in self.turns_K)

    @property
    def invalid_turns(self) -> int:
        return sum(not turn.action.valid for turn in self.turns_K)


@dataclass(frozen=True, slots=True)
class Group:
    """The N attempts of one task in one update; group statistics are taken over its survivors."""

    task: Task
    attempts_G: tuple[Trajectory, ...]

    @property
    def survivors_G(self) -> tuple[Trajectory, ...]:
        return tuple(t for t in self.attempts_G if not t.faulty)


@dataclass(frozen=True, slots=True)
class Skill:
    """A hindsight skill: what the analyzer wrote about one finished trajectory, or why there is none."""

    trajectory: str  #: ``Trajectory.id``
    kind: str  #: "workflow" after a success, "avoidance" after a failure (paper 1.1)
    status: str  #: "ok", "ok_repaired", or the class of the failure (see ``skills/parse.py``)
    text: str = ""  #: the policy-facing skill; empty unless the status is ok
    summary: str = ""
    raw: str = ""  #: the analyzer's answer as it came
    repairs: tuple[str, ...] = ()
    source: str = "policy"  #: "policy", "rules", or the name of an external model
    version: int = 0  #: policy version of the analyzer; the loop asserts that it equals the trajectory's
    steps: tuple[tuple[int, str], ...] = ()  #: (turn, skill of that very turn), 0-based, in the answer's order

    @property
    def valid(self) -> bool:
        return self.status in ("ok", "ok_repaired") and bool(self.text)


@dataclass(frozen=True, slots=True)
class Sample:
    """A training row: one windowed turn, or consecutive turns of a transcript merged while the prefix holds."""

    trajectory: Trajectory
    turns: tuple[int, ...]  #: indices into ``trajectory.turns_K``
    ids_T: np.ndarray  #: int32
    origin_T: np.ndarray  #: int8, ``Origin``
    turn_T: np.ndarray  #: int16, index of the turn a sampled token belongs to, -1 elsewhere
    sampler_logprobs_T: np.ndarray  #: float32, NaN where nothing was sampled
    prompt_len: int  #: length of the row's own prompt: what the skill context replaces

    @property
    def sampled_T(self) -> np.ndarray:
        return self.origin_T == Origin.SAMPLED


@dataclass(frozen=True, slots=True)
class PairedScores:
    """Log-probs of one row's sampled tokens in both contexts, by the same weights in one pass each.

    All arrays have the row's length; entries are NaN where the token was not sampled. ``skill_T`` is None without a
    usable skill.
    """

    ordinary_T: np.ndarray
    skill_T: np.ndarray | None
    version: int
    skill_cut: bool = False  #: there was a skill, but its prompt was over the limit: no OPD for this row, counted

    @property
    def gap_T(self) -> np.ndarray | None:
        """``logp(y | H(h, s)) - logp(y | h)`` per token (paper 1.1)."""
        return None if self.skill_T is None else self.skill_T - self.ordinary_T


@dataclass(slots=True)
class Streams:
    """What an algorithm hands to the trainer for one row: per-token data, no method names.

    ``teacher_T`` and ``opd_mask_T`` are None where the row takes no part in distillation.
    """

    advantage_T: np.ndarray  #: float32
    teacher_T: np.ndarray | None = None  #: float32, log-probs in the skill context
    opd_mask_T: np.ndarray | None = None  #: bool


@dataclass(slots=True)
class Batch:
    """Everything of one update, row-aligned, between collection and the optimiser."""

    groups_P: list[Group]
    skills: dict[str, Skill] = field(default_factory=dict)  #: by trajectory id
    samples: list[Sample] = field(default_factory=list)
    scores: list[PairedScores] = field(default_factory=list)
    streams: list[Streams] = field(default_factory=list)

    @property
    def trajectories(self) -> list[Trajectory]:
        return [t for group in self.groups_P for t in group.attempts_G]


class UserError(Exception):
    """A mistake the user can mend: shown as one sentence without a stack trace, exit status 2."""


def as_dict(value: Any) -> dict[str, Any]:
    """Shallow dict of a slotted dataclass (``dataclasses.asdict`` would copy every array)."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


__all__ = [name for name in dir() if name[0].isupper()] + ["as_dict", "replace"]
