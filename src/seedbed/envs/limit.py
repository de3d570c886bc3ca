"""How long may a game take over one call? A hang becomes an exception, and with it a fault of that episode alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise ``TimeoutError`` in the body when it has run for ``seconds`` of wall time.

    Ends loops of Python code and waiting for a socket, lock or process. Compiled code is ended only when it returns to
    Python. Works in the main thread and on systems with ``SIGALRM`` (not Windows); limits do not nest.
    """

    def ring(*_: object) -> None:
        raise TimeoutError(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
