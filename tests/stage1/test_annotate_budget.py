"""Does a budget hold as far as it is promised, is the account right, and a run that stopped gone on with to the end?"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from chatserver import GOOD, Faulty, Reply, completion, prompt_of, refusal, serving, skill_for
from collected import collected, episode, episodes

from seedbed.commands import stage1
from seedbed.config import AnnotateSettings, Config, load_config
from seedbed.prompts.analyzer import standalone
from seedbed.skills.annotator.journal import Journal, only_one
from seedbed.skills.annotator.ledger import Ledger
from seedbed.track.run import Run
from seedbed.track.store import read_jsonl, read_skills
from seedbed.train import annotate
from seedbed.train.interrupt import Stopped
from seedbed.types import UserError

pytest.importorskip("openai", reason="the extra seedbed[openai] is not installed")
pytest.importorskip("tenacity", reason="the extra seedbed[openai] is not installed")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abc123SECRET")


def settings(url: str, **values: Any) -> Config:
    chosen = {"model": "glm", "base_url": url, "concurrency": 4, **values}
    return load_config(None, [f"annotate.{name}={json.dumps(value)}" for name, value in chosen.items()])


def account(run: Run) -> dict[str, Any]:
    return json.loads((run.path / "annotate.json").read_text())


def test_a_token_budget_by_hand(tmp_path: Path) -> None:
    """Calls one after the other, 100 tokens in and 50 out each, at most 50 out. The first reserves a token a byte, the
    others 1.5 x 100 + 64 + 50: the twelfth ends at 1,800 and a thirteenth could end at 2,064.
    """
    run, size = collected(tmp_path / "run", episodes(40)), len(standalone(episode()).text.encode())
    assert size + 64 + 50 < 2000, "the first call has room"
    with serving(lambda number, body: completion(GOOD, tokens=(100, 50))) as server:
        tight = settings(server.url, concurrency=1, max_new_tokens=50, budget_tokens=2050)
        with pytest.raises(
            Stopped, match=r"12 of 40 trajectories are annotated, 12 calls.*raise annotate.budget_tokens"
        ):
            annotate.annotate(run, tight, "openai")
        assert account(run)["tokens"] == {"in": 1200, "out": 600} and len(server.bodies) == 12
        with pytest.raises(Stopped):
            annotate.annotate(run, tight, "openai")
        assert len(server.bodies) == 12, "the budget is the run's, not the process's"
        annotate.annotate(run, settings(server.url, max_new_tokens=50, budget_tokens=7000), "openai")
    assert len(server.bodies) == 40 and account(run)["tokens"] == {"in": 4000, "out": 2000}


@pytest.mark.parametrize("seed", range(3))
def test_a_budget_of_money_holds_whatever_fails_and_whatever_is_in_flight(tmp_path: Path, seed: int) -> None:
    """Dollars by an independent count: what was answered, and all that a lost answer could have cost."""
    budget = [0.02, 0.03, 0.04][seed]
    ways = Faulty(0.4)

    def script(number: int, body: dict[str, Any]) -> Reply:
        reply = ways(number, body)
        return Reply(how="close") if reply.how == "hang" else reply

    run = collected(tmp_path / "run", [episode(a, goal=f"{seed} {a}") for a in range(60)])
    with serving(script) as server, pytest.raises(Stopped, match="the budget has no room"):
        config = settings(server.url, max_new_tokens=60, budget_usd=budget, price_in=2.0, price_out=30.0, retries=20)
        annotate.annotate(run, config, "openai")
    rows = list(read_jsonl(run.path / "annotations.jsonl"))
    most = {row["call"]: (row["most_in"], row["most_out"]) for row in rows if row["event"] == "begin"}
    dollars = 0.0
    for row in rows:
        if row["event"] == "end" and row["status"] not in ("rate_limit", "unreachable"):
            tokens = (100, 50) if row["status"] == "answered" else most[row["call"]]
            dollars += (2.0 * tokens[0] + 30.0 * tokens[1]) / 1e6
    assert account(run)["cost_usd"] == pytest.approx(dollars, abs=1e-6)
    assert budget - 0.004 < dollars <= budget, "close to it, never beyond"
    assert account(run)["annotated"] == len(read_skills(run.skills)) > 0


def test_a_budget_of_money_needs_prices(tmp_path: Path) -> None:
    run = collected(tmp_path / "run", episodes(2))
    with pytest.raises(UserError, match="annotate.budget_usd needs annotate.price_in and price_out"):
        annotate.annotate(run, settings("http://127.0.0.1:9/v1", budget_usd=1.0), "openai")


def test_a_server_that_counts_no_tokens_is_charged_the_most(tmp_path: Path) -> None:
    run = collected(tmp_path / "run", episodes(3))
    with serving(lambda number, body: completion(GOOD)) as server:
        annotate.annotate(run, settings(server.url, max_new_tokens=10), "openai")
    most = len(standalone(episode()).text.encode()) + 64
    assert account(run)["tokens"] == {"in": 3 * most, "out": 30}
    assert account(run)["answers_without_token_counts"] == 3 and account(run)["cost_usd"] is None


def test_calls_of_a_killed_process_count_as_charged(tmp_path: Path) -> None:
    path = tmp_path / "annotations.jsonl"
    journal = Journal(path)
    ledger = Ledger(AnnotateSettings())
    for attempt in range(2):
        row = journal.begin(request=f"r{attempt}", trajectory="t", attempt=0, bytes=10, most_in=74, most_out=4096)
        ledger.begun(row)
    ledger.ended(journal.end(row, "rate_limit"))
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"event": "begin", "call": 2, "requ')  # killed while it wrote: this call was never made
    again = Ledger(AnnotateSettings(), Journal(path).rows)
    assert (again.calls, again.answered, dict(again.faults)) == (2, 0, {"rate_limit": 1, "killed": 1})
    assert (again.uncertain_in, again.uncertain_out) == (74, 4096)


def test_an_answer_torn_by_a_power_cut_is_asked_for_again_and_no_other(tmp_path: Path) -> None:
    run, faulty = collected(tmp_path / "run", episodes(12)), Faulty(share=0, unparsable=10**9)
    with serving(faulty) as server:
        annotate.annotate(run, settings(server.url), "openai")
        journal = run.path / "annotations.jsonl"
        journal.write_bytes(journal.read_bytes()[:-40])
        run.skills.unlink()  # made from the journal again
        annotate.annotate(run, settings(server.url), "openai")
    assert len(server.bodies) == 13 and account(run)["faults"] == {"killed": 1}
    wanted = {t.id: skill_for(standalone(t).text) for t in episodes(12)}
    assert {s.trajectory: s.text for s, _ in read_skills(run.skills)} == wanted


@pytest.mark.parametrize(
    ("told", "most_in"),
    [(None, 264), (20, 94), (100, 214), (160, 264), (300, 364)],
)
def test_a_prompt_is_reserved_with_a_margin(told: int | None, most_in: int) -> None:
    """Of 200 bytes, after ``told`` tokens were charged for 200: 64 and 1.5 x that, at most a token a byte (1.5 x 160
    stops at 200); where more than a token a byte was charged, just that.
    """
    ledger, reserved = Ledger(AnnotateSettings(max_new_tokens=7)), []

    def note(most_in: int, most_out: int) -> dict[str, Any]:
        reserved.append((most_in, most_out))
        return {"call": len(reserved), "attempt": 0, "bytes": 200, "most_in": most_in, "most_out": most_out}

    if told is not None:
        row = ledger.admit(200, lambda: False, note)
        ledger.ended({**row, "status": "answered", "tokens_in": told, "tokens_out": 1})
    ledger.admit(200, lambda: False, note)
    assert reserved[-1] == pytest.approx((most_in, 7), abs=1)


@pytest.mark.parametrize(("status", "charged"), [(500, True), (504, True), (503, True), (408, True), (429, False)])
def test_an_error_of_the_server_may_be_charged_and_a_rate_limit_is_not(
    tmp_path: Path, status: int, charged: bool
) -> None:
    run, size = collected(tmp_path / "run", episodes(1)), len(standalone(episode()).text.encode())
    with serving(lambda n, _: completion(GOOD, tokens=(9, 3)) if n else refusal(status, retry_after="0")) as server:
        annotate.annotate(run, settings(server.url, max_new_tokens=50), "openai")
    expected = {"in": size + 64, "out": 50} if charged else {"in": 0, "out": 0}
    assert account(run)["tokens_maybe_charged"] == expected and account(run)["tokens"] == {"in": 9, "out": 3}


CALL = {"call": 0, "request": "r", "trajectory": "t", "attempt": 0}
BEGIN = {"event": "begin", **CALL, "bytes": 9, "most_in": 73, "most_out": 50}
END = {
    "event": "end",
    **CALL,
    "status": "answered",
    "answer": "{}",
    "finish": "stop",
    "tokens_in": 9,
    "tokens_out": None,
}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"trajectory": "t"}], "line 1 lacks event begin or end"),
        ([BEGIN, {k: v for k, v in END.items() if k != "answer"}], "line 2 lacks answer"),
        ([BEGIN, {k: v for k, v in END.items() if k not in ("finish", "tokens_in")}], "line 2 lacks finish, tokens_in"),
        ([END], "line 1 ends call 0, which never began"),
        ([BEGIN, END, END], "line 3 is a second end of call 0"),
        ([BEGIN, BEGIN], "line 2 is a second begin of call 0"),
        ([BEGIN, ["end"]], "line 2 is no JSON object"),
        ([BEGIN, 7], "line 2 is no JSON object"),
        ([BEGIN, None, END], "line 2 is no JSON object"),
        ([{**BEGIN, "event": ["begin"]}], "line 1 lacks event begin or end"),
        ([{**BEGIN, "call": [0]}], r"line 1 has call '\[0\]'"),
        ([{**BEGIN, "most_in": "73"}], "line 1 has most_in '73'"),
        ([BEGIN, {**END, "answer": None}], "line 2 has answer 'None'"),
        ([BEGIN, {**END, "tokens_in": -1}], "line 2 has tokens_in '-1'"),
    ],
)
def test_a_damaged_journal_is_named_with_its_line_and_the_way_out(tmp_path: Path, rows: list[Any], words: str) -> None:
    path = tmp_path / "annotations.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        UserError, match=f"annotations.jsonl is no journal of seedbed annotate: {words}; take that line"
    ):
        Journal(path)


def test_a_sound_journal_is_read_and_empty_lines_count_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "annotations.jsonl"
    path.write_text(f"{json.dumps(BEGIN)}\n\n{json.dumps(END)}\n")
    journal = Journal(path)
    assert journal.answers["r"].text == "{}" and Ledger(AnnotateSettings(), journal.rows).answered == 1
    journal.close()
    path.write_text(f"{json.dumps(BEGIN)}\n\n7\n")
    with pytest.raises(UserError, match="line 3 is no JSON object"):
        Journal(path)


def test_ctrl_c_keeps_every_answer_that_was_paid(tmp_path: Path) -> None:
    run = collected(tmp_path / "run", episodes(60))

    def interrupt(done: int, total: int, valid: int) -> None:
        if done == 10:
            os.kill(os.getpid(), signal.SIGINT)

    with serving(lambda number, body: completion(GOOD, tokens=(1, 1))) as server:
        with pytest.raises(Stopped, match=r"stopped after \d+ of 60 skills; run the same command again"):
            annotate.annotate(run, settings(server.url), "openai", interrupt)
        kept = len(read_skills(run.skills))
        assert 10 <= kept < 60 and kept == len(server.sent) == account(run)["paid_calls"]
        annotate.annotate(run, settings(server.url), "openai")
    assert len(server.bodies) == 60 == account(run)["annotated"] and account(run)["faults"] == {}


def test_a_second_ctrl_c_waits_for_nobody(tmp_path: Path) -> None:
    run = collected(tmp_path / "run", episodes(4))
    pressed = threading.Event()

    def script(number: int, body: dict[str, Any]) -> Reply:
        if not pressed.is_set():
            pressed.set()
            for delay in (0.1, 0.6):
                threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        return Reply(how="hang")  # ten seconds, and the client would wait for thirty

    with serving(script) as server, pytest.raises(KeyboardInterrupt):
        annotate.annotate(run, settings(server.url, timeout_s=30), "openai")
    assert account(run)["annotated"] == 0


def test_two_processes_do_not_annotate_one_run(tmp_path: Path) -> None:
    run = collected(tmp_path / "run", episodes(2))
    with only_one(run.path / "annotate.lock"), pytest.raises(UserError, match="annotated by another process"):
        annotate.annotate(run, settings("http://127.0.0.1:9/v1"), "openai")


def test_the_report_counts_every_class(tmp_path: Path) -> None:
    run, texts = (
        collected(tmp_path / "run", episodes(4)),
        {"0": GOOD, "1": "{}", "2": "Hm.", "3": '{"episode_skill": "a'},
    )
    with serving(lambda number, body: completion(texts[prompt_of(body).split("put mug 00")[1][0]])) as server:
        summary = annotate.annotate(run, settings(server.url, parse_attempts=1), "openai")
    assert summary == account(run)
    assert summary["statuses"] == {"ok": 1, "empty": 1, "no_json": 1, "truncated": 1} and summary["parse_rate"] == 0.25


def test_the_command_takes_model_and_address_from_where_they_were_named_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = tmp_path / "mine.yaml"
    with serving(lambda number, body: completion(GOOD, tokens=(100, 50))) as server:
        preset.write_text(f"annotate: {{by: openai, model: of-preset, base_url: '{server.url}', price_in: 10}}\n")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv("OPENAI_MODEL", "of-environment")
        for number, (options, asked) in enumerate(
            [
                ({"config": str(preset)}, "of-preset"),
                ({"base_url": server.url}, "of-environment"),
                ({"config": str(preset), "model": "of-option"}, "of-option"),
                ({"config": str(preset), "model": "x", "overrides": ["annotate.model=of-override"]}, "of-override"),
            ]
        ):
            run = collected(tmp_path / f"run{number}", episodes(1))
            stage1.annotate(run.path, **options)
            assert server.bodies[-1]["model"] == asked == account(run)["author"]
    assert "1 of 1 trajectories annotated: 1 ok" in capsys.readouterr().out
    assert account(Run.open(tmp_path / "run0"))["cost_usd"] == 0.001
    preset.write_text("sft: {epochs: 1}\n")
    with pytest.raises(UserError, match="sets nothing in its section annotate"):
        stage1.annotate(run.path, config=str(preset))


def test_the_glm_preset_is_the_papers_annotator() -> None:
    chosen = load_config("annotate-glm").annotate
    assert (chosen.by, chosen.model, chosen.temperature, chosen.max_new_tokens) == ("openai", "glm-5.2", 0.0, 4096)
    assert chosen.base_url.startswith("https://")
