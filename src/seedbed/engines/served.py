"""A policy behind an OpenAI-compatible server (vLLM, SGLang, transformers serve): for collecting and evaluating.

Prompts are sent as token ids, so that text can never become a control token. A server that takes text only gets a
prompt as text where that text gives the very same ids, else it is refused. Servers that return the sampled ids (vLLM:
``return_token_ids``) are believed; of others the text is encoded again. Log-probs are NaN: what servers call so
differs, and no trainer may take it for the sampler's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from seedbed.config import ModelSettings
from seedbed.engines.base import Completion, Request, Sampling, ScoreRow
from seedbed.envs.crew import Crew
from seedbed.render import Renderer
from seedbed.types import UserError

_CONCURRENCY = 64
_TIMEOUT_S = 600.0
_TRIES = 6
_LONGEST_WAIT_S = 30.0


class ServedEngine:
    """See ``base.Engine``; the weights behind the address are taken to be those of version 0 and cannot be scored."""

    version = 0

    def __init__(self, renderer: Renderer, settings: ModelSettings) -> None:
        """Raises ``UserError`` if the extra ``openai`` is missing."""
        try:
            import openai  # noqa: PLC0415 - an extra
            import tenacity  # noqa: PLC0415
        except ImportError as error:
            raise UserError("a served model needs the extra: pip install 'seedbed[openai]'") from error
        self.renderer, self.settings, self._openai = renderer, settings, openai
        self._takes_ids = True  # until the server refuses them
        self._client = openai.OpenAI(
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            base_url=settings.server,
            timeout=_TIMEOUT_S,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),  # nothing goes where nobody sent it
        )
        passing = (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError)
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(passing),
            stop=tenacity.stop_after_attempt(_TRIES),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT_S),
            reraise=True,
        )

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """Continue every prompt. Raises ``UserError`` if the server fails one for good: nothing is made up."""
        patience = _TRIES * (_TIMEOUT_S + _LONGEST_WAIT_S)
        with Crew(_CONCURRENCY, patience) as crew:
            outcomes = crew.run([partial(self._one, request, sampling) for request in requests])
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return outcomes

    def score(self, rows: Sequence[ScoreRow], temperature: float = 1.0) -> list[np.ndarray]:
        raise UserError("a served model cannot be scored: train with the weights in process (no model.server)")

    def _one(self, request: Request, sampling: Sampling) -> Completion:
        try:
            return self._read(self._ask(request, sampling), sampling.max_new_tokens)
        except self._openai.OpenAIError as error:
            cause = f"{type(error).__name__} {getattr(error, 'status_code', '')}".strip()
        except (AttributeError, IndexError, TypeError, ValueError) as error:  # a 200 that is no completion
            cause = f"its answer is no completion: {type(error).__name__}"
        raise UserError(
            f"the server at model.server={self.settings.server} failed for good ({cause}): see its log; what was "
            "played before is kept"
        )

    def _ask(self, request: Request, sampling: Sampling) -> Any:
        if self._takes_ids:
            try:
                return self._call(request.prompt_ids_T.tolist(), request.seed, sampling)
            except (self._openai.BadRequestError, self._openai.UnprocessableEntityError):
                answer = self._call(self._as_text(request.prompt_ids_T), request.seed, sampling)
                self._takes_ids = False  # only now: a request that is bad in itself says nothing about ids
                return answer
        return self._call(self._as_text(request.prompt_ids_T), request.seed, sampling)

    def _call(self, prompt: Any, seed: int, sampling: Sampling) -> Any:
        completion = self._retrying.copy()(
            self._client.completions.create,
            model=self.settings.served_name or self.settings.path,
            prompt=prompt,
            max_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            seed=seed % (1 << 31),
            extra_body={"return_token_ids": True} if isinstance(prompt, list) else None,
        )
        return completion.choices[0]

    def _as_text(self, ids_T: np.ndarray) -> str:
        """The prompt as text, if a tokenizer makes the same ids of it. Raises ``UserError`` otherwise."""
        tokenizer = self.renderer.tokenizer
        text = tokenizer.decode(ids_T.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if tokenizer.encode(text) != ids_T.tolist():
            raise UserError(
                "the server takes prompts as text only, and this one holds control tokens written as text (or its "
                "tokenizer adds some): serve the model with one that takes token ids, such as vLLM"
            )
        return text

    def _read(self, answer: Any, limit: int) -> Completion:
        """Only "stop" is an end that the policy chose; whatever else cut the response did so before it was decided.

        Text that is encoded again gives no control token but the end of turn: the policy's spelling of one stays text.
        """
        tokenizer, stop_id = self.renderer.tokenizer, self.renderer.stop_id
        stopped, ids = answer.finish_reason == "stop", getattr(answer, "token_ids", None)
        if ids is None:
            ids = tokenizer.encode(answer.text or "", add_special_tokens=False, split_special_tokens=True)
        ids = list(ids)[:limit]
        if not all(isinstance(i, int) and 0 <= i < len(tokenizer) for i in ids):
            raise ValueError("ids outside the vocabulary")
        if stopped and (not ids or ids[-1] != stop_id):
            ids.append(stop_id)
        logprobs_T = np.full(len(ids), np.nan, np.float32)
        return Completion(np.asarray(ids, np.int32), logprobs_T, "stop" if stopped else "length")
