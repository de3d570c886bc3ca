"""Settings: what a user writes, what the defaults are, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from seedbed.algo import GrpoSettings, SeedSettings
from seedbed.config import Config, build, flat, load_config, presets, to_yaml
from seedbed.types import UserError

#: The paper's ALFWorld run, written down a second time from the paper's tables and the official launcher.
VETTED = {
    "rollout.layout": "windowed",
    "rollout.history": 5,
    "rollout.max_turns": 30,
    "rollout.max_new_tokens": 512,
    "rollout.max_prompt_tokens": 2048,
    "rollout.temperature": 1.0,
    "rollout.think": True,
    "analyzer.max_new_tokens": 4096,
    "analyzer.max_prompt_tokens": 16384,
    "analyzer.temperature": 0.0,
    "algo.name": "seed",
    "algo.coefficient": 0.01,
    "algo.sharpness": 5.0,
    "algo.statistics": "rows",
    "algo.deviation": "sample",
    "algo.normalise": "mean_std",
    "algo.epsilon": 1e-6,
    "algo.invalid_penalty": 0.1,
    "collect.tasks": 180,
    "collect.attempts": 8,
    "collect.temperature": 0.4,
    "sft.epochs": 3,
    "sft.batch_rows": 8,
    "sft.lr": 5e-6,
    "sft.warmup": 0.1,
    "sft.max_tokens": 8192,
    "sft.weight_decay": 0.01,
    "sft.validation": 0.1,
    "sft.rehearsal": 0.0,
    "train.updates": 150,
    "train.tasks": 16,
    "train.attempts": 8,
    "train.lr": 1e-6,
    "train.warmup": 0,
    "train.weight_decay": 0.01,
    "train.grad_clip": 1.0,
    "train.minibatch_rows": 256,
    "train.aggregation": "token-mean",
    "train.clip": 0.2,
    "train.dual_clip": 3.0,
    "train.kl_coefficient": 0.01,
    "train.entropy_coefficient": 0.001,
    "train.rehearsal_rows": 0,
    "train.checkpoint_every": 10,
    "eval.every": 5,
    "eval.temperature": 0.4,
}


def mistake(*overrides: str, source: str | None = None) -> str:
    """What the user is told; always one line."""
    with pytest.raises(UserError) as caught:
        load_config(source, overrides)
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message and "pydantic" not in message
    return message


def test_defaults_are_the_papers_run() -> None:
    defaults = dict(flat(Config()))
    assert {key: defaults[key] for key in VETTED} == VETTED


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("algo.kl_los_coef=0.1", ""),  # nothing near in algo: it lists what there is
        ("algo.sharpnes=5", "algo.sharpness"),
        ("train.updates_=3", "train.updates"),
        ("train.kl_coeficient=0", "train.kl_coefficient"),
        ("trian.updates=3", "train"),
        ("rollout.max_turn=3", "rollout.max_turns"),
    ],
)
def test_an_unknown_setting_is_named_with_its_nearest_neighbour(written: str, meant: str) -> None:
    message = mistake(written)
    assert repr(written.split("=")[0]) in message or repr(written.split(".")[0]) in message
    assert f"did you mean {meant!r}" in message if meant else "did you mean" in message or "known: algo." in message


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("train.updates=many", "'train.updates'"),
        ("train.updates=0", "'train.updates'"),
        ("train.lr=-1", "'train.lr'"),
        ("rollout.layout=chat", "'rollout.layout'"),
        ("model.dtype=float8", "'model.dtype'"),
        ("algo.sharpness=hot", "'algo.sharpness'"),
        ("train=5", "'train'"),
        ("algo=sed", "'sed'"),
    ],
)
def test_a_wrong_value_is_one_sentence_with_setting_and_value(override: str, named: str) -> None:
    message = mistake(override)
    assert named in message and override.split("=")[1] in message


def test_an_override_without_a_value_or_with_broken_yaml_is_shown() -> None:
    assert "'train.updates'" in mistake("train.updates")
    assert "'env.options={a: '" in mistake("env.options={a: ")


def test_overrides_set_nested_values_and_later_ones_win() -> None:
    written = ["train.updates=3", "train.lr=3e-4", "env.options={games: [a, b]}", "seed=7", "train.updates=4"]
    config = load_config(None, written)
    assert (config.train.updates, config.train.lr, config.seed) == (4, 3e-4, 7)
    assert config.env.options == {"games": ["a", "b"]}
    assert config.train.tasks == 16  # neighbours keep their defaults


def test_algo_is_picked_by_name_and_a_setting_alone_means_seed() -> None:
    assert isinstance(load_config(None, ["algo=grpo"]).algo, GrpoSettings)
    assert load_config(None, ["algo=grpo", "algo.invalid_penalty=0"]).algo == GrpoSettings(invalid_penalty=0)
    assert load_config(None, ["algo.coefficient=1"]).algo == SeedSettings(coefficient=1)
    assert "algo.coefficient" in mistake("algo=grpo", "algo.coefficient=1")


def test_a_file_is_read_and_overrides_come_after_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("train: {updates: 9, tasks: 2}\n")
    config = load_config(str(file), ["train.tasks=3"])
    assert (config.train.updates, config.train.tasks) == (9, 3)


@pytest.mark.parametrize("text", ["train: [", "- a\n- b\n", "just words", "train:\n\tupdates: 3\n"])
def test_a_file_that_holds_no_settings_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    assert "broken.yaml" in mistake(source=str(file))


def test_a_missing_file_names_the_presets() -> None:
    message = mistake(source="no-such-file.yaml")
    assert "no-such-file.yaml" in message and all(name in message for name in presets())


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_and_survives_being_written(name: str) -> None:
    config = load_config(name)
    assert (config == Config()) == (name == "alfworld")  # the defaults are the paper's run
    assert build(yaml.safe_load(to_yaml(config)), name) == config
