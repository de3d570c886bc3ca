"""How are several rows computed in one forward pass without padding and without seeing each other?

Rows lie end to end in one sequence. Positions begin anew with each row and attention is taken row by row, so nothing of
a row depends on its neighbours. No mask is built. On a GPU in half precision one kernel does all rows; everywhere else
each row is a causal attention of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from seedbed.engines.base import ScoreRow


@dataclass(frozen=True, slots=True)
class Pack:
    """Where the rows of one sequence lie."""

    lengths: list[int]
    starts: Tensor  #: int32 [rows + 1], on the device: where each row starts, and the end


def packs(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Row indices in sequences of at most ``max_tokens`` tokens (a longer row stands alone): first fit, longest first.

    A pure function of ``lengths``.
    """
    out: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        place = next((p for p, left in enumerate(room) if lengths[index] <= left), None)
        if place is None:
            place = len(out)
            out.append([])
            room.append(max_tokens)
        out[place].append(index)
        room[place] -= lengths[index]
    return out


def packed_attention(query: Tensor, key: Tensor, value: Tensor, scaling: float | None, pack: Pack) -> Tensor:
    """Causal attention within each row; query [1, Hq, T, D], key and value [1, Hkv, T, D]; returns [1, T, Hq, D]."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:  # the fused kernels want as many key as query heads
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    if query.is_cuda and value.dtype in (torch.bfloat16, torch.float16):
        from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 - GPU only

        q, k, v = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))  # rotated in float32 by autocast
        longest = max(pack.lengths)
        out = varlen_attn(q, k, v, pack.starts, pack.starts, longest, longest, scale=scaling, window_size=(-1, 0))
        return out[None]
    rows = (x.split(pack.lengths, dim=2) for x in (query, key, value))
    attend = nn.functional.scaled_dot_product_attention
    out = [attend(q, k, v, is_causal=True, scale=scaling) for q, k, v in zip(*rows, strict=True)]
    return torch.cat(out, dim=2).transpose(1, 2).contiguous()


def packed_logits(model: nn.Module, rows: Sequence[ScoreRow], *, half: bool = False) -> tuple[Tensor, Tensor]:
    """Logits that predict each selected token, rows concatenated: ([n, V] float32, [n] token ids).

    ``half`` computes in bfloat16 whatever the weights are kept in. The first token of a row cannot be selected: nothing
    predicts it (``ValueError``).
    """
    if any(row.select_T[0] for row in rows):
        raise ValueError("the first token of a row has no log-prob")
    device = next(model.parameters()).device
    lengths = [len(row.ids_T) for row in rows]
    ids_T = torch.from_numpy(np.concatenate([row.ids_T for row in rows]).astype(np.int64)).to(device)
    (at,) = np.nonzero(np.concatenate([row.select_T for row in rows]))
    at = torch.from_numpy(at).to(device)
    positions_T = torch.from_numpy(np.concatenate([np.arange(n) for n in lengths])).to(device)
    starts = torch.from_numpy(np.cumsum([0, *lengths]).astype(np.int32)).to(device)
    with torch.autocast(device.type, torch.bfloat16, enabled=half):
        hidden = model.base_model(
            input_ids=ids_T[None],
            position_ids=positions_T[None],
            attention_mask=torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),  # four axes: none is built
            use_cache=False,
            pack=Pack(lengths, starts),
        ).last_hidden_state[0]
        logits = model.get_output_embeddings()(hidden[at - 1])
    return logits.float(), ids_T[at]
