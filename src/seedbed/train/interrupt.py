"""Ctrl-C (or SIGTERM) that keeps what was computed: the first lets the running step end and saves, the second stops."""

from __future__ import annotations

import signal
from contextlib import suppress
from types import FrameType
from typing import Any


class Interrupt:
    """Context manager. ``requested`` turns true at the first signal."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # a parent that wants it ignored decides for us
                with suppress(ValueError):  # not the main thread: whoever owns it decides
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            before = self._before[number]
            (before if callable(before) else signal.default_int_handler)(number, frame)
        self.requested = True
        print("\nstopping after this step and saving; press Ctrl-C again to stop at once", flush=True)


class Stopped(Exception):
    """The user asked to stop; everything up to here is saved."""
