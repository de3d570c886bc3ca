"""What ``shift`` prints is what lies on disk, computed by hand; what cannot be shown is said in one sentence."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rundirs import EVIL, byte_tokenizer, episode, make_run, skill_of, values

from seedbed.types import UserError
from seedbed.view.rundir import RunDirectory, pieces
from seedbed.view.shift import pick, print_shift, summarise, token_shifts


def letters(ids: list[int]) -> list[str]:
    return pieces(ids, lambda part: byte_tokenizer().decode(part))


def printed(path, update=None, trajectory=None, top=3) -> str:
    console = Console(record=True, width=160, file=io.StringIO())
    print_shift(console, RunDirectory.open(path), update, trajectory, top)
    return console.export_text()


def test_tokens_keep_their_turn_text_gap_and_gate():
    played = episode(responses=("go", "ab"))
    found = token_shifts(played, values(played, [0.2, -0.6, 0.0, math.nan]), 5.0, letters)
    assert [(t.turn, t.text) for t in found] == [(0, "g"), (0, "o"), (1, "a"), (1, "b")]
    assert [t.gap for t in found[:3]] == pytest.approx([0.2, -0.6, 0.0], abs=1e-6)
    assert [t.gate for t in found[:3]] == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.exp(3)), 0.5], abs=1e-6)
    assert math.isnan(found[3].gap) and math.isnan(found[3].gate)
    assert found[0].ordinary == -1 and found[0].advantage == 0.5


def test_the_summary_pools_tokens_and_counts_scored_episodes():
    a, b, c = episode(0), episode(1, won=False), episode(2)  # six tokens each
    pairs = [(a, values(a, [0.2, -0.6])), (b, values(b, [0.05])), (c, values(c, None))]
    found = summarise(pairs)
    assert (found.trajectories, found.tokens) == (2, 12)
    assert found.mean == pytest.approx((3 * 0.2 - 3 * 0.6 + 6 * 0.05) / 12, abs=1e-6)
    assert found.mean_abs == pytest.approx((3 * 0.2 + 3 * 0.6 + 6 * 0.05) / 12, abs=1e-6)
    assert (found.share_wide, found.share_low) == (0.5, 0.25)
    assert math.isnan(summarise([pairs[2]]).mean)


def test_the_print_holds_skill_outcome_tokens_and_the_split(tmp_path):
    won, lost = episode(0), episode(1, won=False)
    text = printed(make_run(tmp_path, {1: [(won, [0.1])], 2: [(won, [0.02]), (lost, [0.3, -0.9])]}))
    assert "update 2, episode v0/mug-1/1" in text  # last update, largest mean |gap|
    assert "skill (avoidance, ok, by policy): look first" in text
    assert "outcome: lost" in text
    summary = text.split("all scored tokens")[1]
    assert [row.split() for row in summary.splitlines() if "won" in row] == [
        ["│", "won", "│", "1", "of", "1", "│", "6", "│", "+0.020", "│", "0.020", "│", "0.0", "%", "│", "0.0", "%", "│"]
    ]
    assert "50.0 %" in next(row for row in summary.splitlines() if "lost" in row)
    assert "the 3 largest |gap|" in text and text.count("-0.900") == 6  # three in the list, three on top


def test_the_gate_uses_the_sharpness_of_the_run_and_5_without(tmp_path):
    for sharpness, gate in ((2.0, "0.646"), (None, "0.818")):
        path = make_run(tmp_path / str(sharpness), {1: [(episode(), [0.3])]}, sharpness=sharpness)
        assert gate in printed(path)


def test_asked_update_and_trajectory_are_shown(tmp_path):
    a, b = episode(0), episode(1)
    path = make_run(tmp_path, {1: [(a, [0.5]), (b, [0.1])], 2: [(a, [0.2])]})
    assert "update 1, episode v0/mug-1/1" in printed(path, 1, b.id)


def test_mistakes_are_one_sentence(tmp_path):
    a, b = episode(0), episode(1)
    path = make_run(tmp_path / "seed", {1: [(a, [0.5]), (b, None)]})
    for update, trajectory, says in (
        (9, None, "stored: 1 to 1"),
        (1, "v0/mug-1/7", "did you mean 'v0/mug-1/"),
        (1, b.id, "has no scores"),
    ):
        with pytest.raises(UserError, match=says):
            printed(path, update, trajectory)
    grpo = make_run(tmp_path / "grpo", {1: [(a, None)]}, algo="grpo")
    with pytest.raises(UserError, match="algo.name is 'grpo'"):
        printed(grpo)
    with pytest.raises(UserError, match=r"holds no manifest\.json"):
        RunDirectory.open(tmp_path)


def test_terminal_escapes_and_surrogates_in_texts_are_shown_not_obeyed(tmp_path):
    path = make_run(tmp_path, {1: [(episode(goal=EVIL, responses=("a\x1b[2Jb", "[red]x")), [0.5])]}, skill_text=EVIL)
    text = printed(path)
    assert "\x1b" not in text and "\u202e" not in text and "\ud800" not in text
    assert "⟨U+001B⟩[31m" in text and "<script>" in text


def test_pick_prefers_the_largest_mean_gap_over_the_largest_single_one():
    a, b = episode(0), episode(1)
    assert pick([(a, values(a, [1.5, 0, 0, 0, 0, 0])), (b, values(b, [0.3]))])[0] is b


@given(st.text(alphabet="ab é漢😀\n", max_size=20))
def test_token_pieces_join_to_the_text_even_where_a_character_has_several_tokens(text):
    ids = byte_tokenizer().encode(text).ids
    found = letters(ids)
    assert len(found) == len(ids) == len(text.encode())
    assert "".join(found) == text


def test_pieces_keep_a_cut_character_at_the_end():
    ids = byte_tokenizer().encode("aé").ids[:2]
    assert letters(ids) == ["a", "\ufffd"]


def test_skill_of_another_update_is_not_shown(tmp_path):
    played = episode()
    path = make_run(tmp_path, {1: [(played, [0.5])]}, skill_text="old")
    from seedbed.track.store import append_jsonl, skill_line

    append_jsonl(path / "skills.jsonl", [skill_line(skill_of(played, "new"), update=2)])
    assert RunDirectory.open(path).skills(1)[played.id].text == "old"
