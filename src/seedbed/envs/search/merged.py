"""How do threads that ask at the same moment share one computation?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

A = TypeVar("A")
R = TypeVar("R")


class Merged(Generic[A, R]):
    """A function of a list, called by one thread at a time; those who wait meanwhile are served together next.

    Tokenizers and models are not safe to share between threads at once; encoding a query alone costs several times its
    share of a batch, and a flat index is read once for a batch.
    """

    def __init__(self, function: Callable[[list[A]], Sequence[R]]) -> None:
        """``function`` gives one result for each item, which does not depend on the other items."""
        self._function = function
        self._waiting: list[tuple[Sequence[A], Future[list[R]]]] = []
        self._guard, self._turn = Lock(), Lock()

    def __call__(self, items: Sequence[A]) -> list[R]:
        """The results of ``items``, or what the function raised.

        A thread that is ended (``SystemExit``, Ctrl-C) while it computes for others leaves them a ``RuntimeError``.
        """
        mine: Future[list[R]] = Future()
        with self._guard:
            self._waiting.append((items, mine))
        with self._turn:
            if not mine.done():
                self._serve()
        return mine.result()

    def _serve(self) -> None:
        with self._guard:
            taken, self._waiting = self._waiting, []
        try:
            results = iter(self._function([item for items, _ in taken for item in items]))
            for items, future in taken:
                future.set_result([next(results) for _ in items])
        except BaseException as error:
            ended = not isinstance(error, Exception)
            cause = f"the thread that computed for this one was ended by {type(error).__name__}"
            for _, future in taken:
                if not future.done():
                    future.set_exception(RuntimeError(cause) if ended else error)
            if ended:
                raise
