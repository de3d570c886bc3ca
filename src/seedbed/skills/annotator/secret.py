"""Where does an API key live? In the HTTP client alone: whatever is stored or logged passes through here first."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seedbed.types import UserError

_SHORTEST = 8  # servers that check no key are given "x" or "none", and those are words of honest answers
_HIDDEN = "[api key]"


class Secret:
    """An API key that does not print itself."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"Secret({_HIDDEN})"

    def reveal(self) -> str:
        return self._value

    def hide(self, text: str) -> str:
        """``text`` without the key: servers quote it in their errors."""
        return text.replace(self._value, _HIDDEN) if len(self._value) >= _SHORTEST else text


def read_key(variable: str) -> Secret:
    """The key that an environment variable holds. Raises ``UserError``, never quoting the value."""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise UserError(
            f"the environment variable {variable} holds no API key: set it (any text if the server needs none)"
        )
    if not value.isascii() or not value.isprintable():
        raise UserError(f"the API key in {variable} has characters that no key has: copy it again")
    return Secret(value)


@contextmanager
def no_key_in_logs(secret: Secret) -> Iterator[None]:
    """Hide the key in every log record that any library makes meanwhile, before a handler sees it.

    At level DEBUG HTTP libraries log whole requests and responses, and a level is anybody's to set.
    """
    make = logging.getLogRecordFactory()

    def make_clean(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):  # arguments that do not fit: the handler reports that, with them
            text = f"{record.msg} {record.args!r}"
        if secret.hide(text) != text:
            record.msg, record.args = secret.hide(text), ()
        if record.exc_info:
            record.exc_text = secret.hide(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return record

    logging.setLogRecordFactory(make_clean)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
