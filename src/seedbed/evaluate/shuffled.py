"""Does a result hang on the order of files or of rows in them? A copy of a benchmark's data in another order.

The copy says the same in every other respect, so an evaluation on it must come out the same to the last character.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from seedbed.envs.alfworld.data import SIZES, find_games
from seedbed.envs.search.datasets import data_folder, load_questions
from seedbed.envs.search.env import find_corpus
from seedbed.envs.search.passages import read_corpus
from seedbed.envs.webshop.data import find_files
from seedbed.types import Task


def shuffled_copy(env: str, tasks: Sequence[Task], folder: Path, seed: int = 0) -> dict[str, str]:
    """Write all that ``tasks`` of a shipped environment need below ``folder``; the variables to set so that it is found
    (none if the environment reads no files).

    ALFWorld: the games of whole splits, written in another order. WebShop: the products and their attributes.
    Search-QA: the questions of whole sets and the corpus.
    """
    return _COPIES[env](tasks, folder, Random(seed)) if env in _COPIES else {}


def _alfworld(tasks: Sequence[Task], folder: Path, rng: Random) -> dict[str, str]:
    files = find_games()
    games = [game for split in SIZES if split in {t.split for t in tasks} for game in files.ids(split)]
    for game in _mixed(games, rng):
        place = folder / "json_2.1.1" / game
        place.mkdir(parents=True)
        (place / "game.tw-pddl").write_bytes(files.read(game))
    return {"ALFWORLD_DATA": str(folder)}


def _webshop(tasks: Sequence[Task], folder: Path, rng: Random) -> dict[str, str]:
    files = find_files("small")
    attributes, human = files.instructions()
    for name, content in (
        ("items_shuffle_1000", _mixed(list(files.records()), rng)),
        ("items_ins_v2_1000", dict(_mixed(list(attributes.items()), rng))),
        ("items_human_ins", dict(_mixed(list(human.items()), rng))),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return {"WEBSHOP_DATA": str(folder)}


def _search(tasks: Sequence[Task], folder: Path, rng: Random) -> dict[str, str]:
    for split, name in sorted({tuple(t.id.split("/")[:2]) for t in tasks}):
        questions = load_questions(split, (name,))[name].values()
        rows = [{"question": q.text, "golden_answers": list(q.golds)} for q in questions]
        _write(folder / f"{name}_{split}.jsonl", _mixed(rows, rng))
    if corpus := find_corpus(data_folder()):
        passages = [{"id": passage.id, "contents": passage.contents} for passage in read_corpus(corpus)]
        _write(folder / corpus.name, _mixed(passages, rng))
    return {"SEARCH_DATA": str(folder)}


_COPIES = {"alfworld": _alfworld, "webshop": _webshop, "search": _search}


def _mixed(rows: Sequence[Any], rng: Random) -> list[Any]:
    return rng.sample(rows, len(rows))


def _write(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    packers = {".xz": partial(lzma.compress, preset=0), ".gz": partial(gzip.compress, compresslevel=1)}
    file.write_bytes(packers.get(file.suffix, bytes)(text))
