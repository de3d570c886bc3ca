"""How well does the policy analyse after an epoch of Stage 1? On episodes of held-out tasks, in its own words.

The loss says how likely the annotator's words are; the parse rate and the kind agreement say what the policy writes
when it is asked, which is what Stage 2 lives on.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from seedbed.config import AnalyzerSettings
from seedbed.engines.torch_engine import TorchEngine
from seedbed.render import Renderer
from seedbed.skills.analyze import analyze, coverage
from seedbed.skills.kinds import kind_agreement
from seedbed.skills.sft_data import SftRow
from seedbed.train.answers import answer_losses
from seedbed.types import Skill, Trajectory

_BATCH = 32  #: trajectories a time: their prompts are long, and all are cached


def analysis_quality(
    engine: TorchEngine, renderer: Renderer, trajectories: Sequence[Trajectory], settings: AnalyzerSettings
) -> dict[str, Any]:
    """``analysed`` trajectories, ``parse_rate``, ``kind_agreement`` of what parsed, ``statuses``.

    Without a trajectory to analyse both rates are None.
    """
    asked = [t for t in trajectories if not t.faulty and t.turns_K]
    skills: dict[str, Skill] = {}
    for start in range(0, len(asked), _BATCH):
        skills |= analyze(engine, renderer, asked[start : start + _BATCH], settings)
        engine.release()
    found = coverage(skills, asked)
    return {
        "analysed": len(asked),
        **found,
        "parse_rate": found["parse_rate"] if asked else None,
        "kind_agreement": kind_agreement(skills.values()),
    }


def held_out(trajectories: Sequence[Trajectory], validation: Sequence[SftRow], count: int) -> list[Trajectory]:
    """At most ``count`` episodes of the held-out tasks, spread evenly over them."""
    tasks = {row.task for row in validation}
    found = [t for t in trajectories if t.task.id in tasks and not t.faulty and t.turns_K]
    return [found[i * len(found) // count] for i in range(count)] if len(found) > count else found


@torch.no_grad()
def held_out_loss(model: nn.Module, validation: Sequence[SftRow], micro_tokens: int, *, half: bool) -> float | None:
    """Mean NLL of the held-out answers; None without one."""
    losses = [float(part) for part in answer_losses(model, validation, micro_tokens, rehearsal=0.0, half=half)]
    return sum(losses) if losses else None


def engine_of(model: nn.Module, renderer: Renderer, *, half: bool) -> TorchEngine:
    """An engine on ``model`` as it is, or on a copy in bfloat16, the form in which it would be loaded again.

    Only parameters are narrowed: rotary frequencies stay in float32, as in a loaded model.
    """
    if half:
        model = copy.deepcopy(model)
        for parameter in model.parameters():
            parameter.data, parameter.grad = parameter.data.to(torch.bfloat16), None
    return TorchEngine(model.eval(), renderer.stop_id)
