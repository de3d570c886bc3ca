"""An OpenAI-compatible server on loopback that a test scripts, good answers and all the bad days of a real one."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = json.dumps({"episode_summary": "It took the mug.", "episode_skill": "Open closed places before you give up."})


@dataclass(frozen=True)
class Reply:
    """``how``: send the whole body; hang until the client is gone; close without a word; cut in the middle of the
    body; drip a byte at a time.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    how: str = "send"


def completion(content: Any, finish: str = "stop", tokens: tuple[int, int] | None = None, **message: Any) -> Reply:
    usage = {"usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}} if tokens else {}
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return Reply(
        200, {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **usage}
    )


def refusal(status: int, message: str = "no", **headers: str) -> Reply:
    return Reply(status, {"error": {"message": message}}, headers)


Script = Callable[[int, dict[str, Any]], Reply]


class Server(ThreadingHTTPServer):
    """Answers each request with ``script(number, body)``; number counts from 0. ``sent`` are the bodies of requests
    whose good answer went out whole.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.lock, self.released = script, threading.Lock(), threading.Event()
        self.bodies: list[dict[str, Any]] = []
        self.arrivals: list[float] = []
        self.sent: list[str] = []
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error of the server."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    wbufsize = -1  # an answer leaves in one piece: whole or not at all

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            number = len(self.server.bodies)
            self.server.bodies.append(body)
            self.server.arrivals.append(time.monotonic())
            self.server.keys.add(self.headers["authorization"])
        reply = self.server.script(number, body)
        data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.close_connection = True
        if reply.how == "hang":
            self.server.released.wait(10)
        if reply.how in ("hang", "close"):
            return
        self.send_response(reply.status)
        for name, value in {
            "content-type": "application/json",
            "content-length": str(len(data)),
            **reply.headers,
        }.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if reply.how == "drip":
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                if self.server.released.wait(0.05):
                    return
        self.wfile.write(data[: len(data) // 2] if reply.how == "cut" else data)
        self.wfile.flush()
        good = reply.status == 200 and reply.how == "send" and isinstance(reply.body, dict) and "choices" in reply.body
        if good:
            with self.server.lock:
                self.server.sent.append(prompt_of(body))

    def log_message(self, *args: object) -> None:
        pass


def prompt_of(body: dict[str, Any]) -> str:
    return body["messages"][0]["content"]


class Faulty:
    """A script: ``share`` of the calls fail in one of eight ways, which ones is a function of prompt and try number.

    A good answer is the prompt's own (its skill names the prompt's hash); the first good answer to every
    ``unparsable``-th prompt is no JSON.
    """

    WAYS: tuple[Reply, ...] = (
        refusal(429, "slow down", retry_after="0"),
        refusal(500, "oops", retry_after="0"),
        Reply(how="hang"),
        Reply(how="close"),
        Reply(body={"choices": [{"message": {"content": "cut"}}]}, how="cut"),
        Reply(body=b'{"choices": [{"message": {"role": "assistant", "cont'),
        Reply(body=b""),
        Reply(body={"error": {"message": "overloaded"}}),
    )

    def __init__(self, share: float = 0.3, unparsable: int = 20) -> None:
        self.share, self.unparsable, self.lock = share, unparsable, threading.Lock()
        self.tries: Counter[str] = Counter()
        self.good: Counter[str] = Counter()
        self.hung = 0

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        prompt = prompt_of(body)
        with self.lock:
            draw = random.Random(f"{name_of(prompt)}/{self.tries[prompt]}")
            self.tries[prompt] += 1
            if draw.random() < self.share and self.tries[prompt] % 4:  # no endless row: the backoff doubles
                fault = draw.choice(self.WAYS)
                self.hung += fault.how == "hang"
                return fault
            self.good[prompt] += 1
            flawed = int(name_of(prompt), 16) % self.unparsable == 0 and self.good[prompt] == 1
        answer = {"episode_summary": "It ended.", "episode_skill": skill_for(prompt)}
        return completion("Let me think." if flawed else json.dumps(answer), tokens=(100, 50))


def name_of(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:12]


def skill_for(prompt: str) -> str:
    return f"Remember lesson {name_of(prompt)} when you play."


@contextmanager
def serving(script: Script) -> Iterator[Server]:
    server = Server(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        with suppress(OSError):
            server.server_close()
