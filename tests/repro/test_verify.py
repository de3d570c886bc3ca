"""``seedbed repro verify``: what changes results is told apart from what is a fact of the machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seedbed.commands.repro import app
from seedbed.config import load_config
from seedbed.envs.panels import load_panel
from seedbed.evaluate.run import summarise
from seedbed.repro.verify import verify
from seedbed.track.run import Run
from seedbed.train.model import load_renderer, model_facts

SMALL = ["env.train_split=generated_valid", "env.panel=household-120"]


def played(panel: str) -> dict[str, Any]:
    """A result in which every second task was won."""
    listed = load_panel(panel)
    episodes = [
        {"task": t.id, "kind": t.kind, "attempt": 0, "won": i % 2 == 0, "turns": 4, "invalid": 0, "stop": "won"}
        for i, t in enumerate(listed.tasks)
    ]
    return {"panel": panel, "episodes": episodes, "summary": {**summarise(episodes), "entropy": None}}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    config = load_config("tiny", SMALL)
    run = Run.new(tmp_path_factory.mktemp("verify") / "run")
    run.begin(config, "train", **model_facts(config.model, load_renderer(config.model)))
    run.write_json("eval/u0001.json", played("household-120"))
    return run.path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    shutil.copytree(made, tmp_path / "run")
    return Run.open(tmp_path / "run")


def change(run: Run, edit: Callable[[dict[str, Any]], Any]) -> None:
    manifest = run.manifest
    edit(manifest)
    run.write_json("manifest.json", manifest)


def differing(run: Run) -> list[str]:
    return [check.what for check in verify(run) if check.state == "differs"]


def test_on_the_same_machine_everything_is_the_same(run: Run) -> None:
    checks = verify(run)
    assert {check.state for check in checks} == {"same"}
    what = {check.what for check in checks if check.matters}
    assert {"settings of the run", "code", "chat template", "model: tokenizer.json", "panel", "training tasks"} <= what
    assert "scores of eval/u0001.json" in what and "model: model.safetensors" in what


@pytest.mark.parametrize(
    ("what", "edit"),
    [
        ("code", lambda m: m["code"].update(tree="0" * 64)),
        ("chat template", lambda m: m.update(template_hash="other")),
        ("model: tokenizer.json", lambda m: m["model"].update({"tokenizer.json": "0" * 64})),
        ("model: model.safetensors", lambda m: m["model"].update({"model.safetensors": "0" * 64})),
        ("panel", lambda m: m["data"]["panel"].update(hash="0" * 64)),
        ("training tasks", lambda m: m["data"]["train"].update(ids="0" * 64)),
        ("results taken to be the paper's", lambda m: m["paper"].update(tables="0" * 64)),
    ],
)
def test_what_changes_results_is_one_row_and_status_1(run: Run, what: str, edit: Callable) -> None:
    change(run, edit)
    assert differing(run) == [what]
    answer = CliRunner().invoke(app, ["verify", str(run.path), "--json"])
    assert answer.exit_code == 1
    assert [row["what"] for row in json.loads(answer.stdout) if row["state"] == "differs"] == [what]


def test_another_machine_is_listed_and_status_0(run: Run) -> None:
    def elsewhere(m: dict[str, Any]) -> None:
        m["python"] = "3.99.0"
        m["machine"] |= {"gpus": ["A GPU"], "driver": "1.2", "cuda": "99.9"}
        m["packages"] |= {"numpy": "0.0.1", "a-package-of-theirs": "1.0"}

    change(run, elsewhere)
    checks = {check.what: check for check in verify(run) if check.state != "same"}
    assert checks.keys() == {"Python", "gpus", "driver", "cuda", "package numpy", "package a-package-of-theirs"}
    assert checks["package a-package-of-theirs"].state == "not here"
    assert not any(check.matters for check in checks.values())
    assert CliRunner().invoke(app, ["verify", str(run.path)]).exit_code == 0


def test_a_score_that_its_episodes_do_not_give_is_found(run: Run) -> None:
    path = run.path / "eval" / "u0001.json"
    result = json.loads(path.read_text())
    result["episodes"][1]["won"] = True
    path.write_text(json.dumps(result))
    assert differing(run) == ["scores of eval/u0001.json"]


def test_edited_settings_are_found_and_the_comparison_is_made_again(run: Run) -> None:
    path = run.path / "config.resolved.yaml"
    path.write_text(path.read_text().replace("kl_coefficient: 0.01", "kl_coefficient: 0.5"))
    assert differing(run) == ["settings of the run", "comparison with the paper"]


def test_a_model_that_is_not_here_is_no_difference(run: Run) -> None:
    path = run.path / "config.resolved.yaml"
    path.write_text(path.read_text().replace("path: tiny", "path: nowhere"))
    states = {check.what: check.state for check in verify(run)}
    assert states["model: tokenizer.json"] == states["chat template"] == "not here"
    assert "model: tokenizer.json" not in differing(run)


def test_a_manifest_of_an_older_version_is_not_recorded_rather_than_the_same(run: Run) -> None:
    run.write_json("manifest.json", {"kind": "train", "seed": 0})
    states = {check.what: check.state for check in verify(run)}
    assert states["code"] == states["settings of the run"] == "not recorded" and "Python" in states
