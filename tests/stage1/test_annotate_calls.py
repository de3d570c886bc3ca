"""What is asked, what is made of every kind of answer, and what is asked again? (loopback HTTP, no mocks)"""

from __future__ import annotations

import json
import logging
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from chatserver import GOOD, Faulty, Reply, Server, completion, prompt_of, refusal, serving, skill_for
from collected import episode, episodes

from seedbed.config import AnnotateSettings
from seedbed.prompts.analyzer import answer_schema, standalone
from seedbed.skills.annotator.client import FORMATS, retry_after
from seedbed.skills.annotator.journal import Journal
from seedbed.skills.openai_annotator import OpenAIAnnotator
from seedbed.types import Skill, Trajectory, UserError

pytest.importorskip("openai", reason="the extra seedbed[openai] is not installed")
pytest.importorskip("tenacity", reason="the extra seedbed[openai] is not installed")

KEY = "sk-abc123SECRET"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def annotator(tmp_path: Path):
    """``annotator(server or url, **settings)`` over one journal."""
    open_ = []

    def make(server: Server | str, **settings: Any) -> OpenAIAnnotator:
        open_.append(Journal(tmp_path / "annotations.jsonl"))
        url = server if isinstance(server, str) else server.url
        values = {"model": "glm", "base_url": url, "concurrency": 4, **settings}
        return OpenAIAnnotator(AnnotateSettings(**values), open_[-1])

    yield make
    for journal in open_:
        journal.close()


def attempt_of(skills: list[Skill]) -> dict[int, Skill]:
    return {int(skill.trajectory.rpartition("/")[2]): skill for skill in skills}


def test_one_call_per_trajectory_with_the_schema_and_the_whole_lineage(annotator) -> None:
    trajectories = [episode(a, won=a % 2 == 0) for a in range(20)]
    with serving(lambda number, body: completion(GOOD)) as server:
        skills = list(annotator(server).annotate(trajectories))
    assert Counter(skill.trajectory for skill in skills) == Counter(t.id for t in trajectories)
    assert {(s.status, s.text, s.source, s.version) for s in skills} == {
        ("ok", "Open closed places before you give up.", "glm", 4)
    }
    assert Counter(s.kind for s in skills) == {"workflow": 10, "avoidance": 10}
    assert {prompt_of(body) for body in server.bodies} == {standalone(t).text for t in trajectories}
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("glm", 0.0, 4096)
    assert body["response_format"]["json_schema"]["schema"] == answer_schema()
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert server.keys == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (refusal(429, retry_after="0"), "rate_limit"),
        (refusal(500, retry_after="0"), "server_error"),
        (refusal(503, retry_after="0"), "server_error"),
        (Reply(how="close"), "connection"),
        (Reply(body=completion(GOOD).body, how="cut"), "connection"),
        (Reply(status=500, body={"error": "x" * 500}, how="cut"), "connection"),
        (Reply(body=json.dumps(completion(GOOD).body).encode()[:-9]), "bad_body"),
        (Reply(body=b"\xff\xfe"), "bad_body"),
        (Reply(body=b"[" * 100_000), "bad_body"),
        (Reply(body=b"  "), "empty_body"),
        (Reply(body={"error": {"message": "overloaded", "code": 1305}}), "error_object"),
        (Reply(body={"choices": []}), "no_choices"),
        (Reply(body={"choices": [{"text": "not a chat"}]}), "no_choices"),
        (Reply(body=b"null"), "no_choices"),
    ],
)
def test_a_fault_has_a_class_and_is_asked_again(annotator, fault: Reply, cause: str) -> None:
    with serving(lambda number, body: fault if number == 0 else completion(GOOD)) as server:
        work = annotator(server)
        (skill,) = work.annotate([episode()])
    assert skill.status == "ok" and len(server.bodies) == 2
    assert (work.ledger.calls, work.ledger.answered, dict(work.ledger.faults)) == (2, 1, {cause: 1})
    assert not work.failed


@pytest.mark.parametrize(
    ("reply", "status", "raw"),
    [
        (completion(GOOD, "length"), "ok", GOOD),  # complete before the limit
        (completion(GOOD[:-20], "length"), "truncated", GOOD[:-20]),
        (
            completion("", "length", reasoning_content=GOOD),
            "truncated",
            "",
        ),  # all spent on reasoning, which is no answer
        (completion(None), "no_json", ""),
        (completion(None, reasoning_content=GOOD), "no_json", ""),
        (completion(GOOD, reasoning_content='{"episode_skill": "a draft of it"}'), "ok", GOOD),
        (
            completion([{"type": "text", "text": GOOD[:30]}, {"type": "text", "text": GOOD[30:]}, {"type": "x"}]),
            "ok",
            GOOD,
        ),
        (completion(7), "no_json", ""),
        (completion("", "content_filter"), "refused", ""),
        (completion(None, refusal="I can not help with that."), "refused", ""),
        (completion(GOOD, finish=None), "ok", GOOD),  # type: ignore[arg-type]
        (completion("{'episode_skill': 'Take the mug'"), "truncated", "{'episode_skill': 'Take the mug'"),
    ],
)
def test_an_answer_is_read_for_what_it_is(annotator, reply: Reply, status: str, raw: str) -> None:
    with serving(lambda number, body: reply) as server:
        (skill,) = annotator(server, parse_attempts=1).annotate([episode()])
    assert (skill.status, skill.raw, skill.valid) == (status, raw, status == "ok")
    assert len(server.bodies) == 1


def test_an_answer_that_does_not_parse_is_asked_for_anew_and_kept(annotator, tmp_path: Path) -> None:
    texts = ["Let me think.", "{}", GOOD, GOOD]
    with serving(lambda number, body: completion(texts[number])) as server:
        work = annotator(server, parse_attempts=3)
        (skill,) = work.annotate([episode()])
    assert skill.status == "ok" and len(server.bodies) == 3 and work.ledger.again == 2
    kept = [json.loads(line) for line in (tmp_path / "annotations.jsonl").read_text().splitlines()]
    assert [row["answer"] for row in kept if row["event"] == "end"] == texts[:3]
    assert len({row["request"] for row in kept}) == 3, "the attempt is part of the address"


def test_the_last_answer_stands_when_none_parses(annotator) -> None:
    with serving(lambda number, body: completion(["{}", "Well."][number])) as server:
        (skill,) = annotator(server, parse_attempts=2).annotate([episode()])
    assert (skill.status, skill.raw) == ("no_json", "Well.")


def test_trajectories_with_the_same_prompt_share_one_answer(annotator) -> None:
    trajectories = [
        episode(0, goal="same"),
        episode(1, goal="same"),
        episode(2, goal="other"),
        episode(3, False, "same"),
    ]
    with serving(Faulty(share=0, unparsable=10**9)) as server:
        skills = list(annotator(server).annotate(trajectories))
    assert len(server.bodies) == 3
    assert {s.trajectory: s.text for s in skills} == {t.id: skill_for(standalone(t).text) for t in trajectories}


def test_what_the_journal_holds_is_not_asked_for(annotator) -> None:
    with serving(lambda number, body: completion(GOOD)) as server:
        list(annotator(server).annotate(episodes(3)))
        assert len(list(annotator(server).annotate(episodes(5)))) == 5
        assert len(server.bodies) == 5
        list(annotator(server, temperature=0.5).annotate(episodes(5)))  # other sampling, other answers
        assert len(server.bodies) == 10


@pytest.mark.parametrize("offered", [1, 2])
def test_the_strictest_format_that_the_server_offers_is_kept(annotator, offered: int) -> None:
    def script(number: int, body: dict[str, Any]) -> Reply:
        place = FORMATS.index(body.get("response_format"))
        return (
            refusal(400, "response_format is not supported") if place < offered else completion(f"```json\n{GOOD}\n```")
        )

    with serving(script) as server:
        work = annotator(server, concurrency=1)
        skills = list(work.annotate(episodes(3)))
    assert [s.status for s in skills] == ["ok_repaired"] * 3
    places = [FORMATS.index(body.get("response_format")) for body in server.bodies]
    assert places == [*range(offered), offered, offered, offered]
    assert work.ledger.faults == {"bad_request": offered} and not work.ledger.uncertain_in


def test_one_prompt_that_is_too_long_costs_no_other_its_answer_or_format(annotator) -> None:
    def script(number: int, body: dict[str, Any]) -> Reply:
        return refusal(400, "context of 9 tokens exceeded") if "mug 000" in prompt_of(body) else completion(GOOD)

    with serving(script) as server:
        work = annotator(server, concurrency=1)
        skills = list(work.annotate(episodes(4)))
    assert sorted(attempt_of(skills)) == [1, 2, 3] and work.failed == {"bad_request": 1}
    assert work.details == {"400, it says: context of 9 tokens exceeded"}
    assert "response_format" in server.bodies[-1]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (refusal(401, f"bad key {KEY}"), "refuses the API key in OPENAI_API_KEY"),
        (refusal(403), "refuses the API key"),
        (refusal(402, "no money"), "wants to be paid first .402, it says: no money"),
        (refusal(404, f"model glm not found, {KEY}"), r"no model 'glm' .* it says: model glm not found, \[api key\]"),
        (Reply(404, b"<html>"), "knows no model 'glm'"),
        (Reply(307, {}, {"location": "http://127.0.0.1:1/v1/chat/completions"}), "has moved"),
        (refusal(400, f"no such field, {KEY}"), r"refuses the requests \(400, it says: no such field, \[api key\]"),
        (Reply(422, {"detail": "Unexpected fields"}), "422, it says: Unexpected fields"),
    ],
)
def test_what_no_other_call_would_mend_stops_at_once(annotator, reply: Reply, words: str) -> None:
    with serving(lambda number, body: reply) as server:
        work = annotator(server, concurrency=2)
        with pytest.raises(UserError, match=words) as caught:
            list(work.annotate(episodes(200)))
    assert len(server.bodies) <= 3 * (3 + 1) and KEY not in str(caught.value) and "\n" not in str(caught.value)


def test_a_dead_server_is_not_asked_200_times(annotator) -> None:
    with serving(lambda number, body: completion(GOOD)) as server:
        url = server.url
    work = annotator(url, retries=0, concurrency=4)
    with pytest.raises(UserError, match=r"10 trajectories in a row got no answer \(the last one: unreachable\)"):
        list(work.annotate(episodes(200)))
    assert 10 <= work.ledger.calls <= 13 and not work.ledger.uncertain_in, "no connection, nothing to pay"


def test_retries_end_and_the_others_go_on(annotator, caplog: pytest.LogCaptureFixture) -> None:
    def script(number: int, body: dict[str, Any]) -> Reply:
        return refusal(429, retry_after="0") if "mug 000" in prompt_of(body) else completion(GOOD)

    with serving(script) as server:
        work = annotator(server, retries=2)
        skills = list(work.annotate(episodes(3)))
    assert sorted(attempt_of(skills)) == [1, 2] and work.failed == {"rate_limit": 1} and len(server.bodies) == 5
    assert "v4/t1/0 failed: rate_limit" in caplog.text


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_call_has_an_end_however_the_server_delays_it(annotator, how: str) -> None:
    def script(number: int, body: dict[str, Any]) -> Reply:
        return Reply(body=completion(GOOD).body, how=how) if "mug 000" in prompt_of(body) else completion(GOOD)

    with serving(script) as server:
        work = annotator(server, timeout_s=0.4, retries=1)
        skills = list(work.annotate(episodes(2)))
    assert list(attempt_of(skills)) == [1] and work.failed == {"timeout": 1} and work.ledger.faults == {"timeout": 2}


def test_the_wait_that_the_server_asks_for_holds_for_every_thread(annotator) -> None:
    with serving(lambda number, body: refusal(429, retry_after="1") if number == 0 else completion(GOOD)) as server:
        skills = list(annotator(server, concurrency=1).annotate(episodes(2)))
    assert len(skills) == 2
    assert server.arrivals[1] - server.arrivals[0] > 0.95, "the backoff alone is at most half a second"


def test_retry_after_is_seconds_or_a_date() -> None:
    assert [retry_after(value) for value in ("0", "7", "0.5", "", "soon", "-3")] == [0.0, 7.0, 0.5, None, None, None]
    later = retry_after(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))
    assert later and 3500 < later <= 3600
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


def test_stopping_early_drops_the_calls_not_yet_made(annotator) -> None:
    with serving(lambda number, body: completion(GOOD)) as server:
        skills = annotator(server, concurrency=1).annotate(episodes(300))
        assert next(skills).valid
        skills.close()
        assert len(server.bodies) < 300


def test_a_stop_waits_for_what_is_in_flight(annotator) -> None:
    with serving(lambda number, body: completion(GOOD)) as server:
        work, have = annotator(server), []
        for skill in work.annotate(episodes(300), lambda: len(have) > 5):
            have.append(skill)
        assert 5 < len(have) < 300 and len(have) == len(server.sent) == work.ledger.answered
        assert work.ledger.faults == {}


def test_missing_extra_address_and_key_are_named(tmp_path: Path, annotator, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="annotate.base_url or OPENAI_BASE_URL.*--by rules"):
        annotator("")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(UserError, match="OPENAI_API_KEY holds no API key"):
        annotator("http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(UserError, match=r"seedbed\[openai\]"):
        annotator("http://127.0.0.1:9/v1")


def test_a_bug_is_not_taken_for_a_bad_server(annotator) -> None:
    odd = [Trajectory(**{**{f: getattr(episode(), f) for f in episode().__dataclass_fields__}, "goal": "x\ud800"})]
    with serving(lambda number, body: completion(GOOD)) as server:
        work = annotator(server, retries=0)
        assert list(work.annotate(odd)) == []
    assert work.failed.keys() <= {"UnicodeEncodeError"} and logging.getLogRecordFactory() is logging.LogRecord
