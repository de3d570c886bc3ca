"""How does an external model annotate trajectories? (Stage 1; any OpenAI-compatible endpoint, GLM-5.2 in the paper)"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seedbed.prompts.analyzer import answer_schema, kind_of, standalone
from seedbed.skills.parse import parse_analysis
from seedbed.types import Skill, Trajectory, UserError

if TYPE_CHECKING:
    import tenacity

_log = logging.getLogger(__name__)
_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True)
class OpenAIAnnotator:
    """One call per trajectory, answered in any order.

    The key is read from the environment variable ``api_key_env`` when ``annotate`` runs and is held by the client
    library alone. ``retries`` counts calls after the first, spent on 429, 5xx, timeouts and lost connections,
    ``Retry-After`` respected.
    """

    model: str
    base_url: str
    api_key_env: str = "OPENAI_API_KEY"
    temperature: float = 0.0
    max_tokens: int = 4096  #: paper; the released scripts say 1024
    concurrency: int = 8
    timeout_s: float = 60.0
    retries: int = 5

    def annotate(self, trajectories: Sequence[Trajectory]) -> Iterator[Skill]:
        """Yield one skill per trajectory as it finishes.

        A call that fails for good yields a skill with status ``api_error`` whose ``raw`` names the error class and HTTP
        status only, never the server's message (it may quote the key). Raises ``UserError`` if the extra or the key
        is missing.
        """
        calls = _Calls(self)
        pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="annotate")
        try:
            waiting = [pool.submit(calls.one, trajectory) for trajectory in trajectories]
            for done in as_completed(waiting):
                yield done.result()
        finally:  # also when the caller stops early
            pool.shutdown(cancel_futures=True)


class _Calls:
    """The connection shared by the threads of one ``annotate``."""

    def __init__(self, settings: OpenAIAnnotator) -> None:
        try:
            import openai  # noqa: PLC0415 - an extra
            import tenacity  # noqa: PLC0415
        except ImportError as error:
            raise UserError("annotating through an API needs the extra: pip install 'seedbed[openai]'") from error
        key = os.environ.get(settings.api_key_env)
        if not key:
            raise UserError(
                f"the environment variable {settings.api_key_env} holds no API key: set it (any text if "
                "the server needs none)"
            )
        self.settings, self.openai = settings, openai
        self.client = openai.OpenAI(api_key=key, base_url=settings.base_url, timeout=settings.timeout_s, max_retries=0)
        # a timeout is a connection error
        passing = (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError)
        self.backoff = tenacity.wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT_S)
        self.retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(passing),
            stop=tenacity.stop_after_attempt(settings.retries + 1),
            wait=self._wait,
            reraise=True,
        )
        self.structured = True  # until the server refuses it

    def one(self, trajectory: Trajectory) -> Skill:
        prompt = standalone(trajectory)
        try:
            raw, finish = self._ask(prompt.text)
        except Exception as error:  # noqa: BLE001 - a call may break in any way; none may cost the other annotations
            cause = f"{type(error).__name__} {getattr(error, 'status_code', '')}".strip()
            _log.warning("annotation of %s failed: %s", trajectory.id, cause)
            return Skill(
                trajectory=trajectory.id,
                kind=kind_of(trajectory),
                status="api_error",
                raw=cause,
                source=self.settings.model,
                version=trajectory.version,
            )
        parsed = parse_analysis(raw, finish, prompt_text=dict(prompt.slots)["request"])
        return Skill(
            trajectory=trajectory.id,
            kind=kind_of(trajectory),
            status=parsed.status.value,
            text=parsed.skill,
            summary=parsed.summary,
            raw=raw,
            repairs=parsed.repairs,
            source=self.settings.model,
            version=trajectory.version,
        )

    def _ask(self, text: str) -> tuple[str, str]:
        if self.structured:
            try:
                return self._call(
                    text,
                    response_format={
                        "type": "json_schema",
                        "json_schema": {"name": "hindsight_skill", "strict": True, "schema": answer_schema()},
                    },
                )
            except self.openai.BadRequestError:
                answer = self._call(text)
                self.structured = False  # only now: a request that is bad in itself says nothing about the schema
                return answer
        return self._call(text)

    def _call(self, text: str, **extra: Any) -> tuple[str, str]:
        settings = self.settings
        completion = self.retrying.copy()(
            self.client.chat.completions.create,
            model=settings.model,
            messages=[{"role": "user", "content": text}],
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            **extra,
        )
        choice = completion.choices[0]
        return choice.message.content or "", choice.finish_reason or "stop"

    def _wait(self, state: tenacity.RetryCallState) -> float:
        """Seconds before the next try: the server's ``Retry-After`` if it gives one, else exponential with jitter."""
        error = state.outcome.exception() if state.outcome else None
        response: Any = getattr(error, "response", None)
        asked = response.headers.get("retry-after", "") if response is not None else ""
        return min(float(asked), _LONGEST_WAIT_S) if asked.isdecimal() else self.backoff(state)
