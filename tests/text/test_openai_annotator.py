"""Does annotation survive a real server's bad days, lose nothing, and keep the key to itself? (loopback HTTP, no
mocks)
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from seedbed.prompts.analyzer import answer_schema
from seedbed.skills.openai_annotator import OpenAIAnnotator
from seedbed.types import Skill, Trajectory, UserError

pytest.importorskip("openai", reason="the extra seedbed[openai] is not installed")
pytest.importorskip("tenacity", reason="the extra seedbed[openai] is not installed")

KEY = "sk-abc123SECRET"
GOOD = json.dumps({"episode_summary": "It took the mug.", "episode_skill": "Open closed places before you give up."})
Episode = Callable[..., Trajectory]
Reply = tuple[int, Any]


def completion(content: str | None, finish: str = "stop") -> Reply:
    message = {"role": "assistant", "content": content}
    return 200, {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }


class Server(ThreadingHTTPServer):
    """Answers each request with ``script(number, body)``; number counts from 0. None holds it until the end."""

    daemon_threads = True

    def __init__(self, script: Callable[[int, dict[str, Any]], Reply | None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.lock, self.released = script, threading.Lock(), threading.Event()
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            number = len(self.server.bodies)
            self.server.bodies.append(body)
            self.server.keys.add(self.headers["authorization"])
        reply = self.server.script(number, body)
        if reply is None:
            self.server.released.wait(10)
            return
        status, answer = reply
        data = json.dumps(answer).encode() if not isinstance(answer, bytes) else answer
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if status in (429, 503):
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(script: Callable[[int, dict[str, Any]], Reply | None]) -> Iterator[Server]:
    server = Server(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def annotate(server: Server, trajectories: list[Trajectory], **settings: Any) -> list[Skill]:
    return list(OpenAIAnnotator("glm", server.url, **settings).annotate(trajectories))


def test_one_call_per_trajectory_with_the_schema_and_the_whole_lineage(episode: Episode) -> None:
    with serving(lambda number, body: completion(GOOD)) as server:
        skills = annotate(server, [episode(won=a % 2 == 0, attempt=a) for a in range(20)], concurrency=4)
    assert Counter(skill.trajectory for skill in skills) == Counter(f"v4/t1/{a}" for a in range(20))
    assert {(s.status, s.text, s.source, s.version) for s in skills} == {
        ("ok", "Open closed places before you give up.", "glm", 4)
    }
    assert Counter(s.kind for s in skills) == {"workflow": 10, "avoidance": 10}
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("glm", 0.0, 4096)
    assert body["response_format"]["json_schema"]["schema"] == answer_schema()
    (message,) = body["messages"]
    assert message["role"] == "user" and "Step 2" in message["content"]
    assert server.keys == {f"Bearer {KEY}"}


def test_busy_server_is_asked_again(episode: Episode) -> None:
    with serving(
        lambda number, body: (
            [(429, {"error": {"message": "slow down"}}), (503, {})][number] if number < 2 else completion(GOOD)
        )
    ) as server:
        (skill,) = annotate(server, [episode(won=True)])
    assert skill.status == "ok" and len(server.bodies) == 3


def test_retries_are_counted_and_a_lost_call_is_a_record(episode: Episode, caplog: pytest.LogCaptureFixture) -> None:
    with (
        serving(lambda number, body: (429, {"error": {"message": f"key {KEY} is over its quota"}})) as server,
        caplog.at_level(logging.DEBUG),
    ):
        (skill,) = annotate(server, [episode(won=True)], retries=2)
    assert len(server.bodies) == 3
    assert (skill.status, skill.raw, skill.valid, skill.kind) == ("api_error", "RateLimitError 429", False, "workflow")
    assert KEY not in repr(skill)
    assert KEY not in "".join(r.getMessage() for r in caplog.records if r.name.startswith("seedbed"))
    assert "v4/t1/0" in caplog.text


def test_server_without_structured_output_is_asked_plainly_from_then_on(episode: Episode) -> None:
    with serving(
        lambda number, body: (
            (400, {"error": {"message": "response_format is not supported"}})
            if "response_format" in body
            else completion(f"```json\n{GOOD}\n```")
        )
    ) as server:
        skills = annotate(server, [episode(won=True, attempt=a) for a in range(3)], concurrency=1)
    assert [s.status for s in skills] == ["ok_repaired"] * 3
    assert ["response_format" in body for body in server.bodies] == [True, False, False, False]


def test_a_request_bad_in_itself_does_not_turn_the_schema_off(episode: Episode) -> None:
    with serving(lambda number, body: (400, {"error": {}}) if number < 2 else completion(GOOD)) as server:
        skills = annotate(server, [episode(won=True, attempt=a) for a in range(2)], concurrency=1)
    assert [s.status for s in skills] == ["api_error", "ok"]
    assert ["response_format" in body for body in server.bodies] == [True, False, True]


def test_cut_and_odd_answers_are_classified(episode: Episode) -> None:
    replies = [
        completion(GOOD[:-20], "length"),
        completion(None),
        (200, {"choices": []}),
        (200, b"not json"),
        (401, {"error": {"message": f"bad key {KEY}"}}),
    ]
    with serving(lambda number, body: replies[number]) as server:
        skills = annotate(server, [episode(won=True, attempt=a) for a in range(len(replies))], concurrency=1)
    by_id = {skill.trajectory[-1]: skill for skill in skills}
    assert [by_id[str(a)].status for a in range(5)] == ["truncated", "no_json", "api_error", "api_error", "api_error"]
    assert by_id["0"].raw == GOOD[:-20]
    assert by_id["4"].raw == "AuthenticationError 401"
    assert len(server.bodies) == 5, "none of these is worth a second call"


def test_a_hanging_call_is_given_up_and_does_not_hold_the_others(episode: Episode) -> None:
    def script(number: int, body: dict[str, Any]) -> Reply | None:
        return (
            None if "failure" in body["messages"][0]["content"].split("episode_success: ")[1][:8] else completion(GOOD)
        )

    with serving(script) as server:
        skills = annotate(server, [episode(won=False), episode(won=True, attempt=1)], timeout_s=0.3, retries=1)
    assert [(s.trajectory, s.status) for s in skills] == [("v4/t1/1", "ok"), ("v4/t1/0", "api_error")]
    assert skills[1].raw == "APITimeoutError"


def test_nobody_listening(episode: Episode) -> None:
    with serving(lambda number, body: completion(GOOD)) as server:
        url = server.url
    (skill,) = OpenAIAnnotator("glm", url, retries=0).annotate([episode(won=True)])
    assert (skill.status, skill.raw) == ("api_error", "APIConnectionError")


def test_stopping_early_drops_the_calls_not_yet_made(episode: Episode) -> None:
    with serving(lambda number, body: completion(GOOD)) as server:
        skills = OpenAIAnnotator("glm", server.url, concurrency=1).annotate(
            [episode(won=True, attempt=a) for a in range(500)]
        )
        assert next(skills).valid
        skills.close()
        assert len(server.bodies) < 500


def test_key_comes_from_the_environment_and_is_nowhere_else(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    annotator = OpenAIAnnotator("glm", "http://127.0.0.1:9/v1", api_key_env="MY_KEY")
    monkeypatch.setenv("MY_KEY", KEY)
    assert KEY not in repr(annotator) and KEY not in str(vars(annotator))
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(UserError, match="MY_KEY"):
        list(annotator.annotate([episode(won=True)]))


def test_missing_extra_is_named(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(UserError, match=r"seedbed\[openai\]"):
        list(OpenAIAnnotator("glm", "http://127.0.0.1:9/v1").annotate([episode(won=True)]))
