"""How do many games take their turns at once, so that one that breaks or hangs costs nothing but itself?

Worker threads take calls off a common list. A call that runs longer than the patience is given up: its result is a
``TimeoutError``, its thread is left behind, and a fresh one takes the place. Waiting for a service, a lock or a process
is covered, and so is a loop of Python code: ``SystemExit`` is raised in it, which ends it unless it swallows every
exception; then it runs on in the thread left behind. Compiled code that never lets other threads run is not covered.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, Self

from seedbed.envs.base import Environment
from seedbed.types import UserError

_LOOK = 1.0  #: seconds between looks at calls that began after the last look


class Crew:
    """Up to ``workers`` threads. A context manager; only the thread that made it may use it."""

    def __init__(self, workers: int, patience_s: float) -> None:
        self._size, self._patience = workers, patience_s
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _worker in self._workers:
            self._jobs.put(None)

    def run(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each call returned, or the exception it raised, in the order given.

        The patience of a call counts from when a worker began it. A call that was given up may still be running, so
        what it works on must not be used again. Ctrl-C in the waiting thread gives up every call and is raised.
        """
        job = _Job(calls)
        wanted = min(self._size, len(calls))
        self._workers += [_Worker(self._jobs) for _ in range(wanted - len(self._workers))]
        for _ in range(wanted):
            self._jobs.put(job)
        try:
            while len(job.outcomes) < len(calls):
                with suppress(Empty):
                    job.bell.get(timeout=self._until_next_look(job))
                for worker, index, began in self._busy(job):
                    if monotonic() - began >= self._patience:
                        self._give_up(worker, job, index)
        except BaseException:
            job.left.clear()
            for worker, index, _ in self._busy(job):
                self._give_up(worker, job, index)
            raise
        return [job.outcomes[index] for index in range(len(calls))]

    def _busy(self, job: _Job) -> list[tuple[_Worker, int, float]]:
        doing = [(worker, worker.doing) for worker in self._workers]
        return [
            (worker, at.index, at.began)
            for worker, at in doing
            if at and at.job is job and at.index not in job.outcomes
        ]

    def _until_next_look(self, job: _Job) -> float:
        ends = [began + self._patience - monotonic() for _, _, began in self._busy(job)]
        return max(0.0, min([*ends, self._patience, _LOOK]))

    def _give_up(self, worker: _Worker, job: _Job, index: int) -> None:
        cause = TimeoutError(f"no answer within {self._patience:g} s")
        if job.outcomes.setdefault(index, cause) is cause:  # else it has just finished
            worker.end()
            self._workers.remove(worker)
            self._workers.append(_Worker(self._jobs))
            self._jobs.put(job)


def crew_for(environment: Environment) -> Crew:
    """As many workers as ``env.workers`` says and the environment bears.

    Raises ``UserError`` if ``env.patience_s`` would cut off waits that the environment limits on its own.
    """
    if environment.patience_s <= environment.waits_s:
        raise UserError(
            f"env.patience_s={environment.patience_s:g} is not longer than the {environment.waits_s:g} s that one call "
            f"of environment {environment.name!r} may wait by its own options: raise it, or lower those of env.options"
        )
    return Crew(min(environment.workers, environment.threads or environment.workers), environment.patience_s)


class _Job:
    """The calls of one run. Every operation is one step for Python: a thread ended anywhere leaves no lock held."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.calls = calls
        self.left = deque(range(len(calls)))
        self.outcomes: dict[int, Any] = {}  #: whoever sets an entry first decides it: the worker, or who gave it up
        self.bell: SimpleQueue[None] = SimpleQueue()  #: rung by a worker that finds nothing left

    def take(self) -> Iterator[int]:
        with suppress(IndexError):
            while True:
                yield self.left.popleft()


@dataclass(slots=True)
class _Doing:
    job: _Job
    index: int
    began: float = field(default_factory=monotonic)


class _Worker(Thread):
    """Daemon: a game that hangs must not keep the program from ending."""

    def __init__(self, jobs: SimpleQueue[_Job | None]) -> None:
        super().__init__(name="crew", daemon=True)
        self.doing: _Doing | None = None
        self._jobs = jobs
        self.start()

    def run(self) -> None:
        with suppress(SystemExit):  # from ``end``, which may strike anywhere
            while (job := self._jobs.get()) is not None:
                if not self._work(job):
                    return

    def _work(self, job: _Job) -> bool:
        """False if this worker was given up."""
        for index in job.take():
            self.doing = _Doing(job, index)
            try:
                outcome = job.calls[index]()
            except BaseException as error:  # noqa: BLE001 - whatever a game raises is its own affair
                outcome = error
            if job.outcomes.setdefault(index, outcome) is not outcome:
                return False
        job.bell.put(None)
        return True

    def end(self) -> None:
        """Raise ``SystemExit`` in the thread, once, as soon as it runs Python code: so a loop burns no core for ever,
        unless it swallows every exception.
        """
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(SystemExit))
