"""Every setting against the paper and the launcher: a change is exactly its own row, a silence is no agreement."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from seedbed.commands.config import app
from seedbed.config import load_config
from seedbed.repro.alignment import departures, sides, table
from seedbed.repro.backbones import PRESETS, SHAPES, backbone
from seedbed.types import UserError

STRICT = ("alfworld", "qwen2.5-3b")
#: Settings of every kind: stated by the paper, by the launcher alone, by both differently, by neither.
CHANGES = {
    "train.updates": "160",
    "train.lr": "1e-5",
    "train.kl_coefficient": "0.001",
    "train.clip": "0.3",
    "train.tasks": "8",
    "train.entropy_coefficient": "0",
    "train.minibatch_rows": "128",
    "rollout.history": "2",
    "rollout.max_turns": "50",
    "rollout.temperature": "0.7",
    "algo.coefficient": "0.1",
    "algo.sharpness": "1",
    "algo.statistics": "trajectories",
    "sft.rehearsal": "1",
    "eval.temperature": "0",
}


def unexplained(source, overrides=()) -> list[str]:
    return [side.key for side in sides(load_config(source, overrides)) if side.unexplained]


def side(key: str, *overrides: str, source=STRICT):
    (found,) = [s for s in sides(load_config(source, overrides)) if s.key == key]
    return found


@pytest.mark.parametrize("benchmark", ["alfworld", "webshop", "search"])
@pytest.mark.parametrize("model", PRESETS)
def test_presets_as_they_stand_leave_nothing_unexplained(benchmark: str, model: str) -> None:
    config = load_config([benchmark, PRESETS[model]])
    assert config.env.name == benchmark and backbone(config.model.path) == model
    found = sides(config)
    assert [s.key for s in found if s.unexplained] == []
    assert all(s.reason for s in found if "differs" in (s.against_paper, s.against_launcher))
    thinking = {} if model != "Qwen3-1.7B" else {"enable_thinking": False}
    assert config.model.template_options == thinking


def test_fifteen_settings_changed_one_at_a_time_give_exactly_their_row() -> None:
    assert len(CHANGES) == 15 and unexplained(STRICT) == []
    before = {s.key: s for s in sides(load_config(STRICT))}
    for key, value in CHANGES.items():
        after = {s.key: s for s in sides(load_config(STRICT, [f"{key}={value}"]))}
        assert [k for k in after if after[k] != before[k]] == [key]
        assert unexplained(STRICT, [f"{key}={value}"]) == [key]


def test_a_row_has_both_values_the_state_and_the_source() -> None:
    """T15: the paper's table says reference KL 0.01, the run uses 0.001: one row with both, and where it stands."""
    row = side("train.kl_coefficient", "train.kl_coefficient=0.001")
    assert (row.paper, row.value, row.against_paper, row.source) == (0.01, 0.001, "differs", "paper Table 5")
    config = load_config(STRICT, ["train.kl_coefficient=0.001"])
    lines = [line for line in table(sides(config), config).splitlines() if "**unexplained**" in line]
    assert len(lines) == 1
    assert lines[0].startswith("| train.kl_coefficient | 0.001 | 0.01 | differs | 0.01 | differs | paper Table 5 |")


def test_what_the_paper_does_not_state_is_unspecified() -> None:
    """T15: a silence is never a match. The launcher's value beside it still is one."""
    row = side("rollout.history")
    assert (row.against_paper, row.against_launcher) == ("unspecified", "same")
    assert side("sft.rehearsal").against_paper == side("sft.rehearsal").against_launcher == "unspecified"
    assert side("seed", "seed=4").against_paper == "unspecified"
    stated = [s for s in sides(load_config(STRICT)) if s.paper is None]
    assert len(stated) > 20 and {s.against_paper for s in stated} == {"unspecified"}


def test_a_mistyped_key_names_the_nearest() -> None:
    """T15."""
    with pytest.raises(UserError, match=r"'train\.kl_coeficient'.*did you mean 'train\.kl_coefficient'"):
        load_config(STRICT, ["train.kl_coeficient=0.001"])


def test_method_and_baseline_differ_in_the_method_alone() -> None:
    """T15."""
    assert departures(load_config(STRICT, ["algo.name=grpo"]), load_config(STRICT)) == [
        "algo.name: grpo instead of seed"
    ]
    webshop = load_config(["webshop", "qwen2.5-3b"])
    grpo = load_config(["webshop", "qwen2.5-3b"], ["algo.name=grpo"])
    assert departures(grpo, webshop) == ["algo.name: grpo instead of seed"] and grpo.algo.normalise == "mean"


def test_where_paper_and_launcher_disagree_both_are_shown_with_the_reason() -> None:
    row = side("train.updates")
    assert (row.against_paper, row.against_launcher) == ("same", "differs") and "issue 6" in row.reason
    row = side("algo.statistics")
    assert (row.against_paper, row.against_launcher) == ("differs", "same") and row.reason


def test_a_reason_of_the_users_explains_its_own_setting_only() -> None:
    config = load_config(STRICT, ["train.lr=1e-5", "train.tasks=8"])
    found = sides(config, {"train.lr": "a smaller model"})
    assert [s.key for s in found if s.unexplained] == ["train.tasks"]
    with pytest.raises(UserError, match=r"'train\.lrr'"):
        sides(config, {"train.lrr": "?"})


def test_memory_is_no_departure_and_explains_itself() -> None:
    changed = load_config(STRICT, ["train.micro_tokens=4096", "env.workers=4", "seed=3", "model.device=cpu"])
    assert departures(changed, load_config(STRICT)) == []
    assert [s.key for s in sides(changed) if s.unexplained] == []


def test_a_model_is_known_by_its_shape_not_its_name(tmp_path) -> None:
    kind, hidden, layers = SHAPES["Qwen3-1.7B"]
    policy = tmp_path / "u0003" / "policy"
    policy.mkdir(parents=True)
    shape = {"model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers}
    (policy / "config.json").write_text(json.dumps(shape))
    assert backbone(str(policy.parent)) == backbone(str(policy)) == "Qwen3-1.7B"
    named = tmp_path / "Qwen2.5-3B-Instruct"
    assert backbone(str(named)) == "Qwen2.5-3B-Instruct"  # not here: the name is all there is
    named.mkdir()
    (named / "config.json").write_text(json.dumps({**shape, "num_hidden_layers": 2}))
    assert backbone(str(named)) is None and backbone("tiny") is None
    row = side("model.path", f"model.path={named}")
    assert row.unexplained and row.against_paper == "differs"


def test_later_sources_lie_over_earlier_ones_setting_by_setting(tmp_path) -> None:
    upper = tmp_path / "upper.yaml"
    upper.write_text("train: {lr: 1.0e-5}\nalgo: grpo\nenv: {options: {b: 2}}\n")
    lower = tmp_path / "lower.yaml"
    lower.write_text("train: {updates: 9, lr: 1.0e-4}\nenv: {options: {a: 1}}\n")
    config = load_config([str(lower), str(upper)], ["train.tasks=3"])
    assert (config.train.updates, config.train.lr, config.train.tasks) == (9, 1e-5, 3)
    assert config.algo.name == "grpo" and config.env.options == {"b": 2}  # a table is one setting
    assert load_config([]) == load_config() and load_config(["tiny"]) == load_config("tiny")
    upper.write_text("train: {lrr: 1}\n")
    with pytest.raises(UserError, match=r"train\.lrr.*lower\.yaml and .*upper\.yaml"):
        load_config([str(lower), str(upper)])


def test_config_diff_names_the_model_and_takes_several_sources() -> None:
    answer = CliRunner().invoke(app, ["diff", "-c", "webshop", "-c", "qwen3-1.7b"])
    assert answer.stdout.splitlines() == ["model: Qwen3-1.7B", "no setting differs from the paper's WebShop run"]
    answer = CliRunner().invoke(app, ["diff", "-c", "search"])
    first, *rest = answer.stdout.splitlines()
    assert first.startswith("model: tiny, none of the paper")
    assert [line.partition(":")[0] for line in rest] == ["env.panel", "train.checkpoint_every"]
    assert rest[0].endswith("hold single sets")  # the reason stands beside it
