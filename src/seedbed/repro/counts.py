"""Is the data the paper's? What is here, counted beside the paper's Table 3, with a hash of what was counted.

What is not on this machine is ``not here``: that is no difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from seedbed.config import Config, load_config
from seedbed.envs.alfworld import data as games
from seedbed.envs.base import environment_from
from seedbed.envs.doctor import examine
from seedbed.envs.panels import build_panel, load_panel
from seedbed.envs.search import datasets as questions
from seedbed.repro.data import hash_of
from seedbed.repro.tables import paper_tables
from seedbed.train.collect import draw_balanced
from seedbed.types import Task, UserError

Listed = Callable[[str], Sequence[Task]]  #: tasks of a split, read once
State = Literal["same", "differs", "not here"]
BENCHMARKS = ("alfworld", "webshop", "search")  #: of Table 3


@dataclass(frozen=True, slots=True)
class Count:
    benchmark: str
    what: str
    paper: int
    here: int | None
    state: State
    source: str
    hash: str | None = None  #: sha256 of the sorted ids, or of the panel
    note: str = ""


def counts(benchmark: str, config: Config | None = None) -> list[Count]:
    """What Table 3 says of a benchmark; ``config`` is its preset's unless given. Empty for one that is not in it."""
    if benchmark not in BENCHMARKS:
        return []
    config = config or load_config(benchmark)
    listed = cache(environment_from(config.env).tasks)
    return [*_planned(benchmark, config, listed), *_data(benchmark, listed)]


def mend(benchmark: str) -> str:
    """The command that brings what is missing of a benchmark, empty if nothing is."""
    return next((finding.mend for finding in examine(benchmark) if finding.state == "missing"), "")


def _planned(name: str, config: Config, listed: Listed) -> Iterator[Count]:
    """What the settings come to, and the Stage-1 tasks that they draw."""
    table, source = paper_tables()["table3"], "paper Table 3"
    drawn, note = None, ""
    try:
        tasks = draw_balanced(listed(config.env.train_split), config.collect.tasks, config.seed)
        drawn = hash_of([task.id for task in tasks])
    except UserError as error:
        note = f"not drawn: {_first(error)}"
    yield _count(name, "Stage-1 tasks", table["sft_tasks"][name], config.collect.tasks, source, drawn, note)
    whole = table["sft_tasks"][name] * table["sft_attempts"]
    yield _count(name, "Stage-1 trajectories", whole, config.collect.tasks * config.collect.attempts, source)
    played = config.train.updates * config.train.tasks
    yield _count(name, "RL task draws", table["rl_tasks"][name], played, f"{source}: updates x tasks an update")


def _data(name: str, listed: Listed) -> Iterator[Count]:
    test = paper_tables()["table3"]["test_tasks"]
    if name == "alfworld":
        for split, size in (("valid_seen", test["alfworld-seen"]), ("valid_unseen", test["alfworld-unseen"])):
            panel = "alfworld-seen-140" if split == "valid_seen" else "alfworld-unseen-134"
            yield _panel(name, listed, split, panel, size, "paper Table 3")
        yield _split(name, listed, "train", games.SIZES["train"], "official code (json_2.1.1/train)")
    elif name == "webshop":
        yield _panel(name, listed, "test", "webshop-test-128", test["webshop"], "paper Table 3")
        yield _split(name, listed, "test", 500, "official code: goals 0 to 499, which the 128 are drawn from")
        yield _split(name, listed, "train", 6410, "official code: goals from 500 on")
    else:
        yield from _questions(test["search"])


def _split(name: str, listed: Listed, split: str, paper: int, source: str) -> Count:
    try:
        ids = [task.id for task in listed(split)]
    except UserError as error:
        return _absent(name, f"{split} tasks", split, paper, source, error)
    return _count(name, f"{split} tasks", paper, len(ids), source, hash_of(ids))


def _panel(name: str, listed: Listed, split: str, panel: str, paper: int, source: str) -> Count:
    """A panel, made again from the data: it has to be the list that ships with seedbed."""
    try:
        listed(split)
        again = build_panel(panel)
    except UserError as error:
        return _absent(name, f"panel {panel}", split, paper, source, error)
    kept = load_panel(panel)
    found = _count(name, f"panel {panel}", paper, len(kept.tasks), source, kept.hash)
    if kept.hash not in again:
        note = "the data here gives another list than the panel's file"
        return Count(name, found.what, paper, found.here, "differs", source, kept.hash, note)
    return found


def _absent(name: str, what: str, split: str, paper: int, source: str, error: UserError) -> Count:
    """A split that cannot be used. One of ALFWorld that is there in part is a wrong count: a download is whole."""
    here = None
    if name == "alfworld":
        try:
            here = games.find_games().counts()[split] or None
        except UserError:
            here = None
    return Count(name, what, paper, here, "differs" if here else "not here", source, note=_first(error))


def _questions(paper: int) -> Iterator[Count]:
    total, missing, hashes = 0, [], []
    for name, size in questions.SIZES.items():
        source = "official code (test.parquet), 51,713 together"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ids = list(questions.load_questions("test", [name])[name])
        except UserError as error:
            missing.append(f"{name} 0 of {size:,}")
            yield Count("search", f"test questions of {name}", size, None, "not here", source, note=_first(error))
            continue
        total += len(ids)
        hashes.append(hash_of(ids))
        part = len(ids) < size  # a part of a set is not a wrong set
        state: State = "same" if len(ids) == size else "not here" if part else "differs"
        if part:
            missing.append(f"{name} {len(ids):,} of {size:,}")
        note = f"{len(ids):,} of {size:,} are here" if part else ""
        yield Count("search", f"test questions of {name}", size, len(ids), state, source, hashes[-1], note)
    what, source = "test questions", "paper Table 3"
    if missing:
        note = f"{total:,} are here; short of {', '.join(missing)}"
        yield Count("search", what, paper, total, "not here", source, hash_of(hashes) if hashes else None, note)
    else:
        yield _count("search", what, paper, total, source, hash_of(hashes))


def _count(
    benchmark: str, what: str, paper: int, here: int, source: str, digest: str | None = None, note: str = ""
) -> Count:
    return Count(benchmark, what, paper, here, "same" if here == paper else "differs", source, digest, note)


def _first(error: UserError) -> str:
    """What is wrong, without the advice and without the place: a stored record names no path."""
    text = str(error).partition(";")[0]
    return " ".join("the data folder" if word.startswith("/") else word for word in text.split())
