"""The forward pass shared by scorer and learner, and the attention that generation uses.

Rows are right-padded: with causal attention no real token can see a pad, so no mask is built and batch composition
changes log-probs only by float rounding. Logits exist only for the selected tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from seedbed.engines.base import ScoreRow
from seedbed.engines.packed import packed_attention
from seedbed.types import UserError


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **extra: object,
) -> tuple[Tensor, None]:
    """Attention for transformers' attention interface that never expands grouped key/value heads.

    Shapes: query [B, Hq, q, D], key and value [B, Hkv, L, D], additive mask [B, 1, q, L] or None (causal).
    """
    unknown = [name for name in ("softcap", "s_aux", "sliding_window") if extra.get(name) is not None]
    if unknown:
        raise UserError(f"the model asks for attention with {', '.join(unknown)}, which seedbed's engine lacks")
    if extra.get("pack") is not None:
        return packed_attention(query, key, value, scaling, extra["pack"]), None
    batch, heads, length, dim = query.shape
    if attention_mask is None:
        out = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=length > 1, scale=scaling, enable_gqa=heads != key.shape[1]
        )
        return out.transpose(1, 2).contiguous(), None
    if attention_mask.dtype == torch.bool:
        attention_mask = torch.zeros_like(attention_mask, dtype=query.dtype).masked_fill_(~attention_mask, -torch.inf)
    kv_heads = key.shape[1]
    grouped = query.reshape(batch, kv_heads, (heads // kv_heads) * length, dim)
    scores = torch.matmul(grouped, key.transpose(2, 3)) * (scaling if scaling is not None else dim**-0.5)
    scores = scores.view(batch, kv_heads, heads // kv_heads, length, -1) + attention_mask[:, :, None]
    weights = torch.softmax(scores.float(), dim=-1).to(value.dtype).view(batch, kv_heads, -1, key.shape[2])
    out = torch.matmul(weights, value).view(batch, heads, length, dim)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("seedbed", grouped_attention)
AttentionMaskInterface.register("seedbed", sdpa_mask)


def micro_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Row indices in batches of at most ``max_tokens`` padded tokens (at least one row), like lengths together."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def selected_logits(model: nn.Module, rows: Sequence[ScoreRow]) -> tuple[Tensor, Tensor]:
    """Logits that predict each selected token, rows concatenated: ([n, V] float32, [n] token ids).

    The first token of a row cannot be selected: nothing predicts it (``ValueError``).
    """
    device = next(model.parameters()).device
    longest = max(len(row.ids_T) for row in rows)
    ids_BT = np.zeros((len(rows), longest), dtype=np.int64)
    where_b, where_t = [], []
    for b, row in enumerate(rows):
        ids_BT[b, : len(row.ids_T)] = row.ids_T
        (t,) = np.nonzero(row.select_T)
        if len(t) and t[0] == 0:
            raise ValueError("the first token of a row has no log-prob")
        where_b.append(np.full(len(t), b))
        where_t.append(t)
    b, t = torch.from_numpy(np.concatenate(where_b)).to(device), torch.from_numpy(np.concatenate(where_t)).to(device)
    ids = torch.from_numpy(ids_BT).to(device)
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return model.get_output_embeddings()(hidden[b, t - 1]).float(), ids[b, t]
