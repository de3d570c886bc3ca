"""Ends of episodes and faults, rows, and what is stored."""

from __future__ import annotations

import numpy as np
import pytest
from corehelp import Corridor, play

from seedbed.algo import GrpoSettings, make_algorithm
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.samples import build_samples
from seedbed.track.store import TokenValues, read_part, write_part
from seedbed.types import Action, Batch, Group, Origin, Prompt, StopReason, Task, Trajectory, Turn, UserError


@pytest.mark.parametrize(
    ("environment", "settings", "stop", "turns"),
    [
        (Corridor(win_at=3), {}, StopReason.WON, 3),
        (Corridor(win_at=4), {}, StopReason.WON, 4),  # on the very last allowed turn
        (Corridor(win_at=5), {}, StopReason.STEP_CAP, 4),
        (Corridor(lose_at=2), {}, StopReason.LOST, 2),
        (Corridor(), {"max_new_tokens": 5}, StopReason.TRUNCATED_TURN, 1),
    ],
)
def test_every_end_has_its_reason(
    renderer: Renderer, environment: Corridor, settings: dict, stop: StopReason, turns: int
) -> None:
    trajectory = play(renderer, environment, attempts=1, tasks=1, **settings)[0].attempts_G[0]
    assert (trajectory.stop, len(trajectory.turns_K)) == (stop, turns)
    assert trajectory.reward == (10.0 if stop is StopReason.WON else 0.0)
    if stop is StopReason.TRUNCATED_TURN:
        assert trajectory.turns_K[0].observation == ""  # the environment was not stepped


def test_a_transcript_that_outgrows_the_limit_says_so(renderer: Renderer) -> None:
    full = play(renderer, Corridor(), attempts=1, tasks=1)[0].attempts_G[0]
    limit = len(full.turns_K[2].prompt_ids_T) - 1
    short = play(renderer, Corridor(), attempts=1, tasks=1, max_prompt_tokens=limit)[0].attempts_G[0]
    assert (short.stop, len(short.turns_K)) == (StopReason.CONTEXT_EXHAUSTED, 2)


def test_windowed_history_is_shortened_before_anything_is_cut(renderer: Renderer) -> None:
    full = play(renderer, Corridor(win_at=4), attempts=1, tasks=1, layout="windowed")[0].attempts_G[0]
    limit = len(full.turns_K[-1].prompt_ids_T) - 1
    short = play(renderer, Corridor(win_at=4), attempts=1, tasks=1, layout="windowed", max_prompt_tokens=limit)[
        0
    ].attempts_G[0]
    last = dict(short.turns_K[-1].prompt.slots)
    assert short.stop is StopReason.WON and len(short.turns_K[-1].prompt_ids_T) <= limit
    assert (
        last["task"]
        and last["observation"]
        and "Observation 1" not in last["history"]
        and "Observation 3" in last["history"]
    )


def test_a_first_prompt_over_the_limit_is_one_sentence(renderer: Renderer) -> None:
    with pytest.raises(UserError, match="rollout.max_prompt_tokens=20"):
        play(renderer, Corridor(), max_prompt_tokens=20)


def test_a_fault_is_left_out_of_the_group(renderer: Renderer) -> None:
    (group,) = play(renderer, Corridor(wins=(0, 1), breaks_at=(7,)), attempts=8, tasks=1)
    broken = group.attempts_G[7]
    assert broken.stop is StopReason.FAULT and broken.cause == "ConnectionError: the corridor collapsed"
    assert build_samples(broken, renderer.stop_id) == []
    assert all("collapsed" not in turn.prompt.text for t in group.attempts_G for turn in t.turns_K)
    batch = Batch([group], samples=[s for t in group.attempts_G for s in build_samples(t, renderer.stop_id)])
    how = GrpoSettings(
        statistics="trajectories", invalid_penalty=0.0, epsilon=1e-5
    )  # rewards are 10 times those of T10
    streams, _ = make_algorithm(how).streams(batch)
    values = [stream.advantage_T[sample.sampled_T][0] for sample, stream in zip(batch.samples, streams, strict=True)]
    np.testing.assert_allclose(values, [1.463847] * 2 + [-0.585539] * 5, atol=2e-6)  # T10


def test_episodes_do_not_depend_on_order_or_company(renderer: Renderer) -> None:
    from corehelp import engine_for

    environment = Corridor(wins=())
    settings = dict(
        layout="transcript", max_turns=3, max_new_tokens=6, max_prompt_tokens=4000, think=False, list_admissible=False
    )
    from seedbed.config import RolloutSettings

    tasks = environment.tasks("train")
    both = collect_groups(
        engine_for(renderer), environment, renderer, RolloutSettings(**settings), tasks[:2], 2, seed=5
    )
    alone = collect_groups(
        engine_for(renderer), environment, renderer, RolloutSettings(**settings), tasks[1:2], 2, seed=5
    )
    for a, b in zip(both[1].attempts_G, alone[0].attempts_G, strict=True):
        assert [t.response_ids_T.tolist() for t in a.turns_K] == [t.response_ids_T.tolist() for t in b.turns_K]
    texts = {t.turns_K[0].response_ids_T.tobytes() for g in both for t in g.attempts_G}
    assert len(texts) == 4  # siblings of a group are not copies


def test_origins_decide_what_trains() -> None:
    """T4: a real end of turn trains, a forced one does not, whatever its id."""
    stop = 2

    def turn(prompt: list[int], response: list[int], finish: str) -> Turn:
        return Turn(
            Prompt((("task", "t"), ("skill", ""))),
            np.array(prompt, np.int32),
            np.array(response, np.int32),
            np.full(len(response), -1.0, np.float32),
            finish,
            "x",
            Action("x", True),
        )

    def row(*turns: Turn) -> list[int]:
        trajectory = Trajectory(
            Task("t", "e", "train", "k"), 0, "g", turns, StopReason.STEP_CAP, 0.0, "transcript", 0, 0
        )
        (sample,) = build_samples(trajectory, stop)
        return sample.origin_T.tolist()

    p, s, f = Origin.PROMPT, Origin.SAMPLED, Origin.FORCED
    assert row(turn([9], [5, 6, 7, 8], "length")) == [p, s, s, s, s]
    assert row(turn([9], [5, 2], "stop"), turn([9, 5, 2, 2, 7], [6], "length")) == [p, s, s, p, p, s]
    assert row(turn([9], [5, 6], "length"), turn([9, 5, 6, 2, 7], [6, 2], "stop")) == [p, s, s, f, p, s, s]


def test_nothing_is_lost_on_disk(renderer: Renderer, tmp_path) -> None:
    groups = play(renderer, Corridor(breaks_at=(1,))) + play(renderer, Corridor(), layout="windowed")
    trajectories = [t for g in groups for t in g.attempts_G]
    for index, layout in enumerate(("transcript", "windowed")):
        part = [t for t in trajectories if t.layout == layout]
        odd = np.array([-1.2345], np.float32)
        values = {t.id: TokenValues(*(np.resize(odd, t.sampled_tokens) for _ in range(3))) for t in part}
        write_part(tmp_path, f"p{index}", part, values)
        for before, (after, stored) in zip(part, read_part(tmp_path, f"p{index}"), strict=True):
            assert (after.id, after.stop, after.cause, after.seed, after.goal) == (
                before.id,
                before.stop,
                before.cause,
                before.seed,
                before.goal,
            )
            for a, b in zip(after.turns_K, before.turns_K, strict=True):
                assert np.array_equal(a.prompt_ids_T, b.prompt_ids_T) and np.array_equal(
                    a.response_ids_T, b.response_ids_T
                )
                assert np.array_equal(a.logprobs_T, b.logprobs_T) and a.logprobs_T.dtype == np.float32
                assert (a.prompt, a.text, a.action, a.observation, a.finish) == (
                    b.prompt,
                    b.text,
                    b.action,
                    b.observation,
                    b.finish,
                )
            assert stored.skill_T.tolist() == [np.float32(-1.2345)] * before.sampled_tokens
    lines = (tmp_path / "p1.jsonl").read_text()
    (tmp_path / "p1.jsonl").write_text(lines.replace('"attempt"', '"attempts"', 1))
    with pytest.raises(UserError, match="p1.jsonl line 1 is not a trajectory of this version"):
        list(read_part(tmp_path, "p1"))
    (tmp_path / "p0.safetensors").write_bytes(b"\x80\x04pickle")
    with pytest.raises(UserError, match="p0.safetensors cannot be read"):
        list(read_part(tmp_path, "p0"))


def test_a_group_keeps_its_task_together(renderer: Renderer) -> None:
    groups: list[Group] = play(renderer, Corridor(), attempts=3, tasks=2)
    assert [[t.attempt for t in g.attempts_G] for g in groups] == [[0, 1, 2]] * 2
    assert all(t.task == g.task for g in groups for t in g.attempts_G)
