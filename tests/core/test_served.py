"""A policy behind a server plays the same episodes as in process; a server that refuses or dies is never silent."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from corehelp import Corridor

from seedbed.config import ModelSettings, RolloutSettings
from seedbed.engines.base import Request, Sampling
from seedbed.engines.scripted import ScriptedEngine
from seedbed.engines.served import ServedEngine
from seedbed.rollout import collect_groups
from seedbed.types import Message, UserError

pytest.importorskip("openai")


class Server(ThreadingHTTPServer):
    """Completions on loopback. ``says(prompt text)`` is the policy; ``form`` is ids or text; ``faults`` come first."""

    daemon_threads = True

    def __init__(self, renderer, says, form: str, faults: tuple[int, ...] = ()):
        super().__init__(("127.0.0.1", 0), Handler)
        self.renderer, self.says, self.form, self.faults = renderer, says, form, list(faults)
        self.asked: list[dict] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.asked.append(body)
        if server.faults:
            return self.answer(server.faults.pop(0), {"error": {"message": "later"}})
        prompt, tokenizer = body["prompt"], server.renderer.tokenizer
        if isinstance(prompt, list) and server.form == "text":
            return self.answer(400, {"error": {"message": "prompt must be a string"}})
        text = tokenizer.decode(prompt) if isinstance(prompt, list) else prompt
        reply = server.says(text)
        ids = tokenizer.encode(reply, add_special_tokens=False)[: body["max_tokens"]]
        cut = len(ids) == body["max_tokens"]
        choice = {"index": 0, "text": tokenizer.decode(ids), "finish_reason": "length" if cut else "stop"}
        if server.form == "ids":
            choice["token_ids"] = [*ids, *([] if cut else [server.renderer.stop_id])]
        return self.answer(
            200, {"id": "x", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}
        )

    def answer(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def says(prompt: str) -> str:
    return f"<action>say {len(prompt) % 7}</action>"


def served(renderer, **options) -> tuple[ServedEngine, Server]:
    server = Server(renderer, options.pop("says", says), options.pop("form", "ids"), options.pop("faults", ()))
    return ServedEngine(renderer, ModelSettings(path="tiny", server=server.url, served_name="m")), server


@pytest.mark.parametrize("form", ["ids", "text"])
def test_episodes_are_those_of_the_same_policy_in_process(renderer, form):
    engine, server = served(renderer, form=form)
    settings = RolloutSettings(layout="transcript", max_turns=4, max_new_tokens=64, max_prompt_tokens=4000, think=False)
    played = []
    for each in (engine, ScriptedEngine(renderer, lambda prompt, *_: says(prompt))):
        world = Corridor()
        groups = collect_groups(each, world, renderer, settings, world.tasks("train")[:2], 3, seed=0)
        played.append([t for group in groups for t in group.attempts_G])
    for ours, theirs in zip(*played, strict=True):
        assert (ours.id, ours.stop, len(ours.turns_K)) == (theirs.id, theirs.stop, len(theirs.turns_K))
        for a, b in zip(ours.turns_K, theirs.turns_K, strict=True):
            assert a.prompt_ids_T.tolist() == b.prompt_ids_T.tolist()
            assert a.response_ids_T.tolist() == b.response_ids_T.tolist()
            assert np.isnan(a.logprobs_T).all(), "a server's log-probs are never taken for the sampler's"
    refused = sum(isinstance(body["prompt"], list) for body in server.asked) if form == "text" else 0
    assert refused <= 6, "ids are not offered again and again to a server that refuses them"


def request(renderer, content: str, seed: int = 5) -> Request:
    return Request(renderer.open([Message("user", content)]).ids_T, seed, 0)


def test_a_cut_answer_is_cut_and_seeds_are_sent(renderer):
    engine, server = served(renderer, says=lambda _: "x" * 50)
    cut, whole = engine.generate([request(renderer, "a", 7), request(renderer, "b", 7 + (1 << 31))], Sampling(0.5, 10))[
        :2
    ]
    assert (cut.finish, len(cut.ids_T)) == (whole.finish, len(whole.ids_T)) == ("length", 10)
    assert {body["seed"] for body in server.asked} == {7} and {body["temperature"] for body in server.asked} == {0.5}


def test_text_that_would_become_a_control_token_is_refused_not_sent(renderer):
    engine, server = served(renderer, form="text")
    with pytest.raises(UserError, match="control tokens written as text"):
        engine.generate([request(renderer, "now <|im_end|> ends")], Sampling())
    assert all(isinstance(body["prompt"], list) for body in server.asked)
    safe, _ = served(renderer, form="ids")
    assert safe.generate([request(renderer, "now <|im_end|> ends")], Sampling())[0].finish == "stop"


def test_passing_faults_are_tried_again_and_lasting_ones_are_said(renderer, monkeypatch):
    import tenacity

    monkeypatch.setattr(tenacity.nap.time, "sleep", lambda _: None)
    engine, server = served(renderer, faults=(500, 429, 503))
    assert engine.generate([request(renderer, "a")], Sampling())[0].finish == "stop"
    assert len(server.asked) == 4
    engine, server = served(renderer, faults=(401,))
    with pytest.raises(UserError, match=r"model\.server=http.*AuthenticationError 401"):
        engine.generate([request(renderer, "a")], Sampling())
    with pytest.raises(UserError, match="cannot be scored"):
        engine.score([])


@pytest.mark.parametrize(
    "body", [b"<html>", b"{", b'{"choices": []}', b'{"choices": [null]}', b'{"choices": [{"text": 3}]}']
)
def test_an_answer_that_is_no_completion_is_a_sentence(renderer, body, monkeypatch):
    def plain(self, status, _):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    monkeypatch.setattr(Handler, "answer", plain)
    engine, _ = served(renderer)
    with pytest.raises(UserError, match=r"model\.server=http.*failed for good"):
        engine.generate([request(renderer, "a")], Sampling())


def test_a_spelled_control_token_in_a_response_stays_text_and_a_filtered_answer_is_cut(renderer, monkeypatch):
    engine, _ = served(renderer, form="text", says=lambda _: "a <|im_end|> b")
    (completion,) = engine.generate([request(renderer, "a")], Sampling())
    assert completion.ids_T.tolist().count(renderer.stop_id) == 1 and completion.ids_T[-1] == renderer.stop_id
    assert renderer.content(completion.ids_T) == "a <|im_end|> b"
    whole = Handler.answer

    def filtered(self, status, body):
        whole(self, status, json.loads(json.dumps(body).replace("stop", "content_filter")))

    monkeypatch.setattr(Handler, "answer", filtered)
    assert engine.generate([request(renderer, "a")], Sampling())[0].finish == "length"


def test_an_address_with_a_key_in_it_is_refused_and_not_repeated():
    from seedbed.config import load_config

    for address in ("http://user:sk-secret@h/v1", "http://h/v1?key=sk-secret", "ftp://h"):
        with pytest.raises(UserError, match=r"model\.server must") as refused:
            load_config(None, [f"model.server={address}"])
        assert "sk-secret" not in str(refused.value)


def test_a_seed_that_fits_is_sent_as_it_is(renderer):
    engine, server = served(renderer)
    engine.generate([request(renderer, "a", 2**30 + 7)], Sampling())
    assert [body["seed"] for body in server.asked] == [2**30 + 7]
