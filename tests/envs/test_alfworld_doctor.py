"""``seedbed doctor`` and ``seedbed bench``: what they say, on machines with and without the data."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError

import pytest
import typer
from typer.testing import CliRunner

from seedbed.commands import bench, doctor
from seedbed.envs import doctor as registry
from seedbed.envs.alfworld import data, health, official
from seedbed.types import UserError

app = typer.Typer()
app.command()(doctor.doctor)
GAME = "train/pick_and_place_simple-Mug-None-Desk-1/trial_1"


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Only ALFWorld, no data, no official engine."""
    monkeypatch.delenv("SEEDBED_DATA", raising=False)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    monkeypatch.setattr(
        registry, "CHECKS", {"alfworld": registry.CHECKS["alfworld"], "other": "seedbed.envs.none.health"}
    )
    monkeypatch.setattr(doctor, "CHECKS", registry.CHECKS)

    def absent(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(official, "version", absent)


def only(monkeypatch, split: str) -> None:
    """As if the published splits were one game."""
    for module in (data, health):
        monkeypatch.setattr(module, "SIZES", {split: 1})


def run() -> tuple[int, str]:
    result = CliRunner().invoke(app, [])
    return result.exit_code, result.stdout


def test_nothing_there(tmp_path):
    status, text = run()
    assert status == 1
    assert "ok native engine" in text and "optional backend textworld" in text
    assert f"missing game files: no ALFWorld games: there is no {tmp_path}/json_2.1.1\n" in text
    assert f"mend: pip install 'seedbed[alfworld]' && alfworld-download -f --data-dir {tmp_path}\n" in text
    assert "other is not part of this version" in text


def test_partial_and_whole_data(monkeypatch, tmp_path):
    monkeypatch.setattr(official, "version", lambda _: "1.2.3")
    (tmp_path / "json_2.1.1" / GAME).mkdir(parents=True)
    (tmp_path / "json_2.1.1" / GAME / "game.tw-pddl").write_text('{"solvable": true}')
    status, text = run()
    assert status == 1 and "json_2.1.1 has train 1, valid_seen 0, " in text and "published are train 3553, " in text
    assert f"mend: alfworld-download -f --data-dir {tmp_path}\n" in text
    assert "ok backend textworld: alfworld 1.2.3, " in text
    only(monkeypatch, "train")
    status, text = run()
    assert status == 1 and "is not a complete ALFWorld game file" in text  # right number, wrong content


def test_whole_data_of_a_known_format(monkeypatch, tmp_path, real_games):
    name = next(name for name in real_games.content if name.startswith("valid_seen/"))
    (tmp_path / "json_2.1.1" / name).mkdir(parents=True)
    (tmp_path / "json_2.1.1" / name / "game.tw-pddl").write_bytes(real_games.content[name])
    only(monkeypatch, "valid_seen")
    status, text = run()
    assert status == 0 and "valid_seen 1, format with 'move X to Y'" in text


def test_an_error_inside_a_check_is_not_taken_for_an_absent_benchmark(monkeypatch):
    monkeypatch.setitem(sys.modules, "seedbed.envs.alfworld.data", None)
    monkeypatch.delitem(sys.modules, "seedbed.envs.alfworld.health", raising=False)
    with pytest.raises(ModuleNotFoundError):
        registry.examine("alfworld")


def test_memory_is_measured_over_random_episodes():
    args = ["memory", "alfworld", "--split", "generated_valid", "--episodes", "30", "--warmup", "5", "--limit", "1000"]
    result = CliRunner().invoke(bench.app, args)
    assert result.exit_code == 0
    assert re.fullmatch(r"\d+\.\d MiB after 5 episodes, \d+\.\d MiB after 30 more: [+-]\d+\.\d\d %\n", result.stdout)
    assert CliRunner().invoke(bench.app, [*args[:-1], "-100"]).exit_code == 1  # every change is above -100 %


def test_bench_names_what_it_cannot_compare():
    for args, says in (
        (["env", "webshop"], "no official engine to compare environment 'webshop' with"),
        (["env", "alfworld", "--split", "generated_train"], r"no ALFWorld games"),
    ):
        error = CliRunner().invoke(bench.app, args).exception
        assert isinstance(error, UserError) and re.search(says, str(error))
