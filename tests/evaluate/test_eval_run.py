"""A panel is played exactly once, faults are counted apart, batch size changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from toy import Scripted, Toy, renderer

from seedbed.config import RolloutSettings
from seedbed.envs.panels import Panel
from seedbed.evaluate.run import evaluate, summarise
from seedbed.types import Task, UserError

SETTINGS = RolloutSettings(layout="transcript", max_turns=3, max_new_tokens=64, think=False, temperature=1.0)
RENDERER = renderer()


def panel(*names: str) -> Panel:
    tasks = tuple(Task(n, "toy", "test", "k") for n in names) if names else tuple(Toy().tasks("test"))
    return Panel("toy-10", "toy", tasks, "hash of ids")


def play(of: Panel, *, at_once: int = 128, attempts: int = 1, temperature: float = 0.0, solves: int = 7, seed: int = 1):
    engine = Scripted(RENDERER, solves)
    return engine, evaluate(
        engine, Toy(), RENDERER, SETTINGS, of, attempts=attempts, temperature=temperature, seed=seed, at_once=at_once
    )


@pytest.mark.parametrize("at_once", [1, 3, 8, 10, 16])
def test_ten_tasks_of_which_seven_are_solved_give_070_at_any_batch_size(at_once):
    engine, result = play(panel(), at_once=at_once)
    assert engine.widest <= at_once
    assert [e["task"] for e in result["episodes"]] == [t.id for t in panel().tasks]
    micro = result["summary"]["micro"]
    assert micro["value"] == 0.7 and micro["se"] == pytest.approx(0.145, abs=5e-4)
    assert result["panel_hash"] == "hash of ids" and result["panel"] == "toy-10"
    assert result == play(panel())[1]


def test_sampled_episodes_depend_on_seed_task_and_attempt_only():
    def outcomes(of: Panel, **kw) -> dict:
        return {(e["task"], e["attempt"]): e for e in play(of, attempts=4, temperature=1.0, **kw)[1]["episodes"]}

    base = outcomes(panel())
    assert len({e["won"] for e in base.values()}) == 2  # luck is involved
    assert outcomes(panel(), at_once=5) == base
    assert outcomes(replace(panel(), tasks=panel().tasks[::-1])) == base
    other = outcomes(panel(), seed=2)
    assert {k: e["won"] for k, e in other.items()} != {k: e["won"] for k, e in base.items()}


def test_the_result_records_its_protocol_and_survives_json():
    _, result = play(panel(), temperature=0.4, attempts=2)
    assert (result["temperature"], result["attempts"], result["seed"], result["policy_version"]) == (0.4, 2, 1, 3)
    assert result["rollout"]["temperature"] == 0.4 and SETTINGS.temperature == 1.0
    assert result["template_hash"] == RENDERER.hash
    assert result["summary"]["entropy"] == pytest.approx(0.25)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_a_fault_is_no_failure_but_the_conservative_success_is_shown():
    """Two of seven won and one crash: 2/7, and 2/8 if the crash counts as lost."""
    _, result = play(
        panel(*(f"task {i}" for i in range(2)), *(f"task {i}" for i in range(3, 8)), "task 8 breaks"), solves=2
    )
    summary = result["summary"]
    assert summary["micro"]["value"] == pytest.approx(2 / 7)
    assert (summary["errors_as_failures"]["k"], summary["errors_as_failures"]["n"]) == (2, 8)
    assert summary["errors_as_failures"]["value"] == 0.25
    assert summary["faults"] == 1 and summary["by_kind"]["k"]["n"] == 7
    broken = next(e for e in result["episodes"] if e["stop"] == "fault")
    assert broken["cause"] == "RuntimeError: the game server is gone"


def test_counts_of_turns_kinds_and_valid_actions():
    summary = play(panel())[1]["summary"]  # 7 wins in one turn, 3 losses in three; task 9 never gives an action
    assert summary["mean_turns"] == pytest.approx((7 + 9) / 10)
    assert summary["valid_action_rate"] == pytest.approx(13 / 16)
    assert summary["stops"] == {"step_cap": 3, "won": 7}
    assert (summary["by_kind"]["even"]["k"], summary["by_kind"]["odd"]["k"]) == (4, 3)
    assert summary["macro"]["value"] == pytest.approx((4 / 5 + 3 / 5) / 2)


def test_which_interval_was_used_is_said():
    assert play(panel())[1]["summary"]["micro"]["method"] == "Wilson"
    repeated = play(panel(), attempts=3, temperature=1.0)[1]["summary"]
    assert repeated["micro"]["method"] == "bootstrap over tasks"


def test_a_stored_summary_can_be_recomputed_from_its_episodes():
    _, result = play(panel(), attempts=3, temperature=1.0)
    assert {**summarise(result["episodes"]), "entropy": result["summary"]["entropy"]} == result["summary"]


def test_progress_counts_episodes_of_the_whole_panel():
    seen = []
    evaluate(
        Scripted(RENDERER),
        Toy(),
        RENDERER,
        SETTINGS,
        panel(),
        attempts=2,
        temperature=0.0,
        seed=0,
        at_once=6,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (20, 20) and seen == sorted(seen)


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (replace(panel(), tasks=()), "empty"),
        (panel("task 1", "task 1"), "twice"),
        (panel("task 8 breaks"), "every episode"),
    ],
)
def test_a_panel_that_measures_nothing_is_an_error(of, says):
    with pytest.raises(UserError, match=says):
        play(of)
