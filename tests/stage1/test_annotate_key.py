"""T16: the API key occurs in no file of a run and in no log, whatever the server says and whoever logs."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from chatserver import Reply, completion, prompt_of, refusal, serving
from collected import collected, episodes

from seedbed.config import Config, load_config, to_yaml
from seedbed.skills.annotator.secret import Secret, no_key_in_logs, read_key
from seedbed.track.store import read_skills
from seedbed.train import annotate
from seedbed.types import UserError

KEY = "sk-abc123SECRET"


def test_a_server_that_repeats_the_key_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("openai", reason="the extra seedbed[openai] is not installed")
    pytest.importorskip("tenacity", reason="the extra seedbed[openai] is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(sys, "argv", [*sys.argv, f"api_key={KEY}"])
    leaky = json.dumps({"episode_summary": KEY, "episode_skill": f"Never say {KEY} aloud."})

    def script(number: int, body: dict[str, Any]) -> Reply:
        if "mug 000" in prompt_of(body):
            return refusal(400, f"your key {KEY} is over its quota", x_key=KEY)
        if number % 4 == 0:
            return refusal(500, KEY, retry_after="0", x_key=KEY)
        return Reply(body=completion(leaky).body, headers={"x-key": f"Bearer {KEY}"})

    run = collected(tmp_path / "run", episodes(30))
    file = logging.FileHandler(run.path / "debug.log")
    logging.getLogger().addHandler(file)
    try:
        with serving(script) as server, caplog.at_level(logging.DEBUG), pytest.raises(UserError) as caught:
            config = load_config(None, [f"annotate.base_url={server.url}", "annotate.concurrency=3"])
            annotate.annotate(run, config, "openai")
    finally:
        logging.getLogger().removeHandler(file)
        file.close()
    assert server.keys == {f"Bearer {KEY}"}
    assert "1 of 30 trajectories got no answer (1 bad_request" in str(caught.value) and KEY not in str(caught.value)
    skills = [skill for skill, _ in read_skills(run.skills)]
    assert len(skills) == 29 and {s.text for s in skills} == {"Never say [api key] aloud."}
    logged = (run.path / "debug.log").read_text()
    assert "x-key" in logged and "[api key]" in logged, "the libraries did log the headers of answers"
    for text in (logged, caplog.text, *(p.read_text(errors="replace") for p in run.path.rglob("*") if p.is_file())):
        assert KEY not in text


def test_a_record_is_clean_whoever_made_it(caplog: pytest.LogCaptureFixture) -> None:
    secret, log = Secret(KEY), logging.getLogger("somebody.else")
    log.warning("before %s", KEY)
    assert KEY in caplog.text
    caplog.clear()
    with no_key_in_logs(secret):
        log.warning("plain %s", "text")
        log.warning("header %s", {"authorization": f"Bearer {KEY}"})
        log.warning("bytes %r and %s", f"Bearer {KEY}".encode(), 1)
        try:
            raise ValueError(f"bad header {KEY}")
        except ValueError:
            log.exception("failed")
    assert KEY not in caplog.text and caplog.text.count("[api key]") == 3
    assert "plain text" in caplog.text and "ValueError: bad header [api key]" in caplog.text
    assert KEY not in repr(secret) and KEY not in f"{secret}"


def test_a_dummy_key_hides_no_words() -> None:
    assert Secret("none").hide("There is none.") == "There is none."


@pytest.mark.parametrize("value", ["sk-abc123SECRET\nx", "schlüssel-SECRET"])
def test_a_damaged_key_is_named_not_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(UserError, match="the API key in MY_KEY has characters") as caught:
        read_key("MY_KEY")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "override",
    [
        f"annotate.api_key_env={KEY}",
        f"annotate.base_url=https://user:{KEY}@host/v1",
        f"annotate.base_url=https://{KEY}@host/v1",
        f"annotate.base_url=https://host/v1?key={KEY}",
        f"annotate.base_url={KEY}",
        f"annotate.api_key={KEY}",
    ],
)
def test_settings_take_no_key_and_do_not_repeat_it(override: str) -> None:
    with pytest.raises(UserError) as caught:
        load_config(None, [override])
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)


def test_the_settings_that_are_stored_name_the_variable_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert "api_key_env: OPENAI_API_KEY" in to_yaml(Config()) and KEY not in to_yaml(Config())
