"""Is an advantage what the group says, and nothing else?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from play import batch, episode

from seedbed.algo import GrpoSettings, make_algorithm
from seedbed.algo.advantages import AdvantageSettings, group_advantages

DEFAULT = AdvantageSettings()


def one_group(rewards: list[float], **how: object) -> np.ndarray:
    return group_advantages(["g"] * len(rewards), range(len(rewards)), rewards, AdvantageSettings(**how))


@pytest.mark.parametrize("rewards", [[1.0] * 4, [0.0] * 4, [9.9] * 38, [0.3, 0.1 + 0.2, 0.3, 0.3]])
def test_tied_group_has_exactly_no_advantage(rewards: list[float]) -> None:
    for normalise in ("mean_std", "mean"):
        assert (one_group(rewards, normalise=normalise) == 0.0).all()


def test_one_success_in_four_by_hand() -> None:
    np.testing.assert_allclose(one_group([1, 0, 0, 0]), [1.499997, -0.499999, -0.499999, -0.499999], atol=1e-6)
    np.testing.assert_allclose(
        one_group([1, 0, 0, 0], deviation="population"), [1.732047, -0.577349, -0.577349, -0.577349], atol=1e-6
    )
    np.testing.assert_allclose(one_group([1, 0, 0, 0], normalise="mean"), [0.75, -0.25, -0.25, -0.25])


@pytest.mark.parametrize("normalise", ["mean_std", "mean"])
def test_single_survivor_has_no_advantage_however_many_turns_it_has(normalise: str) -> None:
    how = AdvantageSettings(normalise=normalise)
    assert (group_advantages(["g"] * 3, ["t"] * 3, [10.0, 9.9, 10.0], how) == 0.0).all()


def test_a_fault_is_not_a_failure() -> None:
    """Group of 8 with rewards 1 1 0 0 0 0 0 and one broken episode: statistics over the seven survivors."""
    episodes = [episode("a", i, r) for i, r in enumerate([1, 1, 0, 0, 0, 0, 0])] + [episode("a", 7, 0.0, fault=True)]
    streams, counts = make_algorithm(GrpoSettings()).streams(batch(episodes))
    firsts = [s.advantage_T[2] for s in streams]
    np.testing.assert_allclose(firsts, [1.463847] * 2 + [-0.585539] * 5, atol=1e-6)
    assert counts["groups"] == 1 and counts["groups_tied"] == counts["groups_single"] == 0


def test_advantage_lies_on_the_sampled_tokens_of_its_turn_and_nowhere_else() -> None:
    made = batch([episode("a", 0, 10.0, [True, False], tokens=2), episode("a", 1, 0.0, tokens=2)], merged=True)
    streams, _ = make_algorithm(GrpoSettings()).streams(made)
    r = np.array([10.0, 9.9, 0.0])
    a = (r - r.mean()) / (r.std(ddof=1) + 1e-6)
    np.testing.assert_allclose(streams[0].advantage_T, [0, 0, a[0], a[0], 0, 0, a[1], a[1], 0, 0], rtol=1e-6)
    assert streams[0].advantage_T.dtype == np.float32 and streams[0].teacher_T is None


def test_counts_name_the_groups_without_signal() -> None:
    made = batch(
        [
            episode("won", 0, 1.0),
            episode("won", 1, 1.0),
            episode("lost", 0, 0.0),
            episode("lost", 1, 0.0),
            episode("format", 0, 0.0, [False, True]),
            episode("format", 1, 0.0),
            episode("alone", 0, 1.0),
            episode("alone", 1, 0.0, fault=True),
            episode("mixed", 0, 1.0),
            episode("mixed", 1, 0.0),
        ]
    )
    _, counts = make_algorithm(GrpoSettings()).streams(made)
    assert counts == {
        "groups": 5,
        "groups_single": 1,
        "groups_tied": 3,
        "groups_all_won": 1,
        "groups_none_won": 2,
        "groups_penalty_only": 1,
    }


def test_without_a_penalty_invalid_actions_leave_a_tied_group_tied() -> None:
    made = batch([episode("a", 0, 0.0, [False, True]), episode("a", 1, 0.0, [False])])
    streams, counts = make_algorithm(GrpoSettings(invalid_penalty=0.0)).streams(made)
    assert all((s.advantage_T == 0).all() for s in streams) and counts["groups_penalty_only"] == 0


def test_statistics_over_trajectories_do_not_weigh_long_episodes_more() -> None:
    """A win of one turn against a loss of three: over turns the mean is 2.5, over trajectories 5."""
    ids, rewards = ["w", "l", "l", "l"], [10.0, 0.0, 0.0, 0.0]
    over_turns = group_advantages(["g"] * 4, ids, rewards, AdvantageSettings(normalise="mean"))
    over_episodes = group_advantages(
        ["g"] * 4, ids, rewards, AdvantageSettings(normalise="mean", statistics="trajectories")
    )
    np.testing.assert_allclose(over_turns, [7.5, -2.5, -2.5, -2.5])
    np.testing.assert_allclose(over_episodes, [5.0, -5.0, -5.0, -5.0])


def test_penalty_over_a_tied_trajectory_statistic_does_not_explode() -> None:
    """First turns all valid and lost, one later turn invalid: -0.1 / epsilon would be -100,000."""
    how = AdvantageSettings(statistics="trajectories")
    assert (group_advantages(["g"] * 4, ["a", "a", "b", "b"], [0.0, -0.1, 0.0, 0.0], how) == 0.0).all()


TURNS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([0.0, -0.1, 1.0, 9.9, 10.0])),
    min_size=1,
    max_size=24,
)


@given(turns=TURNS, shuffle=st.randoms(use_true_random=False))
def test_order_of_turns_and_groups_changes_no_bit(turns: list[tuple[int, int, float]], shuffle: object) -> None:
    def advantages(listed: list[tuple[int, int, float]]) -> dict[int, float]:
        values = group_advantages(
            [g for g, _, _ in listed], [(g, m) for g, m, _ in listed], [r for _, _, r in listed], DEFAULT
        )
        return {position[id(t)]: v for t, v in zip(listed, values, strict=True)}

    turns = [(g, m, r) for g, m, r in turns]
    position = {id(t): i for i, t in enumerate(turns)}
    mixed = list(turns)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    assert advantages(mixed) == advantages(turns)


@given(turns=TURNS)
def test_group_mean_is_zero_and_a_group_never_sees_another(turns: list[tuple[int, int, float]]) -> None:
    groups = np.array([g for g, _, _ in turns])
    values = group_advantages(groups.tolist(), [m for _, m, _ in turns], [r for _, _, r in turns], DEFAULT)
    for g in set(groups.tolist()):
        mine = [t for t in turns if t[0] == g]
        assert abs(values[groups == g].sum()) < 1e-6 * len(mine)
        alone = group_advantages([g] * len(mine), [m for _, m, _ in mine], [r for _, _, r in mine], DEFAULT)
        np.testing.assert_array_equal(values[groups == g], alone)


EPISODES = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([0.0, 10.0]), st.lists(st.booleans(), min_size=1, max_size=4)),
    min_size=1,
    max_size=8,
)


@given(spec=EPISODES)
def test_merged_and_split_rows_give_every_token_the_same_advantage(spec: list[tuple[int, float, list[bool]]]) -> None:
    episodes = [episode(f"t{g}", i, r, valid) for i, (g, r, valid) in enumerate(spec)]

    def per_token(merged: bool) -> list[np.ndarray]:
        made = batch(episodes, merged=merged)
        streams, _ = make_algorithm(GrpoSettings()).streams(made)
        return [
            s.advantage_T[sample.turn_T == k]
            for s, sample in zip(streams, made.samples, strict=True)
            for k in sample.turns
        ]

    for a, b in zip(per_token(True), per_token(False), strict=True):
        np.testing.assert_array_equal(a, b)
