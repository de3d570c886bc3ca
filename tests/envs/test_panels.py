"""Panels: what is checked in is what the recipes give."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from seedbed.envs import panels
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.alfworld.world import KINDS
from seedbed.types import UserError


def test_names_are_the_recipes():
    assert (
        panels.panel_names()
        == tuple(sorted(panels.RECIPES | panels.DRAWS))
        == (
            "alfworld-seen-140",
            "alfworld-unseen-134",
            "ezpoints-128",
            "household-120",
            "household-300",
            "search-2wikimultihopqa-12576",
            "search-7x100",
            "search-bamboogle-125",
            "search-hotpotqa-7405",
            "search-musique-2417",
            "search-nq-3610",
            "search-popqa-1000",
            "search-triviaqa-1000",
            "sokoban-128",
            "webshop-test-128",
            "webshop-test-500",
        )
    )


@pytest.mark.parametrize("name", ["household-120", "household-300"])
def test_household_files_are_what_the_recipe_gives(name):
    assert (panels.DIRECTORY / f"{name}.json").read_text() == panels.build_panel(name)


def test_household_panels_are_balanced_and_disjoint():
    small, large = panels.load_panel("household-120"), panels.load_panel("household-300")
    assert Counter(t.kind for t in small.tasks) == dict.fromkeys(KINDS, 20)
    assert Counter(t.kind for t in large.tasks) == dict.fromkeys(KINDS, 50)
    ids = {t.id for t in (*small.tasks, *large.tasks)}
    assert len(ids) == 420 and set(small.tasks + large.tasks) <= set(AlfWorld().tasks("generated_valid"))


def test_real_panels_are_the_whole_splits(real_games):
    for name, split in (("alfworld-seen-140", "valid_seen"), ("alfworld-unseen-134", "valid_unseen")):
        panel = panels.load_panel(name)
        assert [t.id for t in panel.tasks] == sorted(i for i in real_games.ids if i.startswith(f"{split}/"))
        assert {t.split for t in panel.tasks} == {split}


def test_real_panels_load_without_game_files_and_have_the_published_types():
    """In the order of ``KINDS``: pick, look, clean, heat, cool, two."""
    published = {"alfworld-unseen-134": (24, 18, 31, 23, 21, 17), "alfworld-seen-140": (35, 13, 27, 16, 25, 24)}
    for name, counts in published.items():
        panel = panels.load_panel(name)
        assert Counter(t.kind for t in panel.tasks) == dict(zip(KINDS, counts, strict=True))


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match="unknown panel 'household-12'; did you mean 'household-120'"):
        panels.load_panel("household-12")
    with pytest.raises(UserError, match=r"unknown panel '\.\./x'"):
        panels.load_panel("../x")


def test_an_edited_panel_is_refused(monkeypatch, tmp_path):
    content = json.loads((panels.DIRECTORY / "household-120.json").read_text())
    content["tasks"].pop()
    (tmp_path / "mine.json").write_text(json.dumps(content))
    monkeypatch.setattr(panels, "DIRECTORY", tmp_path)
    with pytest.raises(UserError, match=r"mine\.json was edited"):
        panels.load_panel("mine")
