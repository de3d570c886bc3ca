"""The service speaks both wire formats; the client bears with it as long as it should and no longer."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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


def test_bodies_without_or_with_too_great_a_length_are_not_read(url: str):
    for headers, status in (({}, 411), ({"Content-Length": "x"}, 411), ({"Content-Length": str(MAX_BODY + 1)}, 413)):
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


def test_many_threads_over_few_connections(url: str, echo: Echo):
    client = RetrieverClient(url, connections=2)
    queries = [f"q{i % 50}" for i in range(200)]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda query: client.search([query], 1)[0][0].contents, queries))
    assert found == [f"{query} 1" for query in queries]


Script = Callable[[int], tuple[int, bytes]]


@contextmanager
def scripted(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these answers in turn, the last one for ever; and the bodies it was sent."""
    bodies: list[bytes] = []
    script = chain(answers, repeat(answers[-1]))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, content = next(script)
            if status == 0:
                return  # hang up without an answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
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


def test_lasting_trouble_is_raised_and_then_raised_at_once_until_it_ends():
    with scripted(*[(500, b"")] * 4, GOOD) as (url, bodies):
        patient = RetrieverClient(url, retries=2, backoff=20 / 3)
        waits: list[float] = []
        with pytest.MonkeyPatch.context() as patch:
            clock = iter(range(0, 10_000, 1))
            patch.setattr("seedbed.envs.search.client.time.sleep", waits.append)
            patch.setattr("seedbed.envs.search.client.time.monotonic", lambda: 7.0 * next(clock))
            with pytest.raises(RetrieverUnavailable, match="failed 3 time.* status 500"):
                patient.search(["a"], 3)
            assert waits == pytest.approx([20 / 3, 40 / 3]) and len(bodies) == 3
            for _ in range(2):  # at 7 and 14 seconds: still resting, until 0 + 20
                with pytest.raises(RetrieverUnavailable, match="a moment ago"):
                    patient.search(["b"], 3)
            assert len(bodies) == 3
            with pytest.raises(RetrieverUnavailable, match="failed 1 time"):  # at 21: one try
                patient.search(["b"], 3)
            assert len(bodies) == 4 and len(waits) == 2
            for _ in range(2):
                with pytest.raises(RetrieverUnavailable, match="a moment ago"):
                    patient.search(["b"], 3)
            assert patient.search(["b"], 3) == FOUND
            assert patient.search(["a"], 3) == FOUND, "failures are not kept"


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
