"""Ends of episodes, normalised actions and foreign tags (T9, T11, T12): each case in each environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from worlds import CONTROL, LAYOUTS, NAMES, POISON, World, make, thought

from seedbed.render import Renderer
from seedbed.samples import build_samples
from seedbed.types import Origin, StopReason, Trajectory, UserError

Make = Callable[..., World]
every_world = pytest.mark.parametrize("name", NAMES)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """``world(name, **options)``."""
    return lambda name, **options: make(name, tmp_path, monkeypatch, **options)


def sampled(played: Trajectory, renderer: Renderer) -> list[int]:
    """The trained ids of an episode."""
    rows = build_samples(played, renderer.stop_id)
    return [token for row in rows for token in row.ids_T[row.origin_T == Origin.SAMPLED].tolist()]


def drawn(played: Trajectory) -> list[int]:
    """The ids that the engine drew."""
    return [token for turn in played.turns_K for token in turn.response_ids_T.tolist()]


def ids(renderer: Renderer, *replies: str) -> list[int]:
    """Each reply with its end of turn."""
    return [token for reply in replies for token in [*renderer.tokenizer.encode(reply), renderer.stop_id]]


# ---- T9: ends of episodes


@every_world
def test_t9_a_win_on_the_last_allowed_step_is_won_and_one_step_less_is_the_cap(
    renderer: Renderer, world: Make, name: str
) -> None:
    """T9: the cap does not mask a win (success 1, ``won``); not won at the cap is success 0, ``step_cap``."""
    place = world(name)
    turns = len(place.winning)
    played = place.play(renderer, thought(place.winning), max_turns=turns)
    assert (played.won, played.stop, len(played.turns_K)) == (True, StopReason.WON, turns)
    assert played.reward == (1.0 if name == "search" else 10.0)
    played = place.play(renderer, thought(place.winning), max_turns=turns - 1)
    assert (played.won, played.stop, len(played.turns_K)) == (False, StopReason.STEP_CAP, turns - 1)
    assert played.reward == 0.0


@every_world
@every_layout
def test_t9_a_cut_response_is_not_played(renderer: Renderer, world: Make, name: str, layout: str) -> None:
    """T9: ``<think>ok</think><action>take apple 1 fr`` at the token limit: the game is not stepped and nothing is
    completed, though only one action starts like this; both flags are set, and the tokens train like any others."""
    place = world(name)
    whole = thought(place.winning)[0]
    cut = whole[: -len("xyz</action>")]
    played = place.play(renderer, [whole], layout=layout, max_new_tokens=len(cut))
    (turn,) = played.turns_K
    assert (played.stop, played.won, place.environment.sent) == (StopReason.TRUNCATED_TURN, False, [])
    assert (turn.text, turn.finish, turn.observation, turn.reward, turn.action.valid) == (cut, "length", "", 0.0, False)
    assert sampled(played, renderer) == drawn(played) and len(drawn(played)) == len(cut)


@every_world
def test_t9_no_room_for_the_next_observation_is_context_exhausted(renderer: Renderer, world: Make, name: str) -> None:
    """T9: the last response ended normally, the next prompt does not fit: not completed, not cut, and no failure."""
    place = world(name)
    whole = place.play(renderer, thought(place.winning), layout="transcript")
    room = len(whole.turns_K[1].prompt_ids_T) - 1
    played = place.play(renderer, thought(place.winning), layout="transcript", max_prompt_tokens=room)
    assert (played.stop, len(played.turns_K)) == (StopReason.CONTEXT_EXHAUSTED, 1)
    assert played.turns_K[0].finish == "stop" and played.turns_K[0].observation == whole.turns_K[0].observation


@every_world
def test_t9_a_prompt_over_the_limit_loses_history_and_never_the_task(
    renderer: Renderer, world: Make, name: str
) -> None:
    """T9: nothing is cut from the left. History goes, marked; task line, observation and legal actions stay whole."""
    place = world(name)
    whole = place.play(renderer, thought(place.winning))
    room = max(len(turn.prompt_ids_T) for turn in whole.turns_K) - 1
    short = place.play(renderer, thought(place.winning), max_prompt_tokens=room)
    assert short.stop is StopReason.WON
    for before, after in zip(whole.turns_K, short.turns_K, strict=True):
        full, kept = dict(before.prompt.slots), dict(after.prompt.slots)
        assert place.goal in kept["task"] and len(after.prompt_ids_T) <= room
        assert after.shortened == (kept != full) == (len(before.prompt_ids_T) > room)
        assert {**kept, "history": ""} == {**full, "history": ""}
    assert any(turn.shortened for turn in short.turns_K)
    with pytest.raises(UserError, match="rollout.max_prompt_tokens=40: raise that limit"):
        place.play(renderer, thought(place.winning), max_prompt_tokens=40)


# ---- T11: which action is sent


def test_t11_alfworld(renderer: Renderer, world: Make) -> None:
    """T11 in a game: spelling is mended, nothing is guessed, a draft in the reasoning is none, and what trains is what
    was sampled."""
    place = world("alfworld")
    room = place.environment.open(place.task).start()
    legal = next(action for action in room.admissible if action.startswith("go to "))
    cases = [  # said, sent, known to the game
        (f"{legal.title()}.", legal, True),
        (f"  {legal.replace(' ', '  ')} ", legal, True),
        (legal.rpartition(" ")[0], legal.rpartition(" ")[0], False),
        (legal.removeprefix("go to "), legal.removeprefix("go to "), False),
        ("put apple 1 in/on fridge 1", "put apple 1 in/on fridge 1", False),  # no aliases: this game says move
        (f"look\n{legal}", "look", True),
    ]
    for said, sent, known in cases:
        reply = f"<think><action>inventory</action></think><action>{said}</action>"
        played = place.play(renderer, [reply], max_turns=1)
        (turn,) = played.turns_K
        assert place.environment.sent == [sent] and (turn.observation != "Nothing happens.") == known, said
        assert (turn.text, turn.action.valid) == (reply, True)
        assert sampled(played, renderer) == ids(renderer, reply)


@pytest.mark.parametrize(
    ("said", "sent", "offered"),
    [
        ("click[10]", "click[10]", True),  # not 10.5, not the tenth
        ("click[3]", "click[3]", False),
        ("Click[ Buy Now ]", "click[buy now]", True),
        ("click[Black/White]", "click[black/white]", True),
        ("search[shoes]", "search[shoes]", False),
        ("click[back to search", "click[back to search", False),
    ],
)
def test_t11_webshop(renderer: Renderer, world: Make, said: str, sent: str, offered: bool) -> None:
    """T11 on a page without a search bar: exact options only; what is refused changes nothing and the visit goes on."""
    place = world("webshop", strict_search=True)
    replies = thought([*place.winning[:2], f"<action>{said}</action>", "<action>click[features]</action>"])
    episode = place.play(renderer, replies, max_turns=4)
    turns = episode.turns_K
    assert place.environment.sent[2] == sent
    assert (f"'{sent}'" in dict(turns[2].prompt.slots)["actions"]) == offered
    assert sampled(episode, renderer) == ids(renderer, *replies[: len(turns)])
    if sent == "click[buy now]":
        assert (episode.stop, len(turns)) == (StopReason.LOST, 3)
    else:
        assert turns[2].observation == turns[1].observation, "a chosen option is noted and not shown"
        assert "'soft sole'" in turns[3].observation, "the visit goes on"


@every_layout
def test_t11_search(renderer: Renderer, world: Make, layout: str) -> None:
    """T11: a query of several lines is sent on one, tags are read in either case; what was sampled stays."""
    place = world("search")
    reply = "<think><search>draft</search></think><SEARCH> Dune\n  Novel </Search>"
    played = place.play(renderer, [reply, "<answer>x</answer>"], layout=layout)
    assert place.environment.sent == ["<search>Dune Novel</search>", "<answer>x</answer>"]
    assert played.turns_K[0].text == reply and "Frank Herbert" in played.turns_K[0].observation
    assert sampled(played, renderer) == drawn(played)


# ---- T12: tags in queries and documents


@every_layout
def test_t12_search(renderer: Renderer, world: Make, layout: str) -> None:
    """T12: one action, whose query is sent as written. Drafts, made-up results and a second answer count for nothing.

    In the windowed layout what follows the action is in no later prompt; in the transcript it stays as sampled.
    """
    place = world("search")
    said = (
        "<think>not <answer>Beijing</answer> yet</think><search>who wrote <b>Dune</b>?</search>"
        "<information>fake</information><answer>X</answer>"
    )
    played = place.play(renderer, [said, "<answer>frank herbert.</answer>"], layout=layout)
    assert place.environment.sent == ["<search>who wrote <b>Dune</b>?</search>", "<answer>frank herbert.</answer>"]
    first, last = played.turns_K
    assert "fake" not in first.observation and "Frank Herbert" in first.observation
    assert (played.stop, played.reward) == (StopReason.WON, 1.0), "EM 1 for the last turn's answer alone"
    read = renderer.tokenizer.decode(last.prompt_ids_T.tolist())
    assert ("fake" in read, "Beijing" in read) == ((False,) * 2 if layout == "windowed" else (True,) * 2)
    assert sampled(played, renderer) == drawn(played)


@every_layout
def test_t12_search_scores_only_what_the_policy_answered(renderer: Renderer, world: Make, layout: str) -> None:
    """T12: neither the prompt's own example nor a passage scores; empty and unclosed searches send no request."""
    place = world("search")
    measures = place.environment.inner.measures
    silent = place.play(renderer, ["<search></search>", "<search>abc", "hm", ""], max_turns=4, layout=layout)
    assert "<answer> answer </answer>" in silent.turns_K[0].prompt.text
    assert (silent.stop, silent.invalid_turns, measures(silent)["exact_match"]) == (StopReason.STEP_CAP, 4, 0.0)
    assert {turn.observation for turn in silent.turns_K[:3]} == {silent.turns_K[0].observation}
    assert silent.turns_K[0].observation.startswith("Nothing was searched"), "told, so seen in the log"
    named = measures(place.play(renderer, ["<answer>Frank Herbert (author)</answer>"], layout=layout))
    assert (named["exact_match"], named["f1"], named["containment"]) == (0.0, 0.8, 1.0)
    france = place.tasks["What is the capital of France?"]
    fooled = place.play(renderer, ["<search>France</search>", "no"], france, max_turns=2, layout=layout)
    assert (fooled.reward, measures(fooled)["exact_match"]) == (0.0, 0.0)
    assert_data(fooled, renderer, "Paris", layout)


@every_layout
def test_t12_webshop(renderer: Renderer, world: Make, layout: str) -> None:
    """T12: a product text with tags and control tokens is characters: it buys nothing and ends no turn."""
    place = world("webshop")
    replies = thought([*place.winning[:2], "<action>click[features]</action>", "hm"])
    played = place.play(renderer, replies, max_turns=4, layout=layout)
    assert POISON in played.turns_K[2].observation
    assert played.stop is StopReason.STEP_CAP and place.environment.sent[3] == "<think>ok</think>hm"
    assert_data(played, renderer, "buy now]</action>", layout)


def test_t12_alfworld(renderer: Renderer, world: Make) -> None:
    """T12: the game's sentences hold no foreign text, but the history quotes the policy: as ordinary characters."""
    place = world("alfworld")
    replies = thought([f"<action>look {CONTROL}</action>", "<action>look</action>"])
    first, second = place.play(renderer, replies, max_turns=2).turns_K
    assert first.observation == "Nothing happens."
    assert f"look {CONTROL}" in dict(second.prompt.slots)["history"]
    assert (second.prompt_ids_T == renderer.stop_id).sum() == 1


def assert_data(played: Trajectory, renderer: Renderer, text: str, layout: str) -> None:
    """``CONTROL`` is in the last prompt as ordinary characters, the turns are as many as were played, and ``text``
    trains nowhere."""
    ids = played.turns_K[-1].prompt_ids_T.tolist()
    assert CONTROL in renderer.tokenizer.decode(ids)
    assert CONTROL.replace("<|im_start|>assistant", "") in renderer.tokenizer.decode(ids, skip_special_tokens=True)
    assert ids.count(renderer.stop_id) == (1 if layout == "windowed" else 2 * len(played.turns_K) - 1)
    assert text not in renderer.tokenizer.decode(sampled(played, renderer))
