"""Calls run at once; one that raises or hangs costs its own result and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from corehelp import Corridor

from seedbed.envs.crew import Crew, crew_for
from seedbed.envs.search.env import SearchQA
from seedbed.types import UserError


def crew_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "crew"}


def ended(threads: set[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(20)
    return not any(thread.is_alive() for thread in threads)


def spin() -> None:
    while True:
        pass


def spin_whatever_is_raised() -> None:
    while True:
        try:
            while True:
                pass
        except Exception:  # noqa: BLE001 - what a careless game does
            continue


def doze() -> None:
    while True:
        time.sleep(0.01)


def snap() -> None:
    raise KeyError("broken")


def leave() -> None:
    sys.exit("a game must not end the program")


@pytest.mark.parametrize("workers", [1, 3, 50])
def test_results_come_in_the_order_given(workers: int) -> None:
    def answer(number: int) -> int:
        time.sleep(0.003 * (number % 3))
        return number

    with Crew(workers, 60) as crew:
        for size in (0, 1, 20, 7):
            assert crew.run([partial(answer, n) for n in range(size)]) == list(range(size))


@pytest.mark.parametrize("hang", [spin, spin_whatever_is_raised, doze])
def test_a_hang_in_python_code_ends_and_takes_nothing_along(hang: Callable[[], None]) -> None:
    before = crew_threads()
    with Crew(2, 0.2) as crew:
        results = crew.run([lambda: "a", hang, snap, leave, lambda: None, hang, lambda: "b"])
        assert [type(r) for r in results] == [str, TimeoutError, KeyError, SystemExit, type(None), TimeoutError, str]
        assert str(results[1]) == "no answer within 0.2 s"
        assert crew.run([lambda: "c", lambda: "d"]) == ["c", "d"]
    assert ended(crew_threads() - before)


def test_a_loop_that_swallows_every_exception_is_left_behind_and_not_ended() -> None:
    before, over, caught = crew_threads(), threading.Event(), threading.Event()

    def stubborn() -> None:
        while not over.is_set():
            try:
                while not over.is_set():
                    pass
            except BaseException:  # noqa: BLE001 - what the most careless game does
                caught.set()

    with Crew(1, 0.2) as crew:
        (given_up,) = crew.run([stubborn])
        assert isinstance(given_up, TimeoutError) and caught.wait(20)
        assert len(crew_threads() - before) == 2, "the one left behind still runs, beside a fresh one"
        assert crew.run([lambda: "a"]) == ["a"]
        over.set()
    assert ended(crew_threads() - before)


def test_a_wait_for_a_lock_is_left_behind_and_its_late_answer_is_not_heard() -> None:
    before, silent, played = crew_threads(), threading.Event(), Counter()

    def game(number: int) -> int:
        played[number] += 1
        if number % 5 == 0:
            silent.wait()
        return number

    with Crew(3, 0.2) as crew:
        results = crew.run([partial(game, n) for n in range(20)])
        assert [n for n, r in enumerate(results) if isinstance(r, TimeoutError)] == [0, 5, 10, 15]
        waiting = crew_threads() - before
        assert len(waiting) == 3 + 4
        silent.set()
        assert crew.run([partial(game, n) for n in range(100, 130)]) == list(range(100, 130))
    assert ended(waiting)
    assert set(played.values()) == {1}, "no call is made twice"
    assert [r for r in results if not isinstance(r, TimeoutError)] == [n for n in range(20) if n % 5]


def test_workers_are_replaced_and_not_heaped_up() -> None:
    before = crew_threads()
    with Crew(4, 0.05) as crew:
        results = crew.run([spin] * 20)
        assert [type(r) for r in results] == [TimeoutError] * 20
        idle = {worker for worker in crew_threads() - before if worker in crew._workers}
        assert len(idle) == 4 and ended(crew_threads() - before - idle)
        assert crew.run([partial(pow, n, 2) for n in range(40)]) == [n * n for n in range(40)]
    assert ended(crew_threads() - before)


def test_patience_counts_from_when_a_call_began() -> None:
    with Crew(1, 1.0) as crew:  # the last one waits for 1.4 s in the queue
        assert crew.run([partial(time.sleep, 0.1)] * 15) == [None] * 15


def test_no_more_calls_than_workers_run_at_once() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def call() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    with Crew(3, 60) as crew:
        crew.run([call] * 60)
    assert 1 < most <= 3


def test_ctrl_c_is_raised_at_once_and_the_crew_can_go_on() -> None:
    before, silent = crew_threads(), threading.Event()
    with Crew(2, 1000) as crew:
        with pytest.raises(KeyboardInterrupt):
            crew.run([silent.wait, lambda: os.kill(os.getpid(), signal.SIGINT), silent.wait, silent.wait])
        assert crew.run([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]
    silent.set()
    assert ended(crew_threads() - before)


def test_a_program_ends_although_a_game_hangs() -> None:
    code = (
        "import threading; from seedbed.envs.crew import Crew\n"
        "with Crew(2, 0.1) as crew: print([str(r) for r in crew.run([threading.Event().wait])])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['no answer within 0.1 s']\n", "")


def test_an_environment_limits_its_crew() -> None:
    environment, seen = Corridor(), set()
    assert environment.threads == 1 and environment.workers == 16
    with crew_for(environment) as crew:
        crew.run([lambda: seen.add(threading.get_ident()) or time.sleep(0.001)] * 30)
    assert len(seen) == 1 and threading.get_ident() not in seen


def test_a_patience_that_would_cut_off_a_services_own_retries_is_refused() -> None:
    patient, usual = (SearchQA(retriever="http://127.0.0.1:1", timeout=t, retries=4) for t in (60, 10))
    for environment in (patient, usual):
        environment.prepare([])
    assert patient.waits_s == 5 * 60 + 0.5 * (1 + 2 + 4 + 8)
    with pytest.raises(UserError, match=r"env.patience_s=300 is not longer than the 307.5 s .* 'search'"):
        crew_for(patient)
    patient.patience_s = 308.0
    crew_for(patient)
    crew_for(usual)
