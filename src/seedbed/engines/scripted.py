"""An engine whose policy is a Python function: for tests, documentation and trying out an environment by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from seedbed.engines.base import Completion, Request, Sampling, ScoreRow
from seedbed.render import Renderer


class ScriptedEngine:
    """See ``base.Engine``. ``reply`` gets the whole prompt as text and returns the response as text; with ``seeded`` it
    also gets the request's seed, for chance that is the same in every batch.

    The response is encoded and ended with the end-of-turn token, or cut at ``max_new_tokens`` like any other. Every
    log-prob is 0: the script is certain of what it says.
    """

    version = 0

    def __init__(
        self, renderer: Renderer, reply: Callable[[str], str] | Callable[[str, int], str], seeded: bool = False
    ) -> None:
        self.renderer = renderer
        self.reply = reply
        self.seeded = seeded

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        return [self._answer(request, sampling.max_new_tokens) for request in requests]

    def score(self, rows: Sequence[ScoreRow], temperature: float = 1.0) -> list[np.ndarray]:
        return [np.zeros(int(row.select_T.sum()), np.float32) for row in rows]

    def _answer(self, request: Request, limit: int) -> Completion:
        tokenizer = self.renderer.tokenizer
        prompt = tokenizer.decode(request.prompt_ids_T, skip_special_tokens=False)
        text = self.reply(prompt, request.seed) if self.seeded else self.reply(prompt)
        ids = [*tokenizer.encode(text, add_special_tokens=False), self.renderer.stop_id]
        cut = ids[:limit]
        return Completion(np.asarray(cut, np.int32), np.zeros(len(cut), np.float32), "stop" if cut == ids else "length")
