"""The in-process engine: generates and scores with the trainer's own module, so there is one set of weights.

Generation keeps one cache row per slot across calls and computes only what the new prompt adds to it. Rows are ragged:
every row has its own position, and a mask hides whatever lies behind it in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from seedbed.engines.base import Completion, Request, Sampling, ScoreRow
from seedbed.engines.forward import micro_batches, selected_logits
from seedbed.loss import selected_logprobs
from seedbed.types import UserError

_SHRINK_AT = 0.75  # decode goes on with the unfinished rows only once this share of the batch is left
_PREFILL_CHUNK = 32  # columns a pass: short prompts stop paying for long ones after the first chunk


class SlotCache(Cache):
    """Keys and values of all slots, ``[slots, kv heads, positions, head dim]`` per layer, written at any position.

    ``rows`` and ``positions_BQ`` say where the next forward writes, ``length`` how much of each row attention reads.
    """

    def __init__(self, config: object, slots: int, positions: int, like: Tensor):
        super().__init__(layers=[])
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (slots, config.num_key_value_heads, positions, head_dim)
        self.keys = [like.new_zeros(shape) for _ in range(config.num_hidden_layers)]
        self.values = [like.new_zeros(shape) for _ in range(config.num_hidden_layers)]
        self.rows: Tensor
        self.contiguous = True  #: ``rows`` is 0, 1, 2, ...: reading is a view instead of a copy
        self.positions_BQ: Tensor
        self.length = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        out = []
        for store, new in ((self.keys[layer_idx], key_states), (self.values[layer_idx], value_states)):
            store[self.rows[:, None], :, self.positions_BQ] = new.transpose(1, 2)
            view = store[: len(self.rows), :, : self.length]
            out.append(view if self.contiguous else store[:, :, : self.length].index_select(0, self.rows))
        return out[0], out[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchange the first ``length`` positions of two rows in every layer."""
        for store in (*self.keys, *self.values):
            row = store[a, :, :length].clone()
            store[a, :, :length] = store[b, :, :length]
            store[b, :, :length] = row


class TorchEngine:
    """``Engine`` on a transformers causal LM that lives in this process.

    Raises ``UserError`` for models whose logits are not just ``lm_head(hidden)``, which scoring relies on.
    """

    def __init__(self, model: nn.Module, stop_id: int, *, max_batch: int = 256, score_tokens: int = 4096):
        model.set_attn_implementation("seedbed")
        _refuse_unfaithful(model)
        self.model, self.stop_id = model, stop_id
        self.max_batch, self.score_tokens = max_batch, score_tokens
        self.limit: int = getattr(model.config, "max_position_embeddings", 1 << 30)
        self._version = 0
        self._cache: SlotCache | None = None
        self._row_of: dict[int, int] = {}  # slot -> cache row
        self._held: list[np.ndarray] = []  # per cache row: the ids whose keys and values it holds

    @property
    def version(self) -> int:
        return self._version

    def advance(self, version: int) -> None:
        """The weights have changed: take the new version and drop every cached key and value."""
        self._version = version
        self.release()

    def release(self) -> None:
        """Free the cache."""
        self._cache, self._row_of, self._held = None, {}, []

    @torch.no_grad()
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """See ``Engine.generate``. Raises ``UserError`` if a prompt leaves no room below the model's position limit."""
        for request in requests:
            if len(request.prompt_ids_T) + sampling.max_new_tokens > self.limit:
                raise UserError(
                    f"a prompt of {len(request.prompt_ids_T)} tokens plus max_new_tokens={sampling.max_new_tokens} "
                    f"exceeds the model's {self.limit} positions: lower rollout.max_new_tokens or the prompt limit"
                )
        if len({r.slot for r in requests}) < len(requests):
            raise ValueError("two requests of one call share a slot")
        done: dict[int, Completion] = {}
        try:
            for start in range(0, len(requests), self.max_batch):
                part = range(start, min(start + self.max_batch, len(requests)))
                done.update(zip(part, self._generate([requests[i] for i in part], sampling), strict=True))
        except BaseException:  # also Ctrl-C: half-written rows must not pass for cached ones
            self.release()
            raise
        return [done[i] for i in range(len(requests))]

    @torch.no_grad()
    def score(self, rows: Sequence[ScoreRow], temperature: float = 1.0) -> list[np.ndarray]:
        """See ``Engine.score``; never builds logits for tokens that were not selected."""
        out: list[np.ndarray] = [np.zeros(0, np.float32)] * len(rows)
        for batch in micro_batches([len(row.ids_T) for row in rows], self.score_tokens):
            logits, targets = selected_logits(self.model, [rows[i] for i in batch])
            logp = selected_logprobs(logits, targets, temperature).cpu().numpy()
            ends = np.cumsum([int(rows[i].select_T.sum()) for i in batch])
            for i, piece in zip(batch, np.split(logp, ends[:-1]), strict=True):
                out[i] = piece
        return out

    # -- generation ---------------------------------------------------------------------------------------------------

    def _generate(self, requests: list[Request], sampling: Sampling) -> list[Completion]:
        device = next(self.model.parameters()).device
        count, new = len(requests), sampling.max_new_tokens
        self._reserve(requests, max(len(r.prompt_ids_T) for r in requests) + new)
        uniform = torch.from_numpy(np.stack([_uniforms(r.seed, new) for r in requests])).to(device)
        logits = self._prefill(requests)

        tokens = torch.zeros(count, new, dtype=torch.long, device=device)
        logprobs = torch.zeros(count, new, dtype=torch.float32, device=device)
        lengths = [new] * count
        position = torch.tensor([len(r.prompt_ids_T) for r in requests], device=device)
        order = list(range(count))  # order[row] = request now living in that cache row
        finished = np.zeros(count, dtype=bool)
        for step in range(new):
            live = torch.tensor(order[: len(logits)], device=device)
            drawn, logp = _draw(logits, uniform[live, step], sampling.temperature)
            tokens[live, step], logprobs[live, step] = drawn, logp
            for row, token in enumerate(drawn.tolist()):
                if token == self.stop_id and not finished[order[row]]:
                    finished[order[row]], lengths[order[row]] = True, step + 1
            if finished.all() or step + 1 == new:
                break
            batch = self._shrink(order, finished, len(logits), int(position.max()) + step)
            live = torch.tensor(order[:batch], device=device)
            logits = self._forward(list(range(batch)), tokens[live, step][:, None], (position[live] + step)[:, None])
        return self._collect(requests, order, tokens.cpu().numpy(), logprobs.cpu().numpy(), lengths, finished)

    def _prefill(self, requests: list[Request]) -> Tensor:
        """Feed every prompt's uncached tail, column chunk by column chunk; returns logits after each prompt [B, V]."""
        device = next(self.model.parameters()).device
        starts = [
            min(_common(self._held[row], r.prompt_ids_T), len(r.prompt_ids_T) - 1) for row, r in enumerate(requests)
        ]
        tails = [r.prompt_ids_T[s:] for r, s in zip(requests, starts, strict=True)]
        final: Tensor | None = None
        for column in range(0, max(map(len, tails)), _PREFILL_CHUNK):
            rows = [row for row, tail in enumerate(tails) if len(tail) > column]
            width = min(max(len(tails[row]) for row in rows) - column, _PREFILL_CHUNK)
            ids, last = np.zeros((len(rows), width), np.int64), []
            for b, row in enumerate(rows):
                piece = tails[row][column : column + width]
                ids[b, : len(piece)] = piece
                last.append(len(piece) - 1)
            begin = torch.tensor([starts[row] + column for row in rows], device=device)
            logits = self._forward(
                rows,
                torch.from_numpy(ids).to(device),
                begin[:, None] + torch.arange(width, device=device),
                torch.tensor(last, device=device),
            )
            final = logits.new_zeros(len(requests), logits.shape[1]) if final is None else final
            ends = [b for b, row in enumerate(rows) if len(tails[row]) <= column + width]
            final[[rows[b] for b in ends]] = logits[ends]
        return final

    def _forward(self, rows: list[int], ids_BQ: Tensor, positions_BQ: Tensor, last: Tensor | None = None) -> Tensor:
        """Run ``ids_BQ`` at ``positions_BQ`` of cache ``rows``; logits [B, V] after column ``last`` (default 0)."""
        cache = self._cache
        cache.rows, cache.positions_BQ = torch.tensor(rows, device=ids_BQ.device), positions_BQ
        cache.contiguous = rows == list(range(len(rows)))
        cache.length = int(positions_BQ.max()) + 1
        visible = torch.arange(cache.length, device=ids_BQ.device) <= positions_BQ[:, :, None]
        mask = torch.zeros(visible.shape, dtype=cache.keys[0].dtype, device=ids_BQ.device).masked_fill_(
            ~visible, -torch.inf
        )
        hidden = self.model.base_model(
            input_ids=ids_BQ,
            position_ids=positions_BQ,
            attention_mask=mask[:, None],
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        picked = hidden[:, 0] if last is None else hidden[torch.arange(len(rows), device=ids_BQ.device), last]
        return self.model.get_output_embeddings()(picked).float()

    # -- cache rows ---------------------------------------------------------------------------------------------------

    def _reserve(self, requests: list[Request], length: int) -> None:
        """Bring the requested slots to cache rows 0..B-1, in request order, with room for ``length`` positions each."""
        length += _PREFILL_CHUNK  # pads of a chunk may be written behind the last real token; they are never visible
        slots = max(len({*self._row_of, *(r.slot for r in requests)}), len(requests))
        have = self._cache.keys[0].shape if self._cache is not None else (0, 0, 0, 0)
        if slots > have[0] or length > have[2]:
            old = self._cache
            grown = max(length, have[2] * 3 // 2 if length > have[2] else have[2])
            self._cache = SlotCache(
                self.model.config, max(slots, have[0]), grown, next(self.model.parameters()).detach()
            )
            for new_store, store in zip(
                (*self._cache.keys, *self._cache.values),
                (*old.keys, *old.values) if old is not None else (),
                strict=False,
            ):
                new_store[: have[0], :, : have[2]] = store
            self._held += [np.zeros(0, np.int32) for _ in range(max(slots, have[0]) - len(self._held))]
        free = iter(sorted(set(range(len(self._held))) - set(self._row_of.values())))
        for row, request in enumerate(requests):
            if request.slot not in self._row_of:
                self._row_of[request.slot] = next(free)
            self._swap(row, self._row_of[request.slot])

    def _swap(self, a: int, b: int) -> None:
        if a == b:
            return
        length = max(len(self._held[a]), len(self._held[b]))
        if length:
            self._cache.swap(a, b, length)
        self._held[a], self._held[b] = self._held[b], self._held[a]
        for slot, row in self._row_of.items():
            if row in (a, b):
                self._row_of[slot] = b if row == a else a

    def _shrink(self, order: list[int], finished: np.ndarray, batch: int, length: int) -> int:
        """Move finished rows behind the unfinished ones once enough have finished; returns the new batch size."""
        unfinished = sum(not finished[order[row]] for row in range(batch))
        if unfinished > _SHRINK_AT * batch:
            return batch
        low, high = 0, batch - 1
        while low < high:
            if not finished[order[low]]:
                low += 1
            elif finished[order[high]]:
                high -= 1
            else:
                self._cache.swap(low, high, length)
                self._held[low], self._held[high] = self._held[high], self._held[low]
                owners = {row: slot for slot, row in self._row_of.items() if row in (low, high)}
                for row, slot in owners.items():
                    self._row_of[slot] = low + high - row
                order[low], order[high] = order[high], order[low]
        return unfinished

    def _collect(
        self,
        requests: list[Request],
        order: list[int],
        tokens: np.ndarray,
        logprobs: np.ndarray,
        lengths: list[int],
        finished: np.ndarray,
    ) -> list[Completion]:
        for row, index in enumerate(order):  # the last sampled token was never fed, so its keys are not in the cache
            self._held[row] = np.concatenate(
                [requests[index].prompt_ids_T, tokens[index, : lengths[index] - 1]]
            ).astype(np.int32)
        return [
            Completion(
                tokens[i, : lengths[i]].astype(np.int32),
                logprobs[i, : lengths[i]].copy(),
                "stop" if finished[i] else "length",
            )
            for i in range(len(requests))
        ]


def _refuse_unfaithful(model: nn.Module) -> None:
    """Scoring relies on logits = lm_head(last hidden state) and on full causal attention: ``UserError`` otherwise."""
    config, name = model.config, type(model).__name__
    if getattr(config, "sliding_window", None) or "sliding_attention" in (getattr(config, "layer_types", None) or []):
        raise UserError(f"{name} uses sliding-window attention, which seedbed's engine lacks: choose another model")
    if not hasattr(config, "num_key_value_heads"):
        raise UserError(f"{name} has no rotary attention with key/value heads: Llama-like models are supported")
    ids = torch.arange(1, 9, device=next(model.parameters()).device)[None] % config.vocab_size
    with torch.no_grad():
        whole = model(input_ids=ids, use_cache=False).logits
        bare = model.get_output_embeddings()(model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    if not torch.allclose(whole.float(), bare.float(), rtol=1e-2, atol=1e-2):
        raise UserError(f"{name} changes its logits after lm_head, which seedbed does not follow: choose another model")


def _draw(logits: Tensor, uniform: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Inverse-CDF sampling: token ids [B] and their log-probs [B] under the distribution drawn from."""
    if temperature == 0:
        logp = torch.log_softmax(logits, dim=-1)
        drawn = logits.argmax(dim=-1)
    else:
        logp = torch.log_softmax(logits / temperature, dim=-1)
        cdf = logp.exp().double().cumsum(dim=-1)
        drawn = torch.searchsorted(cdf, (uniform.double() * cdf[:, -1])[:, None], right=True)[:, 0].clamp_(
            max=logits.shape[1] - 1
        )
    return drawn, logp.gather(1, drawn[:, None])[:, 0]


def _uniforms(seed: int, count: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key=seed)).random(count)


def _common(a: np.ndarray, b: np.ndarray) -> int:
    """Length of the common prefix."""
    n = min(len(a), len(b))
    differ = np.nonzero(a[:n] != b[:n])[0]
    return int(differ[0]) if len(differ) else n
