"""The Stage-1 loss: likelihood of annotated answers, with the episode's own actions as optional rehearsal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from seedbed.engines.base import ScoreRow
from seedbed.engines.packed import packed_logits, packs
from seedbed.loss import selected_logprobs, weighted_sum
from seedbed.skills.sft_data import SftRow


def answer_losses(
    model: nn.Module, rows: Sequence[SftRow], micro_tokens: int, rehearsal: float, *, half: bool = False
) -> Iterator[Tensor]:
    """The loss of ``rows`` in parts, one a packed sequence, to be summed (or each backed) by the caller.

    Mean NLL of all answer tokens (paper 1.1, L_sft) plus ``rehearsal`` times that of the own actions (ours). ``half``:
    the forward pass in bfloat16; the loss stays in float32.
    """
    answers, actions = (max(sum(int(getattr(r, name).sum()) for r in rows), 1) for name in ("answer_T", "action_T"))
    for pack in packs([len(r.ids_T) for r in rows], micro_tokens):
        picked = [rows[i] for i in pack]
        masks = [r.answer_T | r.action_T if rehearsal else r.answer_T for r in picked]
        rows_B = [ScoreRow(r.ids_T, m) for r, m in zip(picked, masks, strict=True)]
        logits, targets = packed_logits(model, rows_B, half=half)
        weight = np.concatenate(
            [np.where(r.answer_T[m], 1 / answers, rehearsal / actions) for r, m in zip(picked, masks, strict=True)]
        )
        weight_T = torch.from_numpy(weight.astype(np.float32)).to(logits.device)
        yield -weighted_sum(selected_logprobs(logits, targets), weight_T)
