"""Plain pretraining of the tiny model on padded rows: AdamW, warm-up and cosine, weighted next-token loss."""

from __future__ import annotations

import math
import time

import numpy as np
import torch
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface, Qwen3Config, Qwen3ForCausalLM
from transformers.masking_utils import sdpa_mask

from tiny.episodes import FULL, Rows

LIGHT_LOSS = 0.05  #: weight of a token that the environment or the user writes


def _repeated(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *_: object,
    scaling: float,
    **__: object,
) -> tuple[torch.Tensor, None]:
    """Causal attention with key/value heads repeated: the fused float32 kernels take no grouped heads."""
    repeat = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(repeat, dim=1) for x in (key, value))
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling).transpose(
        1, 2
    ).contiguous(), None


AttentionInterface.register("repeated", _repeated)
AttentionMaskInterface.register("repeated", sdpa_mask)


def new_model(
    vocabulary: int, end: int, pad: int, *, layers: int, hidden: int, heads: int, inner: int
) -> Qwen3ForCausalLM:
    """A fresh Qwen3 with tied embeddings and head size 32."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=inner,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2 or 1,
            head_dim=32,
            tie_word_embeddings=True,
            max_position_embeddings=1024,
            rope_theta=10_000.0,
            eos_token_id=end,
            pad_token_id=pad,
            bos_token_id=None,
            attn_implementation="sdpa",
            dtype="float32",
        )
    )


def pretrain(
    model: Qwen3ForCausalLM, rows: Rows, *, tokens: int, batch: int, lr: float, minutes: float, seed: int
) -> dict:
    """Trains in place for ``tokens`` tokens or ``minutes``, whichever is first. ``batch`` is in rows."""
    device = next(model.parameters()).device
    model.set_attn_implementation("repeated")
    torch.manual_seed(seed)
    lengths = np.diff(rows.start)
    steps = max(1, int(tokens / (batch * lengths.mean())))
    ids, weight = (torch.from_numpy(a.astype(np.int16)).to(device) for a in (rows.ids, rows.weight))
    start, length = (torch.from_numpy(a).to(device) for a in (rows.start[:-1], lengths))
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.01, fused=device.type == "cuda"
    )
    generator = np.random.default_rng(seed)
    began, log, seen = time.time(), [], 0
    for step in range(steps):
        spent = max(step / steps, (time.time() - began) / (60 * minutes))
        if spent >= 1:
            break
        for group in optimiser.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * spent)))
        chosen = generator.integers(len(lengths), size=batch)
        widest = -(-int(lengths[chosen].max()) // 32) * 32
        pick = torch.from_numpy(chosen).to(device)
        column = torch.arange(widest, device=device)
        real = column < length[pick, None]
        at = (start[pick, None] + column).clamp(max=len(ids) - 1)
        x = torch.where(real, ids[at], model.config.pad_token_id).long()
        w = torch.where(real, torch.where(weight[at] == FULL, 1.0, LIGHT_LOSS), 0.0)[:, 1:]
        logits = model(input_ids=x).logits[:, :-1]
        loss_T = F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten(), reduction="none")
        loss = (loss_T * w.flatten()).sum() / w.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        seen += int(lengths[chosen].sum())
        if step % 200 == 0 or step == steps - 1:
            own = loss_T[(weight[at][:, 1:] == FULL).flatten() & real[:, 1:].flatten()].mean()
            log.append((step, seen, round(float(own.detach()), 4), round(time.time() - began, 1)))
            print("pretrain", *log[-1], flush=True)
    model.set_attn_implementation("sdpa")
    return {"steps": step + 1, "tokens": seen, "seconds": time.time() - began, "log": log}
