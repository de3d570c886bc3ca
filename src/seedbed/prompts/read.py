"""What does a windowed prompt show? The inverse of ``base.windowed``, for players that have nothing but the prompt.

Only the sentences of ``base`` are looked for. Text of an environment that imitates them could mislead a player; nothing
but its own score hangs on that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from seedbed.prompts.base import Wording

_TURNS = re.compile(r"You have already taken (\d+) step\(s\)\.(?: The last (\d+) observations and actions: )?")
_NOW, _ACTIONS, _FOOTER = "Your current observation is:", "\nYour admissible actions are: ['", "\nNow it is your turn. "


@dataclass(frozen=True, slots=True)
class Shown:
    """What the policy is told. ``history`` are pairs of an observation and the action that followed it, oldest first.

    With a wording of ``steps`` an observation stands behind its action instead: the first of each pair is empty and the
    second holds both.
    """

    goal: str
    turn: int  #: 0-based
    observation: str
    admissible: tuple[str, ...]
    history: tuple[tuple[str, str], ...]


def read(prompt: str, wording: Wording) -> Shown:
    """``prompt`` is the whole context of a turn as text, with whatever the chat template put around it.

    Raises ``ValueError`` if it is no windowed prompt of ``wording``.
    """
    start, end = prompt.find(wording.role + "\n"), prompt.rfind(_FOOTER)
    if start < 0 or end < 0:
        raise ValueError("not a windowed prompt of this wording")
    body = prompt[start + len(wording.role) + 1 : end]
    body, listing, actions = body.rpartition(_ACTIONS) if _ACTIONS in body else (body, "", "")
    admissible = tuple(actions.removesuffix("']").split("', '")) if listing else ()
    past = _TURNS.search(body)
    if not past:
        return Shown(*_first(body, wording), admissible, ())
    goal = body[: past.start()].removeprefix(f"{wording.task} ").removesuffix("\n")
    turn, rest = int(past[1]), body[past.end() :]
    if wording.steps:
        *history, newest = _steps(rest, turn)
        action, _, observation = newest.partition("\n")
        return Shown(goal, turn, observation, admissible, (*(("", step) for step in history), ("", action)))
    told, _, observation = rest.partition(f"\nYou are now at step {turn + 1} and your current observation is:")
    return Shown(goal, turn, observation.removeprefix("\n"), admissible, _pairs(told, turn, int(past[2] or 0)))


def _first(body: str, wording: Wording) -> tuple[str, int, str]:
    """Goal, turn and observation of a first prompt."""
    if wording.task_first:
        goal, _, observation = body.removeprefix(f"{wording.task} ").partition("\n")
    else:
        observation, _, goal = f"\n{body}".rpartition(f"\n{wording.task} ")
    return goal, 0, observation.removeprefix("\n").removeprefix(_NOW).removeprefix("\n")


def _pairs(told: str, turn: int, count: int) -> tuple[tuple[str, str], ...]:
    pairs = []
    for number in range(turn - count + 1, turn + 1):
        seen, _, told = told.removeprefix(f"[Observation {number}: '").partition(f"', Action {number}: '")
        done, _, told = told.partition(f"'] [Observation {number + 1}: '") if number < turn else (told[:-2], "", "")
        pairs.append((seen, done))
    return tuple(pairs)


def _steps(told: str, turn: int) -> list[str]:
    """The texts of ``Step 1: ...`` or whichever is the oldest shown, up to the newest."""
    marks, position = [], 0
    for number in range(1, turn + 1):
        found = told.find(f"\nStep {number}: ", position)
        if found >= 0:
            marks.append(found)
            position = found + 1
    ends = [*marks[1:], len(told)]
    return [told[mark:end].partition(": ")[2] for mark, end in zip(marks, ends, strict=True)] or [""]
