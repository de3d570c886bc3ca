"""Ctrl-C (or SIGTERM) that keeps what was computed: the first lets the running step end and saves, the second stops."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupt:
    """Context manager. ``requested`` turns true at the first signal."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Interrupt:
        try:
            self._before = {s: signal.signal(s, self._handle) for s in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: whoever owns it decides
            self._before = {}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping after this step and saving; press Ctrl-C again to stop at once", flush=True)


class Stopped(Exception):
    """The user asked to stop; everything up to here is saved."""
