"""Is nothing lost, doubled or paid for twice when annotation is killed over a server that fails in every way?"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from chatserver import Faulty, name_of, serving, skill_for
from collected import collected, episodes, seedbed

from seedbed.prompts.analyzer import standalone
from seedbed.track.store import read_jsonl, read_skills

pytest.importorskip("openai", reason="the extra seedbed[openai] is not installed")
pytest.importorskip("tenacity", reason="the extra seedbed[openai] is not installed")

KEY = "sk-abc123SECRET"
CONCURRENCY = 12
SETTINGS = ["annotate.retries=12", "annotate.timeout_s=1.5", f"annotate.concurrency={CONCURRENCY}"]


@pytest.fixture(scope="module")
def processes():
    """Processes that are forked from one which has loaded the libraries: loading takes longer than the test."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["seedbed.cli", "openai", "tenacity"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(p for p in __import__("sys").path if p))
        yield context


def test_two_kills_over_a_server_that_fails_three_times_in_ten(processes, tmp_path: Path) -> None:
    trajectories = episodes(200)
    run, log, faulty = collected(tmp_path / "run", trajectories), tmp_path / "log.txt", Faulty(0.3)
    answered_at_kill = []
    with serving(faulty) as server:
        arguments = ["annotate", str(run.path), "--by", "openai", "--model", "glm", "--base-url", server.url, *SETTINGS]
        for enough in (60, 130, None):
            process = processes.Process(
                target=seedbed, args=(arguments, {"OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1"}, str(log))
            )
            process.start()
            while enough and process.is_alive() and len(server.sent) < enough:
                time.sleep(0.005)
            if enough:
                process.kill()
            process.join()
            assert process.exitcode == (-9 if enough else 0), log.read_text()
            answered_at_kill.append(
                sum(r.get("status") == "answered" for r in read_jsonl(run.path / "annotations.jsonl"))
            )
    prompts = {t.id: standalone(t).text for t in trajectories}
    rows = list(read_jsonl(run.path / "annotations.jsonl"))
    account = json.loads((run.path / "annotate.json").read_text())

    # none lost, none doubled, none mixed up
    skills = [skill for skill, _ in read_skills(run.skills)]
    assert sorted(s.trajectory for s in skills) == sorted(prompts)
    assert {s.trajectory: s.text for s in skills} == {key: skill_for(prompt) for key, prompt in prompts.items()}

    # nothing is paid for twice: an answer in the journal is never followed by another call for it
    flawed = [p for p in prompts.values() if int(name_of(p), 16) % faulty.unparsable == 0]
    have: set[str] = set()
    for row in rows:
        if row["event"] == "begin":
            assert row["request"] not in have
        elif row["status"] == "answered":
            have.add(row["request"])
    ends = Counter(row["status"] for row in rows if row["event"] == "end")
    killed = sum(row["event"] == "begin" for row in rows) - ends.total()
    faults = {cause: count for cause, count in {**ends, "killed": killed}.items() if cause != "answered" and count}
    assert ends["answered"] == len(have) == 200 + account["asked_again_unparsed"] == account["paid_calls"]
    assert account["calls"] == account["paid_calls"] + sum(account["faults"].values())
    assert account["faults"] == faults and killed <= 2 * CONCURRENCY
    assert {"rate_limit", "server_error", "timeout", "connection", "bad_body", "empty_body", "error_object"} <= set(
        faults
    )
    assert 0 < account["asked_again_unparsed"] <= len(flawed)
    assert account["tokens"] == {"in": 100 * ends["answered"], "out": 50 * ends["answered"]}

    # the server saw the same: what it sent and the journal lacks was in flight at a kill (or came after the timeout)
    late = max(0, ends["timeout"] - faulty.hung)
    assert ends["answered"] <= len(server.sent) <= ends["answered"] + killed + late
    assert account["calls"] - killed <= len(server.bodies) <= account["calls"]
    assert 50 < answered_at_kill[0] < answered_at_kill[1] < answered_at_kill[2]

    for path in [*run.path.rglob("*"), log]:
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
    assert "200 of 200 trajectories annotated" in log.read_text()
