"""A manifest is of one form, says what a run stands on, and says nothing of the user's environment."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from seedbed.config import load_config
from seedbed.repro import here
from seedbed.repro.data import hash_of
from seedbed.repro.manifest import check, schema_text
from seedbed.track.run import Run
from seedbed.types import UserError

SMALL = ["env.train_split=generated_valid", "env.panel=household-120"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    run = Run.new(tmp_path_factory.mktemp("manifest") / "run")
    run.begin(load_config("tiny", SMALL), "train", my_fact=3)
    return run


def test_the_schema_in_the_repository_is_the_models() -> None:
    assert (files("seedbed.repro") / "manifest.schema.json").read_text("utf-8") == schema_text()


def test_a_new_run_has_a_valid_manifest_and_may_state_more(run: Run) -> None:
    check(run.manifest, "manifest.json")
    assert run.manifest["my_fact"] == 3 and run.manifest["paper"]["arxiv"] == "2607.14777"
    assert json.loads(schema_text())["required"] == [
        *("format", "kind", "seed", "started", "settings", "paper", "code", "packages", "python", "machine", "data")
    ]


def test_it_names_split_and_panel_by_what_they_hold(run: Run) -> None:
    listed = [f"generated_valid/{kind}/{i:06d}" for kind in ("pick", "look", "clean", "heat", "cool", "two")
              for i in range(1000)]  # fmt: skip
    data = run.manifest["data"]
    assert data["train"] == {"split": "generated_valid", "tasks": 6000, "ids": hash_of(listed)}
    assert data["panel"]["name"] == "household-120" and data["panel"]["content"] is None  # made from seeds: no files


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("code", "tree"), "abc"),
        (("machine", "hostname"), "mine"),
        (("data", "train", "tasks"), "many"),
        (("seed",), "3"),
        (("started",), "today"),
        (("paper", "tables"), None),
    ],
)
def test_another_form_is_refused_by_name(run: Run, path: tuple[str, ...], value: object) -> None:
    manifest = run.manifest
    inner = manifest
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(UserError, match=rf"^manifest\.json is no manifest of this version: {'.'.join(path)}"):
        check(manifest, "manifest.json")


def test_a_run_with_facts_of_another_form_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="template_hash"):
        Run.new(tmp_path / "run").begin(load_config("tiny", SMALL), "train", template_hash=7)
    assert list(tmp_path.iterdir()) == []


def test_environment_and_arguments_are_in_no_file(tmp_path: Path, monkeypatch) -> None:
    """T16: a run with an environment variable and an argument that hold a key; the key is nowhere, nor is a place."""
    monkeypatch.setenv("MY_SERVICE", "api_key=abc123SECRET")
    monkeypatch.setattr(sys, "argv", ["seedbed", "train", "--api_key=abc123SECRET"])
    Run.new(tmp_path / "run").begin(load_config("tiny", SMALL), "train")
    texts = [path.read_text("utf-8") for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(texts) == 3
    hidden = ("abc123SECRET", str(tmp_path), f"{Path.home()}/")
    assert not any(secret in text for text in texts for secret in hidden)


def test_the_code_is_known_by_its_files_wherever_they_are(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(here.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    assert here.tree(copy) == here.tree()
    (copy / "loss.py").write_text((copy / "loss.py").read_text() + "# changed\n")
    assert here.tree(copy) != here.tree()
    shutil.copy(here.PACKAGE / "loss.py", copy / "loss.py")
    (copy / "loss.py").rename(copy / "lost.py")
    assert here.tree(copy) != here.tree()


def test_a_key_that_is_a_setting_is_refused_without_being_repeated() -> None:
    with pytest.raises(UserError) as caught:
        load_config(None, ["api_key=abc123SECRET"])
    assert "'api_key'" in str(caught.value) and "SECRET" not in str(caught.value)
