"""The service speaks both wire formats; the client bears with it as long as it should and no longer."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, repeat
from typing import Any
from urllib.parse import urlsplit

import pytest

from seedbed.envs.search.client import RetrieverClient, RetrieverUnavailable
from seedbed.envs.search.passages import Passage
from seedbed.envs.search.service import MAX_BODY, RetrieverServer
from seedbed.types import UserError


class Echo:
    """Finds ``<query> 1``, ``<query> 2``, ... and remembers what it was asked."""

    name = "echo"

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], int]] = []

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        self.asked.append((list(queries), topk))
        if "break" in queries:
            raise RuntimeError("a secret of this side")
        return [[Passage(f"d{i}", f"{query} {i}", 1 / i) for i in range(1, topk + 1)] for query in queries]


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def url(echo: Echo) -> Iterator[str]:
    server = RetrieverServer(echo, port=0)
    assert server.server_address[0] == "127.0.0.1", "not reachable from elsewhere unless asked for"
    with running(server):
        yield server.url


def post(url: str, body: Any) -> tuple[int, dict[str, Any]]:
    return ask("POST", url, body if isinstance(body, bytes) else json.dumps(body).encode())


def ask(method: str, url: str, body: bytes = b"") -> tuple[int, dict[str, Any]]:
    connection = connect(url)
    connection.request(method, urlsplit(url).path, body)
    answer = connection.getresponse()
    content = json.load(answer)
    connection.close()
    return answer.status, content


def connect(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).hostname, urlsplit(url).port, timeout=5)


def test_seeds_format(url: str):
    status, answer = post(url, {"query": "Łódź", "topk": 2, "return_scores": True})
    assert status == 200
    assert answer == {
        "result": [
            [
                {"document": {"id": "d1", "contents": "Łódź 1"}, "score": 1.0},
                {"document": {"id": "d2", "contents": "Łódź 2"}, "score": 0.5},
            ]
        ]
    }


def test_search_r1s_format(url: str, echo: Echo):
    status, answer = post(url, {"queries": ["a", "b"], "topk": 1, "return_scores": False})
    assert (status, answer) == (
        200,
        {"result": [[{"id": "d1", "contents": "a 1"}], [{"id": "d1", "contents": "b 1"}]]},
    )
    assert echo.asked == [(["a", "b"], 1)], "one search for the batch"
    assert post(url, {"queries": []}) == (200, {"result": []})


def test_a_batch_of_512_is_one_search_in_order(url: str, echo: Echo):
    queries = [f"q{i}" for i in range(512)]
    status, answer = post(url, {"queries": queries, "topk": 3, "return_scores": True})
    assert status == 200 and len(echo.asked) == 1
    assert [[entry["document"]["contents"] for entry in found] for found in answer["result"]] == [
        [f"{query} {i}" for i in (1, 2, 3)] for query in queries
    ]


def test_three_passages_without_scores_unless_asked(url: str):
    for topk in ({}, {"topk": None}):
        _, answer = post(url, {"query": "a"} | topk)
        assert answer == {"result": [[{"id": f"d{i}", "contents": f"a {i}"} for i in (1, 2, 3)]]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        ([], "not a JSON object"),
        ({}, "'query' must be a string"),
        ({"query": 1}, "'query' must be a string"),
        ({"queries": "a"}, "'queries' a list of strings"),
        ({"queries": ["a", None]}, "'queries' a list of strings"),
        ({"queries": ["a"] * 5000}, "at most 4096"),
        ({"query": "a", "topk": 0}, "'topk' must be a whole number from 1 to 100"),
        ({"query": "a", "topk": "3"}, "'topk'"),
        ({"query": "a", "topk": True}, "'topk'"),
        ({"query": "a", "topk": 101}, "'topk'"),
        ({"queries": ["a"] * 4000, "topk": 100}, "at most 65536 passages"),
    ],
)
def test_a_mistake_in_the_request_is_told(url: str, echo: Echo, body: Any, message: str):
    status, answer = post(url, body)
    assert status == 400 and message in answer["error"]
    assert echo.asked == []
    assert post(url, {"query": "a"})[0] == 200, "the service goes on"


def test_a_broken_search_is_one_requests_and_keeps_its_cause(url: str):
    status, answer = post(url, {"query": "break"})
    assert status == 500 and "secret" not in answer["error"]
    assert post(url, {"query": "a"})[0] == 200


def test_other_requests(url: str):
    root = url.removesuffix("/retrieve")
    assert ask("GET", f"{root}/health") == (200, {"status": "ok", "retriever": "echo"})
    assert ask("GET", url)[0] == 404
    assert post(f"{root}/other", {"query": "a"})[0] == 404
    assert ask("PUT", url, b"{}") == (501, {"error": "Unsupported method ('PUT')"})


def test_bodies_without_or_with_too_great_a_length_are_not_read(url: str):
    for headers, status in (
        ({}, 411),
        ({"Content-Length": "x"}, 411),
        ({"Content-Length": str(MAX_BODY + 1)}, 413),
        ({"Content-Length": "9" * 5000}, 413),
    ):
        connection = connect(url)
        connection.putrequest("POST", "/retrieve")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == status and answer.getheader("Connection") == "close"
        connection.close()


def test_one_connection_carries_many_requests(url: str):
    connection = connect(url)
    connection.connect()
    port = connection.sock.getsockname()
    for query in ("a", "b", ""):
        connection.request("POST", "/retrieve", json.dumps({"query": query, "topk": 1}))
        assert json.load(connection.getresponse())["result"][0][0]["contents"] == f"{query} 1"
        assert connection.sock.getsockname() == port
    connection.close()


def test_the_client_gets_what_the_retriever_finds(url: str, echo: Echo):
    client = RetrieverClient(url)
    assert client.search(["a", "<b>\ud800"], 2) == Echo().search(["a", "<b>\ud800"], 2)
    assert RetrieverClient(url.removesuffix("/retrieve")).search(["a"], 1) == Echo().search(["a"], 1)
    assert client.search([], 3) == []


def test_the_same_question_is_asked_once(url: str, echo: Echo):
    client = RetrieverClient(url, cache=2)
    for query in ("a", "b", "a", "c", "a", "b"):  # c pushes out b, the one not asked for longest
        client.search([query], 1)
    client.search(["a"], 2)
    assert [(queries[0], topk) for queries, topk in echo.asked] == [("a", 1), ("b", 1), ("c", 1), ("b", 1), ("a", 2)]


class Meeting(Echo):
    """Keeps the first searches until ``size`` are there at once, and counts how many ever were."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.there = self.most = 0
        self.guard, self.met, self.size = threading.Lock(), threading.Event(), size

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        with self.guard:
            self.there += 1
            self.most = max(self.most, self.there)
            if self.there == self.size:
                self.met.set()
        self.met.wait(10)
        with self.guard:
            self.there -= 1
        return super().search(queries, topk)


def test_64_episodes_at_once_share_few_connections():
    meeting, gate = Meeting(5), threading.Barrier(64)
    server = RetrieverServer(meeting, port=0)

    def episode(number: int) -> list[str]:
        gate.wait(10)
        return [client.search([f"q{number}-{turn}"], 1)[0][0].contents for turn in range(4)]

    with running(server), ThreadPoolExecutor(64) as pool:
        client = RetrieverClient(server.url, connections=5)
        found = list(pool.map(episode, range(64)))
    assert found == [[f"q{number}-{turn} 1" for turn in range(4)] for number in range(64)]
    assert meeting.met.is_set() and meeting.most == 5
    assert len(meeting.asked) == 256, "each question once"


def test_the_cache_bears_32_threads(url: str):
    """Far more keys than places: every search moves, adds or drops an entry while others do."""
    client = RetrieverClient(url, cache=7)
    gate = threading.Barrier(32)

    def ask(seed: int) -> bool:
        gate.wait(10)
        queries = [f"q{random.Random(seed * 100 + i).randrange(20)}" for i in range(40)]
        return all(client.search([query], 1)[0] == [Passage("d1", f"{query} 1", 1.0)] for query in queries)

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(ask, range(32)))


def test_what_a_caller_does_to_an_answer_is_not_kept(url: str):
    client = RetrieverClient(url)
    client.search(["a"], 2)[0].clear()
    assert client.search(["a"], 2) == Echo().search(["a"], 2)


@contextmanager
def scripted(*answers: tuple[int, bytes] | tuple[int, bytes, int]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these answers in turn, the last one for ever; and the bodies it was sent.

    An answer is status, content and, if it is not true, the length that is told.
    """
    bodies: list[bytes] = []
    script = chain(answers, repeat(answers[-1]))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, content, *length = next(script)
            if status == 0:
                return  # hang up without an answer
            self.send_response(status)
            self.send_header("Content-Length", str(*length or [len(content)]))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies


GOOD = (200, json.dumps({"result": [[{"document": {"id": 3, "contents": "x"}, "score": 2}]]}).encode())
FOUND = [[Passage("3", "x", 2.0)]]


@pytest.mark.parametrize("bad", [(500, b""), (503, b"busy"), (429, b""), (0, b"")])
def test_passing_trouble_is_borne(bad: tuple[int, bytes]):
    with scripted(bad, bad, GOOD) as (url, bodies):
        assert RetrieverClient(url, retries=2, backoff=0.001).search(["a"], 3) == FOUND
        assert len(bodies) == 3 and len(set(bodies)) == 1
        assert json.loads(bodies[0]) == {"query": "a", "queries": ["a"], "topk": 3, "return_scores": True}


class Clock:
    """A time that only sleeping moves on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.slept = 0.0, []
        patch.setattr("seedbed.envs.search.client.time.sleep", self.sleep)
        patch.setattr("seedbed.envs.search.client.time.monotonic", lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_lasting_trouble_is_raised_and_then_raised_at_once_until_it_ends(monkeypatch: pytest.MonkeyPatch):
    with scripted(*[(500, b"")] * 4, GOOD) as (url, bodies):
        patient = RetrieverClient(url, retries=2, backoff=20)
        clock = Clock(monkeypatch)
        with pytest.raises(RetrieverUnavailable, match="failed 3 time.* status 500"):
            patient.search(["a"], 3)
        assert clock.slept == [20, 40] and clock.now == 60 and len(bodies) == 3
        for clock.now in (61, 119):  # still resting, for as long as the waits were together
            with pytest.raises(RetrieverUnavailable, match="a moment ago"):
                patient.search(["b"], 3)
        assert len(bodies) == 3
        clock.now = 120
        with pytest.raises(RetrieverUnavailable, match="failed 1 time"):
            patient.search(["b"], 3)
        assert len(bodies) == 4 and clock.now == 120, "one try, no wait"
        clock.now = 179
        with pytest.raises(RetrieverUnavailable, match="a moment ago"):
            patient.search(["b"], 3)
        clock.now = 180
        assert patient.search(["b"], 3) == FOUND
        assert patient.search(["a"], 3) == FOUND, "failures are not kept"


def test_a_query_that_the_service_cannot_bear_does_not_stop_the_others(url: str, monkeypatch: pytest.MonkeyPatch):
    """The policy writes the queries: one that always breaks the search must cost its own episode alone."""
    clock = Clock(monkeypatch)
    client = RetrieverClient(url, retries=1, backoff=1)

    def others_meanwhile(seconds: float) -> None:
        clock.now += seconds / 2
        client.search([f"other at {clock.now}"], 3)
        clock.now += seconds / 2

    monkeypatch.setattr("seedbed.envs.search.client.time.sleep", others_meanwhile)
    with pytest.raises(RetrieverUnavailable, match="failed 2 time.* status 500"):
        client.search(["break"], 3)
    assert client.search(["a"], 1) == Echo().search(["a"], 1), "not: did not answer a moment ago"


def test_the_patience_of_a_query_is_known_and_bounds_its_tries_waits_and_queue(monkeypatch: pytest.MonkeyPatch):
    assert RetrieverClient("http://h").patience_s == 5 * 10 + (0.5 + 1 + 2 + 4)
    clock = Clock(monkeypatch)
    with scripted((503, b"")) as (url, _):
        client = RetrieverClient(url, timeout=3, retries=3, backoff=2)
        with pytest.raises(RetrieverUnavailable, match="failed 4 time"):
            client.search(["a"], 3)
    assert clock.now == 2 + 4 + 8 == client.patience_s - 4 * 3, "tries that take no time leave the waits"


def test_a_query_that_gets_no_connection_gives_up_when_its_patience_ends(url: str, echo: Echo):
    with pytest.raises(RetrieverUnavailable, match="no connection to retriever .* became free in 0.05 s"):
        RetrieverClient(url, timeout=0.05, retries=0, connections=0).search(["a"], 1)
    assert echo.asked == []


def test_an_answer_that_trickles_is_given_up_at_the_time_limit():
    """Each piece comes soon after the last, so a limit on silence alone would wait for the whole good answer."""
    status, good = GOOD
    head = f"HTTP/1.1 {status} OK\r\nContent-Length: {len(good)}\r\n\r\n".encode()
    pieces = [bytes([byte]) for byte in head + good]
    listener = socket.create_server(("127.0.0.1", 0))

    def trickle() -> None:
        stream, _ = listener.accept()
        with stream, suppress(OSError):
            stream.recv(1 << 16)
            for piece in pieces:
                time.sleep(0.02)
                stream.sendall(piece)

    thread = threading.Thread(target=trickle)
    thread.start()
    client = RetrieverClient(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.3, retries=0)
    with pytest.raises(RetrieverUnavailable, match="TimeoutError: timed out"):
        client.search(["a"], 3)
    thread.join()
    listener.close()


def test_an_answer_that_breaks_off_is_asked_for_again():
    broken = (200, GOOD[1], len(GOOD[1]) + 1)
    with scripted(broken, GOOD) as (url, bodies):
        assert RetrieverClient(url, retries=1, backoff=0.001).search(["a"], 3) == FOUND
        assert len(bodies) == 2


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (400, b'{"error": "no such field"}', "refused the request: 400 .*no such field"),
        (302, b"", "refused the request: 302"),
        (200, b"<html>", "another form: <html>"),
        (200, b"{}", "another form"),
        (200, b'{"result": []}', "another form"),
        (200, b'{"result": [[{"document": {}}]]}', "another form"),
        (200, b'{"result": [["x"]]}', "another form"),
    ],
)
def test_an_answer_that_will_not_change_is_not_asked_for_again(status: int, content: bytes, message: str):
    with scripted((status, content)) as (url, bodies):
        with pytest.raises(RetrieverUnavailable, match=message):
            RetrieverClient(url, backoff=0.001).search(["a"], 3)
        assert len(bodies) == 1


def test_a_service_that_hangs_is_given_up():
    release = threading.Event()

    class Hanging(Echo):
        def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
            release.wait(10)
            return super().search(queries, topk)

    server = RetrieverServer(Hanging(), port=0)
    with running(server):
        with pytest.raises(RetrieverUnavailable, match="failed 2 time.*[Tt]imed? ?out"):
            RetrieverClient(server.url, timeout=0.05, retries=1, backoff=0.001).search(["a"], 3)
        release.set()


def test_documents_without_scores_are_read():
    with scripted((200, b'{"result": [[{"id": "1", "contents": "x"}]]}')) as (url, _):
        assert RetrieverClient(url).search(["a"], 3) == [[Passage("1", "x", 0.0)]]


@pytest.mark.parametrize("url", ["ftp://host", "localhost:8000", "http://", "http://[", "http://h:x", "retriever"])
def test_a_url_that_is_none_is_the_users_mistake(url: str):
    with pytest.raises(UserError, match="retriever URL"):
        RetrieverClient(url)


@pytest.mark.parametrize(
    "url", ["http://h/retrieve?key=1", "https://h?topk=3", "http://h:1/a#b", "http://h/?", "http://h#"]
)
def test_a_query_or_fragment_is_refused_not_dropped(url: str):
    with pytest.raises(UserError, match="it has a query or a fragment, which would not be sent: end it with the path$"):
        RetrieverClient(url)
