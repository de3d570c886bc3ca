"""Step 3: does Stage 1 hang together on a small subset? Skills follow outcomes, a row is traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seedbed.track.run import Run
from seedbed.tracks import chain
from seedbed.tracks.mechanism_stage1 import stage_one
from seedbed.tracks.paged import PagedStep
from seedbed.tracks.smoke_pin import as_pinned


class StageOneSubset(PagedStep):
    name = "stage1"
    title = "The Stage-1 chain on a small subset: skills by outcome, one SFT sample traced to its game"
    done_when = (
        "every success has a workflow and every failure an avoidance, rows are followed to their task by hash, one is "
        "shown, and fine-tuning changed the weights"
    )
    needs = ("pin", "vanilla")
    page = "stage1.md"
    makes = ("collect/skills.jsonl", "collect/annotate.json", "sft")

    def make(self, folder: Path) -> None:
        chain.teach(folder, self.config())

    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        as_pinned(folder, Run.open(folder / "sft", "sft").config, "sft/")
        return stage_one(folder)
