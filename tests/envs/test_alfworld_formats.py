"""The older format of the game files, 2.1.1: other words, same rules.

Real files of it are not among the test data. They are made here from real 2.1.2 files by undoing the official patch;
that the result is what was published shows in its hash, which the engine knows from 474 published files.
"""

from __future__ import annotations

import json
import re

import pytest

from seedbed.envs.alfworld.data import SIZES
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.alfworld.game import Engine
from seedbed.envs.alfworld.problem import parse_game, read_problem
from seedbed.envs.alfworld.sentences import MOVE, PUT
from seedbed.types import UserError

GOAL = (
    "(and (exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) (objectType ?o MugType)"
    " (receptacleType ?r ShelfType)))))"
)
FACTS = """
    (atLocation agent1 loc_bar__minus_5)
    (receptacleType Shelf_bar_1 ShelfType) (receptacleAtLocation Shelf_bar_1 loc_bar_0)
    (receptacleType Desk_bar_1 DeskType) (receptacleAtLocation Desk_bar_1 loc_bar__minus_1)
    (objectType Mug_bar_1 MugType) (pickupable Mug_bar_1) (inReceptacle Mug_bar_1 Desk_bar_1)
    (objectAtLocation Mug_bar_1 loc_bar__minus_1) (objectAtLocation Mug_bar_1 loc_bar_9)
    (canContain ShelfType MugType)
"""


def older(content: bytes, *parts: str) -> bytes:
    """A 2.1.2 file with the given parts (domain, grammar) as they were in 2.1.1, and without walkthrough."""
    game = json.loads(content)
    del game["walkthrough"]
    if "domain" in parts:
        game["pddl_domain"] = re.sub(r"\(:action help.*?\n\)\n", "", game["pddl_domain"], flags=re.DOTALL)
    if "grammar" in parts:
        for new, old in (
            ("You arrive at {r.name}.", "You arrive at {lend.name}."),
            ("move {o} to {r}", "put {o} in/on {r}"),
            ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
        ):
            game["grammar"] = game["grammar"].replace(new, old)
        game["grammar"] = game["grammar"][: game["grammar"].index("\naction help {")]
    return json.dumps(game).encode()


def test_words_of_the_older_format():
    """Locations are numbered like things: in id order (as strings: minus after digits), highest number first."""
    text = f"(define (problem p) (:objects)\n(:init {FACTS})\n(:goal {GOAL}))"
    engine = Engine(read_problem(text, "put a mug in shelf.", "", (), PUT))
    assert engine.admissible == ["go to desk 1", "go to shelf 1", "inventory", "look"]
    assert engine.step("help") == "Nothing happens."
    assert engine.step("go to desk 1") == "You arrive at loc 2. On the desk 1, you see a mug 1."
    assert engine.step("take mug 1 from desk 1") == "You pick up the mug 1 from the desk 1."
    assert engine.step("go to shelf 1") == "You arrive at loc 4. On the shelf 1, you see nothing."
    assert "put mug 1 in/on shelf 1" in engine.admissible
    for other in ("move mug 1 to shelf 1", "put mug 1 in shelf 1", "put mug 1 on shelf 1"):
        assert engine.step(other) == "Nothing happens."
    assert engine.step("put mug 1 in/on shelf 1") == "You put the mug 1 in/on the shelf 1."
    assert engine.won


def test_both_formats_of_a_real_game_play_alike(real_games):
    """Every unseen game, its walkthrough translated: the same room, the same texts but for the words that differ."""
    names = [name for name in real_games.content if name.startswith("valid_unseen/")]
    assert len(names) == 134
    for name in names:
        content = real_games.content[name]
        new, old = parse_game(content, name), parse_game(older(content, "domain", "grammar"), name)
        assert (new.dialect, old.dialect) == (MOVE, PUT)
        assert old.walkthrough == () and len(set(old.locations)) == len(old.locations) > 0
        here, there = Engine(new), Engine(old)
        assert here.intro == there.intro
        for command in new.walkthrough:
            put = re.sub(r"^move (.*) to ", r"put \1 in/on ", command)
            assert put in there.admissible
            text, before = here.step(command), there.step(put)
            if command.startswith("go to "):
                assert re.fullmatch(r"You arrive at loc [1-9]\d*\. .*", before)
            assert text.partition(". ")[2] == before.partition(". ")[2]
            assert [c for c in here.admissible if not c.startswith(("move", "help"))] == [
                c for c in there.admissible if not c.startswith("put")
            ]
            assert here.won == there.won
        assert there.won


def test_half_of_a_format_is_refused(real_games):
    content = next(iter(real_games.content.values()))
    for part in ("domain", "grammar"):
        with pytest.raises(UserError, match=r"has a grammar that this engine does not know"):
            parse_game(older(content, part), "room.tw-pddl")


def test_a_game_without_walkthrough_is_not_replayed(real_games, monkeypatch, tmp_path):
    name, content = next((n, c) for n, c in real_games.content.items() if n.startswith("valid_seen/"))
    path = tmp_path / "json_2.1.1" / name / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_bytes(older(content, "domain", "grammar"))
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    monkeypatch.setitem(SIZES, "valid_seen", 1)
    with pytest.raises(UserError, match=r"stores no walkthrough \(format 2\.1\.1 has none\)"):
        next(AlfWorld().walkthroughs("valid_seen"))
