"""Is every departure from the paper shown, and nothing else?"""

from __future__ import annotations

import pytest

from seedbed.config import Config, flat, load_config
from seedbed.repro.paper_diff import TITLES, compare, compared_with, diff_lines, paper_diff, paper_values

DEFAULTS = dict(flat(Config()))

#: What the paper's run of each benchmark sets, written down a second time: launchers 2cf2fad, the paper's Table 5.
COLUMNS = {
    "env.name": ("alfworld", "webshop", "search", "sokoban", "ezpoints"),
    "rollout.history": (5, 2, 4, 2, 0),
    "rollout.max_turns": (30, 15, 4, 15, 8),
    "rollout.max_prompt_tokens": (2048, 4096, 4096, 1024, 1024),
    "rollout.max_new_tokens": (512,) * 5,
    "rollout.temperature": (1.0,) * 5,
    "analyzer.max_prompt_tokens": (16384, 16384, 16384, 24576, 16384),
    "analyzer.max_new_tokens": (4096, 4096, 4096, 2048, 2048),
    "algo.coefficient": (0.01,) * 5,
    "algo.sharpness": (5.0,) * 5,
    "algo.normalise": ("mean_std", "mean", "mean_std", "mean_std", "mean_std"),
    "algo.invalid_penalty": (0.1, 0.1, 0.01, 0.1, 0.1),
    "collect.tasks": (180,) * 5,
    "collect.temperature": (0.4, 0.4, 0.4, 1.0, 1.0),
    "sft.lr": (5e-6, 5e-6, 5e-6, 2e-6, 2e-6),
    "sft.max_tokens": (8192, 12288, 12288, 4096, 4096),
    "train.updates": (150,) * 5,
    "train.tasks": (16, 16, 128, 32, 16),
    "train.attempts": (8,) * 5,
    "train.lr": (1e-6,) * 5,
    "train.warmup": (0, 0, 90, 0, 0),
    "train.minibatch_rows": (256, 64, 512, 64, 128),
    "train.clip": (0.2,) * 5,
    "train.dual_clip": (3.0,) * 5,
    "train.kl_coefficient": (0.01, 0.01, 0.001, 0.01, 0.01),
    "train.entropy_coefficient": (0.001, 0.001, 0.0, 0.001, 0.001),
    "eval.every": (5, 5, 150, 5, 5),
    "eval.temperature": (0.4,) * 5,
}
BENCHMARKS = COLUMNS["env.name"]
#: what a benchmark's preset does otherwise than its paper run; the reasons stand in paper_values.yaml
DEPARTURES = {"search": ["env.panel", "train.checkpoint_every"]}


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


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmarks_preset_is_its_papers_run(name: str) -> None:
    """Nothing differs from the paper's run of that benchmark but what has a reason."""
    config = load_config(name)
    settings = dict(flat(config))
    column = BENCHMARKS.index(name)
    assert {key: settings[key] for key in COLUMNS} == {key: values[column] for key, values in COLUMNS.items()}
    differing = [row for row in compare(config) if row.state == "differs"]
    assert [row.key for row in differing] == DEPARTURES.get(name, [])
    assert all(row.reason and row.known.source for row in differing)


def test_warm_up_of_search_is_the_first_tenth_of_training() -> None:
    """An update has tasks x attempts x turns rows, so many optimiser steps; 3 of at most 4 turns are taken as usual."""
    train = load_config("search").train
    steps = train.tasks * train.attempts * 3 / train.minibatch_rows
    assert train.warmup == 0.1 * train.updates * steps


def test_the_preset_of_alfworld_is_the_defaults_written_out() -> None:
    assert load_config("alfworld") == Config()


def test_a_run_is_compared_with_its_own_benchmark() -> None:
    """2 turns of history are WebShop's, 5 are ALFWorld's; an environment not in the paper is held to ALFWorld."""
    webshop, own = load_config("webshop"), load_config(None, ["env.name=mine:Game"])
    assert compared_with(webshop) == "the paper's WebShop run" and "WebShop run" in paper_diff(webshop)
    changed = load_config("webshop", ["rollout.history=5", "train.updates=160"])
    assert diff_lines(changed) == [
        "rollout.history: 5 (launcher 2)",
        "train.updates: 160 (paper 150, launcher 160)",
    ]
    assert cells(changed, "rollout.history")[5].startswith("launcher run_webshop")
    assert compared_with(own) == "the paper's ALFWorld run" and paper_values("mine:Game") == paper_values("alfworld")
    assert diff_lines(own) == ["env.name: mine:Game (paper alfworld, launcher alfworld)"]


@pytest.mark.parametrize("env", TITLES)
def test_every_environment_of_the_paper_has_whole_values(env: str) -> None:
    values = paper_values(env)
    for key, known in values.items():
        if known.kind == "":
            assert known.expected is not None and known.source and "{" not in known.source, key
            if known.paper is not None and known.launcher is not None and known.paper != known.launcher:
                assert known.note, key
    assert values["env.name"].paper == env


def test_every_disagreement_of_paper_and_launcher_is_explained() -> None:
    disagree = {
        key
        for key, v in paper_values().items()
        if not v.kind and v.paper is not None and v.launcher is not None and v.paper != v.launcher
    }
    assert disagree == {
        *("algo.statistics", "algo.deviation", "train.updates", "env.panel", "annotate.max_new_tokens"),
    }
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
