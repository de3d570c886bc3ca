"""How is no answer paid for twice? Every call is written down before it is made, every answer the moment it arrives.

``annotations.jsonl`` of a collect run only grows. A call is two lines: ``begin`` (content hash of the request,
trajectory, what the call may cost) and ``end`` (status; for an answer also text, finish reason, tokens). An answer is
on the disk before anything else is done with it. A ``begin`` without an ``end`` is a call that a killed process had in
flight: it may have been paid, its answer is lost, and it is counted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seedbed.track.store import append_jsonl, read_jsonl
from seedbed.types import UserError

ANSWERED = "answered"
_CALL = {"call", "request", "trajectory", "attempt"}
_KEYS = {"begin": _CALL | {"bytes", "most_in", "most_out"}, "end": _CALL | {"status"}}
_ANSWER = {"answer", "finish", "tokens_in", "tokens_out"}
_TEXTS = {"request", "trajectory", "status", "answer", "finish"}
_NUMBERS = {"call", "attempt", "bytes", "most_in", "most_out", "tokens_in", "tokens_out"}
_UNTOLD = {"tokens_in", "tokens_out"}  #: null where the server does not say


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: the message, why it ended, and the tokens it charges (None where it does not say)."""

    text: str
    finish: str = "stop"
    tokens_in: int | None = None
    tokens_out: int | None = None


def request_hash(model: str, messages: list[dict[str, str]], attempt: int, **sampling: float) -> str:
    """The address of an answer. The server's address is not in it: the same model may be reached elsewhere."""
    content = {"model": model, "messages": messages, "sampling": sampling, "attempt": attempt}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Journal:
    """``annotations.jsonl``, open for writing. ``answers`` holds every answer by request hash.

    ``rows`` are the lines found at the opening. An unfinished last line, of a killed writer, is dropped; any other
    damage is a ``UserError`` with the line.
    """

    def __init__(self, path: Path) -> None:
        append_jsonl(path, [])
        self.rows = list(read_jsonl(path))
        _check(path, self.rows)
        self.answers = {r["request"]: _answer(r) for r in self.rows if r.get("status") == ANSWERED}
        self._calls = sum(r["event"] == "begin" for r in self.rows)
        self._file = path.open("ab")
        self._lock = threading.Lock()

    def begin(self, **facts: Any) -> dict[str, Any]:
        """Note a call that is about to be made; its line, with its number, comes back."""
        with self._lock:
            row = {"event": "begin", "call": self._calls, **facts, "at": _now()}
            self._calls += 1
            self._write(row)
        return row

    def end(self, begun: dict[str, Any], status: str, answer: Answer | None = None) -> dict[str, Any]:
        """Note what became of a call; returns once it is on the disk."""
        row = {"event": "end", **{k: begun[k] for k in ("call", "request", "trajectory", "attempt")}, "status": status}
        if answer is not None:
            row |= {"answer": answer.text, "finish": answer.finish}
            row |= {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out}
        row["at"] = _now()
        with self._lock:
            self._write(row)
            os.fsync(self._file.fileno())
            if answer is not None:
                self.answers[begun["request"]] = answer
        return row

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _write(self, row: dict[str, Any]) -> None:
        self._file.write((json.dumps(row) + "\n").encode())
        self._file.flush()


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``. Raises ``UserError`` if another process does; a killed one holds nothing."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{path.parent} is being annotated by another process: wait for it, or stop it first"
            ) from None
        yield


def _check(path: Path, rows: list[Any]) -> None:
    """Raises ``UserError`` with the first line that is no ``begin`` or ``end`` of a call, or comes out of turn."""
    begun: set[int] = set()
    ended: set[int] = set()
    for index, row in enumerate(rows):
        if wrong := _wrong(row, begun, ended):
            raise UserError(
                f"{path} is no journal of seedbed annotate: line {_line(path, index)} {wrong}; take that line out (a "
                "call that loses its end is asked again) or put a whole copy of the file back"
            )
        (begun if row["event"] == "begin" else ended).add(row["call"])


def _wrong(row: Any, begun: set[int], ended: set[int]) -> str:
    if not isinstance(row, dict):
        return "is no JSON object"
    event = row.get("event")
    if not isinstance(event, str) or event not in _KEYS:
        return "lacks event begin or end"
    needs = _KEYS[event] | (_ANSWER if row.get("status") == ANSWERED else set())
    if lacking := needs - row.keys():
        return f"lacks {', '.join(sorted(lacking))}"
    for key in sorted(needs):
        value = row[key]
        number = (type(value) is int and value >= 0) or (value is None and key in _UNTOLD)
        if (key in _TEXTS and not isinstance(value, str)) or (key in _NUMBERS and not number):
            return f"has {key} {str(value)[:40]!r}"
    if row["call"] in (begun if event == "begin" else ended):
        return f"is a second {event} of call {row['call']}"
    if event == "end" and row["call"] not in begun:
        return f"ends call {row['call']}, which never began"
    return ""


def _line(path: Path, index: int) -> int:
    """The number, from 1, of a row's line: empty ones hold no row."""
    lines = path.read_text("utf-8").split("\n")
    return [number for number, line in enumerate(lines, 1) if line.strip()][index]


def _answer(row: dict[str, Any]) -> Answer:
    return Answer(row["answer"], row["finish"], row["tokens_in"], row["tokens_out"])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
