"""A thread that is ended while it computes for others takes nobody along."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seedbed.envs.search.merged import Merged


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_the_end_of_the_thread_that_computes_is_a_fault_with_a_cause_for_the_others(end: type[BaseException]) -> None:
    entered, release = threading.Event(), threading.Event()

    def work(items: list[int]) -> list[int]:
        entered.set()
        release.wait(10)
        if len(items) > 1:
            raise end
        return items

    merged = Merged(work)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(merged, [0])
        assert entered.wait(10)
        waiting = [pool.submit(merged, [i]) for i in range(1, 5)]
        while len(merged._waiting) < 4:
            time.sleep(0.001)
        release.set()
        assert first.result() == [0]
        causes = [future.exception() for future in waiting]
    assert sorted(type(cause).__name__ for cause in causes) == sorted([end.__name__] + ["RuntimeError"] * 3)
    told = {str(cause) for cause in causes if isinstance(cause, RuntimeError)}
    assert told == {f"the thread that computed for this one was ended by {end.__name__}"}
    assert merged([4]) == [4], "it goes on"
