"""One small Stage 1 for all tests of training: games of the tiny model, skills by rules, a fine-tuned policy."""

from __future__ import annotations

import pytest
import torch

from seedbed.config import Config, load_config
from seedbed.track.run import Run
from seedbed.train import annotate, collect, sft

SMALL = [
    "collect.tasks=6",
    "collect.attempts=4",
    "rollout.max_turns=6",
    "sft.epochs=2",
    "sft.lr=1e-3",
    "sft.batch_rows=4",
]


@pytest.fixture(scope="session")
def stage1(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Run, Run]:
    """Settings, collect run and sft run."""
    torch.set_num_threads(1)
    folder, config = tmp_path_factory.mktemp("stage1"), load_config("tiny", SMALL)
    collected, tuned = Run.new(folder / "collect"), Run.new(folder / "sft")
    collect.collect(collected, config)
    annotate.annotate(collected, config, "rules")
    sft.fine_tune(tuned, config, collected)
    return config, collected, tuned
