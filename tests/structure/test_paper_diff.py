"""Is every departure from the paper shown, and nothing else?"""

from __future__ import annotations

import pytest

from seedbed.config import Config, flat, load_config
from seedbed.repro.paper_diff import compare, diff_lines, paper_diff, paper_values

DEFAULTS = dict(flat(Config()))


def cells(config: Config, key: str) -> list[str]:
    """The cells of one row of the table."""
    (line,) = [line for line in paper_diff(config).splitlines() if line.startswith(f"| {key} |")]
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def test_a_default_run_differs_nowhere() -> None:
    assert diff_lines(Config()) == [] and "differs" not in paper_diff(Config())


def test_every_setting_has_an_entry_and_every_entry_a_setting() -> None:
    assert set(paper_values()) == set(DEFAULTS)


def test_defaults_are_what_paper_or_launcher_state() -> None:
    """The state ``differs`` is read off the defaults, so the defaults themselves must be right."""
    for row in compare(Config()):
        stated = [value for value in (row.known.paper, row.known.launcher) if value is not None]
        if row.known.kind == "":
            assert stated and row.known.source, f"{row.key} has neither value nor source"
            assert row.value in stated, row.key


def test_every_disagreement_of_paper_and_launcher_is_explained() -> None:
    disagree = {
        key
        for key, v in paper_values().items()
        if not v.kind and v.paper is not None and v.launcher is not None and v.paper != v.launcher
    }
    assert disagree == {"algo.statistics", "algo.deviation", "train.updates", "env.panel"}
    assert all(paper_values()[key].note for key in disagree)
    assert {row.key for row in compare(Config()) if row.state == "launcher"} == {"algo.statistics", "algo.deviation"}


def test_the_launchers_update_count_is_a_difference_with_both_values() -> None:
    config = load_config(None, ["train.updates=160"])
    assert diff_lines(config) == ["train.updates: 160 (paper 150, launcher 160)"]
    assert cells(config, "train.updates")[1:5] == ["150", "160", "160", "**differs**"]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("sft.rehearsal=1", "sft.rehearsal: 1 (default 0)"),
        ("rollout.think=false", "rollout.think: false (launcher true)"),
        ("algo=grpo", "algo.name: grpo (paper seed, launcher seed)"),
        ("train.lr=3e-4", "train.lr: 0.0003 (paper 1e-06, launcher 1e-06)"),
    ],
)
def test_a_difference_is_one_line(override: str, line: str) -> None:
    assert diff_lines(load_config(None, [override])) == [line]


@pytest.mark.parametrize("override", ["seed=3", "model.path=my-model", "model.device=cpu"])
def test_what_every_run_picks_itself_is_no_difference(override: str) -> None:
    config = load_config(None, [override])
    assert diff_lines(config) == []
    assert cells(config, override.partition("=")[0])[3:5] == [override.partition("=")[2], "choice"]


def test_a_value_cannot_break_the_table() -> None:
    config = load_config(None, ['env.name="a | b\\nc"'])
    assert "| a \\| b c |" in paper_diff(config)
    assert len({line.replace("\\|", "").count("|") for line in paper_diff(config).splitlines() if line[:1] == "|"}) == 1
