"""What is a step of a track? Something that can be done, and a check that it was done, made from its artefacts alone.

No step keeps a flag. ``check`` reads what is on disk and judges it anew each time, so an edited or deleted artefact
turns every step red that depends on it, and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from seedbed.types import UserError

State = Literal["done", "open", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of a step: ``why`` in one sentence, ``evidence`` as numbers and file names, JSON-able."""

    state: State
    why: str
    evidence: dict[str, Any] = field(default_factory=dict)


class Step(ABC):
    """One step. ``needs`` names the steps whose artefacts it builds on."""

    name: str  #: a word for the command line
    title: str  #: what one knows after it
    done_when: str  #: what ``check`` asks for, in one sentence
    needs: tuple[str, ...] = ()

    @abstractmethod
    def check(self, folder: Path) -> Finding:
        """Judge the artefacts below ``folder``. ``open`` if they are not there yet, ``failed`` if they do not hold."""

    @abstractmethod
    def run(self, folder: Path) -> None:
        """Make the artefacts, whatever is there already. Raises ``UserError`` where the user has to do something."""

    def command(self, folder: Path) -> str:
        """What to type when the step cannot be run here; empty if ``run`` does it."""
        return ""


def states(steps: Sequence[Step], folder: Path) -> dict[str, Finding]:
    """The state of every step. A step whose needs do not hold is ``open`` if it was not begun, else ``failed``."""
    found: dict[str, Finding] = {}
    for step in steps:
        own = _checked(step, folder)
        broken = [name for name in step.needs if found[name].state != "done"]
        if broken and own.state == "done":
            own = Finding("failed", f"built on {', '.join(broken)}, which does not hold", own.evidence)
        found[step.name] = own
    return found


def next_step(steps: Sequence[Step], folder: Path) -> Step | None:
    """The first step that is not done and can be made here now; None if there is none."""
    found = states(steps, folder)
    return next(
        (
            step
            for step in steps
            if found[step.name].state != "done"
            and not step.command(folder)
            and all(found[need].state == "done" for need in step.needs)
        ),
        None,
    )


def _checked(step: Step, folder: Path) -> Finding:
    try:
        return step.check(folder)
    except UserError as error:  # a damaged artefact says what it is
        return Finding("failed", str(error))
