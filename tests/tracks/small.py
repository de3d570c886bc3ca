"""What tests of the tracks share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seedbed.tracks.paged import PagedStep

SMALL = (
    "collect.tasks=6",
    "collect.attempts=4",
    "rollout.max_turns=6",
    "sft.epochs=1",
    "sft.lr=2e-3",
    "sft.batch_rows=2",
    "train.updates=1",
    "train.tasks=2",
    "train.attempts=4",
    "train.rehearsal_rows=0",
)


@dataclass(frozen=True)
class Made:
    """A finished track: its folder, and the steps that judge it."""

    name: str
    folder: Path
    steps: tuple[PagedStep, ...]

    def step(self, name: str) -> PagedStep:
        return next(step for step in self.steps if step.name == name)

    def above(self, name: str) -> set[str]:
        """The steps that ``name`` builds on, itself included."""
        return {name}.union(*(self.above(need) for need in self.step(name).needs))

    def below(self, name: str) -> set[str]:
        """The steps that build on ``name``, itself included."""
        return {step.name for step in self.steps if name in self.above(step.name)}

    def owned(self, name: str) -> list[str]:
        step = self.step(name)
        return [step.page, *step.files(self.folder)]


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
