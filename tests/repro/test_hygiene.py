"""T16: what is loaded is never run. A pickle instead of weights or scores is refused, a skill is only ever text."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from seedbed.config import ModelSettings
from seedbed.skills.parse import parse_analysis
from seedbed.track.store import read_part
from seedbed.train.model import load_policy, resolve
from seedbed.types import UserError


def payload(touched: Path) -> bytes:
    """A pickle, in its text protocol, that makes a file when it is loaded."""
    return b"cos\nsystem\n(S'touch " + str(touched).encode() + b"'\ntR."


@pytest.fixture
def touched(tmp_path: Path) -> Path:
    return tmp_path / "touched"


def test_weights_that_are_a_pickle_are_refused(tmp_path: Path, touched: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(resolve("tiny"), folder)
    (folder / "model.safetensors").write_bytes(payload(touched))
    with pytest.raises(UserError, match="cannot be loaded"):
        load_policy(ModelSettings(path=str(folder)))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="loads no pickles"):
        load_policy(ModelSettings(path=str(folder)))
    assert not touched.exists()


def test_trajectories_that_are_a_pickle_are_refused(tmp_path: Path, touched: Path) -> None:
    (tmp_path / "u0001.jsonl").write_bytes(payload(touched))
    (tmp_path / "u0001.safetensors").write_bytes(payload(touched))
    with pytest.raises(UserError, match="is not JSON"):
        list(read_part(tmp_path, "u0001"))
    assert not touched.exists()


def test_a_skill_that_looks_like_code_is_text(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "__import__('os').system('touch x')"
    parsed = parse_analysis(json.dumps({"episode_summary": "s", "episode_skill": text}))
    assert parsed.skill == text and os.listdir(tmp_path) == []
