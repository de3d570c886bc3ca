"""What can become of one HTTP call? An answer, a ``Fault`` with a class, or a mistake that no other call would mend."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from seedbed.config import AnnotateSettings
from seedbed.prompts.analyzer import answer_schema
from seedbed.skills.annotator.journal import Answer
from seedbed.skills.annotator.secret import Secret
from seedbed.types import UserError

#: Structured output, the strictest first; a server that refuses one is asked for the next.
FORMATS: tuple[dict[str, Any] | None, ...] = (
    {
        "type": "json_schema",
        "json_schema": {"name": "hindsight_skill", "strict": True, "schema": answer_schema()},
    },
    {"type": "json_object"},
    None,
)
REFUSED = "content_filter"  #: finish reason of an answer that the server withholds


class Fault(Exception):
    """A call without an answer. ``cause`` is its class; ``wait`` the seconds that the server asks for, if it does.

    rate_limit (429), server_error (5xx, 408, 409), unreachable (no connection), timeout, connection (cut before or in
    the answer), empty_body, bad_body (not JSON, or cut), error_object (200 with an error), no_choices, bad_request
    (the request itself is refused: ``detail`` says why).
    """

    def __init__(self, cause: str, wait: float | None = None, detail: str = "") -> None:
        super().__init__(cause)
        self.cause, self.wait, self.detail = cause, wait, detail


class Client:
    """The connection that the threads of one ``annotate`` share. It alone holds the key."""

    def __init__(self, settings: AnnotateSettings, secret: Secret) -> None:
        try:
            import openai  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UserError("annotating through an API needs the extra: pip install 'seedbed[openai]'") from error
        self.settings, self.secret, self.openai = settings, secret, openai
        self.client = openai.OpenAI(
            api_key=secret.reveal(),
            base_url=settings.base_url,
            timeout=settings.timeout_s,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),  # nothing goes where nobody sent it
        )

    def call(self, messages: list[dict[str, str]], response_format: dict[str, Any] | None) -> Answer:
        """One call, no retry. Raises ``Fault``, or ``UserError`` where every further call would fail the same way."""
        settings = self.settings
        asked: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "temperature": settings.temperature,
            "max_tokens": settings.max_new_tokens,
        }
        if response_format:
            asked["response_format"] = response_format
        deadline = time.monotonic() + settings.timeout_s
        try:
            with self.client.chat.completions.with_streaming_response.create(**asked) as response:
                body = b""
                for piece in response.iter_bytes():  # the library's timeout is one of silence, not of the whole call
                    body += piece
                    if time.monotonic() > deadline:
                        raise Fault("timeout")
        except self.openai.APIStatusError as error:
            raise self._refusal(error) from None
        except Fault:
            raise
        except Exception as error:  # noqa: BLE001 - the body's errors are those of whichever transport is below
            raise Fault(_transport_cause(error)) from None
        return read_answer(body, self.secret)

    def _refusal(self, error: Any) -> Exception:
        status, settings = error.status_code, self.settings
        if status == 429:
            return Fault("rate_limit", retry_after(error.response.headers.get("retry-after", "")))
        if status >= 500 or status in (408, 409):
            return Fault("server_error", retry_after(error.response.headers.get("retry-after", "")))
        said = self._said(error)
        if status in (401, 403):
            return UserError(f"the server refuses the API key in {settings.api_key_env} ({status}): set a valid one")
        if status == 402:
            return UserError(f"the server wants to be paid first (402{said}): top up the account and run this again")
        if status < 400:
            return UserError(f"annotate.base_url={settings.base_url} has moved ({status}): name its new address")
        if status in (404, 405):
            return UserError(
                f"the server knows no model {settings.model!r} or no chat/completions under {settings.base_url} "
                f"({status}{said}): set annotate.model or annotate.base_url"
            )
        return Fault("bad_request", detail=f"{status}{said}")

    def _said(self, error: Any) -> str:
        """The server's own words, short, without the key."""
        body = error.body if isinstance(error.body, dict) else {}
        words = body.get("message") or body.get("detail") or ""
        return f", it says: {' '.join(self.secret.hide(str(words)).split())[:200]}" if words else ""


def read_answer(body: bytes, secret: Secret) -> Answer:
    """The answer in a chat completion; ``reasoning_content`` is no part of it. Raises ``Fault``."""
    if not body.strip():
        raise Fault("empty_body")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):  # also text that is not UTF-8
        raise Fault("bad_body") from None
    if isinstance(data, dict) and data.get("error") and not data.get("choices"):
        raise Fault("error_object")
    choices = data.get("choices") if isinstance(data, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise Fault("no_choices")
    usage = data.get("usage") if isinstance(data.get("usage"), dict) else {}
    finish = choice.get("finish_reason")
    return Answer(
        secret.hide(_text(message.get("content"))),
        REFUSED if message.get("refusal") else finish if isinstance(finish, str) else "stop",
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )


def retry_after(value: str) -> float | None:
    """Seconds that a ``Retry-After`` header asks for: a number or a date (RFC 9110)."""
    try:
        return max(float(value), 0.0) if value.replace(".", "", 1).isdecimal() else _until(value)
    except (TypeError, ValueError):
        return None


def _until(date: str) -> float:
    return max((parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds(), 0.0)


def _text(content: Any) -> str:
    """A message's text: a string, null, or a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _transport_cause(error: Exception) -> str:
    """The class of an error below HTTP. The library wraps those before the body, and leaves those within it."""
    inner = error.__cause__ or error
    name = type(inner).__name__
    if name in ("ConnectError", "ConnectTimeout"):
        return "unreachable"
    if "Timeout" in name:
        return "timeout"
    known = isinstance(inner, OSError) or type(inner).__module__.startswith(("httpx", "httpcore", "openai"))
    return "connection" if known else name
