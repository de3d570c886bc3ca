"""How does a retriever answer over HTTP? ``POST /retrieve`` in both wire formats met in the wild; ``GET /health``.

SEED asks ``{"query": str, "topk", "return_scores"}``, Search-R1 ``{"queries": [str], ...}`` (which wins if both are
there). The answer to both is ``{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}``, without scores
``{"result": [[{"id", "contents"}, ...], ...]}``. A mistake in the request is a 4xx with ``{"error": sentence}``.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from seedbed.envs.search.passages import Passage, Retriever

MAX_BODY, MAX_QUERIES, MAX_TOPK = 1 << 22, 4096, 100  #: bytes, and what one request may ask for
MAX_PASSAGES = 1 << 16  #: over all its queries
TOPK = 3  #: if the request does not say (official code)
_IDLE_SECONDS = 60.0  #: after which a silent connection is closed
_log = logging.getLogger(__name__)


class RetrieverServer(ThreadingHTTPServer):
    """Serves until ``shutdown``. Port 0 takes a free one; ``url`` says which."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, retriever: Retriever, host: str = "127.0.0.1", port: int = 8000) -> None:
        """Raises ``OSError`` if the port is taken."""
        super().__init__((host, port), _Handler)
        self.retriever = retriever

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is no error of ours."""
        _log.debug("the connection from %s broke", client_address, exc_info=True)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host}:{port}/retrieve"


@dataclass(frozen=True, slots=True)
class _Wanted:
    queries: list[str]
    topk: int
    scores: bool


class _BadRequest(ValueError):
    """The message is for the client."""


class _Handler(BaseHTTPRequestHandler):
    server: RetrieverServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is two small writes; an acknowledgement of the first takes 40 ms
    timeout = _IDLE_SECONDS

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/health":
            self._send(200, {"status": "ok", "retriever": self.server.retriever.name})
        else:
            self._send(404, {"error": "there is only POST /retrieve and GET /health"})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > MAX_BODY:
            self.close_connection = True  # the body stays unread
            self._send(413 if length.isdecimal() else 411, {"error": f"a body of 0 to {MAX_BODY} bytes is needed"})
            return
        body = self.rfile.read(int(length))
        if self.path.rstrip("/") != "/retrieve":
            self._send(404, {"error": "there is only POST /retrieve and GET /health"})
            return
        try:
            wanted = _read(body)
            found = self.server.retriever.search(wanted.queries, wanted.topk)
        except _BadRequest as error:
            self._send(400, {"error": str(error)})
        except Exception:  # noqa: BLE001 - a broken search is this request's alone; its cause stays on this side
            _log.exception("search failed")
            self._send(500, {"error": "the search failed; the service's log says why"})
        else:
            self._send(200, {"result": [[_shown(p, wanted.scores) for p in passages] for passages in found]})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong: another method, a line that is no HTTP."""
        self.close_connection = True
        self._send(code, {"error": message or HTTPStatus(code).phrase})

    def log_message(self, format: str, *args: object) -> None:
        _log.debug(format, *args)


def _read(body: bytes) -> _Wanted:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _BadRequest(f"the body is not JSON: {type(error).__name__}") from error
    if not isinstance(asked, dict):
        raise _BadRequest("the body is not a JSON object")
    queries = asked["queries"] if asked.get("queries") is not None else [asked.get("query")]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise _BadRequest("'query' must be a string, or 'queries' a list of strings")
    if len(queries) > MAX_QUERIES:
        raise _BadRequest(f"at most {MAX_QUERIES} queries fit into one request")
    topk = asked["topk"] if asked.get("topk") is not None else TOPK
    if not isinstance(topk, int) or isinstance(topk, bool) or not 1 <= topk <= MAX_TOPK:
        raise _BadRequest(f"'topk' must be a whole number from 1 to {MAX_TOPK}")
    if len(queries) * topk > MAX_PASSAGES:
        raise _BadRequest(
            f"at most {MAX_PASSAGES} passages fit into one answer: ask for fewer queries or a smaller topk"
        )
    return _Wanted(queries, topk, bool(asked.get("return_scores", False)))


def _shown(passage: Passage, score: bool) -> dict[str, Any]:
    document = {"id": passage.id, "contents": passage.contents}
    return {"document": document, "score": passage.score} if score else document
