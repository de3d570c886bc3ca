"""A game that hangs ends its own episode and nothing else."""

from __future__ import annotations

import signal
import socket
import time

import pytest

from seedbed.envs.alfworld import official
from seedbed.envs.limit import at_most


def spin() -> None:
    while True:
        pass


def wait_for_a_silent_service() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.recv(1)


@pytest.mark.parametrize("hang", [spin, wait_for_a_silent_service])
def test_a_hang_becomes_an_exception(hang):
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"), at_most(0.05):
        hang()
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_is_fast_enough_is_left_alone_also_afterwards():
    with at_most(0.05):
        answer = 1 + 1
    time.sleep(0.1)
    assert answer == 2
    with pytest.raises(KeyError), at_most(0.05):
        raise KeyError("the game's own error")
    time.sleep(0.1)


def test_the_official_engine_is_limited(monkeypatch, tmp_path):
    monkeypatch.setattr(official, "packages", lambda: None)
    monkeypatch.setattr(official, "start", lambda _: spin())
    monkeypatch.setattr(official, "LIMIT", 0.05)
    with pytest.raises(TimeoutError):
        official.OfficialGame(tmp_path)
