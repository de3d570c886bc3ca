"""Ctrl-C that keeps what was computed: the first one lets the running step end and saves, the second stops at once."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupt:
    """Context manager. ``requested`` turns true at the first SIGINT."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Interrupt:
        self._before = signal.getsignal(signal.SIGINT)
        try:
            signal.signal(signal.SIGINT, self._handle)
        except ValueError:  # not the main thread: whoever owns it decides
            self._before = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping after this step and saving; press Ctrl-C again to stop at once", flush=True)


class Stopped(Exception):
    """The user asked to stop; everything up to here is saved."""
