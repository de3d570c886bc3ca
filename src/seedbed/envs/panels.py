"""Which tasks is a result about? Panels: checked-in lists of task ids that evaluations share.

Each is a JSON file in ``presets/panels`` with name, environment, split, the tasks in order and the sha256 of their ids.
``build_panel`` makes the content again; a test holds the files to it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path

import numpy as np

from seedbed.envs.base import make_environment
from seedbed.types import Task, UserError

DIRECTORY = Path(__file__).resolve().parents[1] / "presets" / "panels"

#: name -> (environment, split, first task, end) of the split's own order; end None: to its last task.
RECIPES: dict[str, tuple[str, str, int, int | None]] = {
    "household-120": ("alfworld", "generated_valid", 0, 120),  # 20 of each task type
    "household-300": ("alfworld", "generated_valid", 120, 420),  # 50 of each, none of them in household-120
    "alfworld-seen-140": ("alfworld", "valid_seen", 0, None),
    "alfworld-unseen-134": ("alfworld", "valid_unseen", 0, None),
    "search-7x100": ("search", "test", 0, 700),  # the sets take turns
    "search-nq-3610": ("search", "test_nq", 0, None),
    "search-triviaqa-1000": ("search", "test_triviaqa", 0, None),  # of the 1,000 questions of FlashRAG's subset
    "search-popqa-1000": ("search", "test_popqa", 0, None),  # same
    "search-hotpotqa-7405": ("search", "test_hotpotqa", 0, None),
    "search-2wikimultihopqa-12576": ("search", "test_2wikimultihopqa", 0, None),
    "search-musique-2417": ("search", "test_musique", 0, None),
    "search-bamboogle-125": ("search", "test_bamboogle", 0, None),
    "webshop-test-500": ("webshop", "test", 0, 500),
}

#: name -> (recipe drawn from, seed, size): a draw without replacement, in drawn order. The paper's code validates on
#: 128 tasks per draw; seed 1000 is what its validation worker starts with.
DRAWS: dict[str, tuple[tuple[str, str, int, int | None], int, int]] = {
    "ezpoints-128": (("ezpoints", "validation", 0, None), 1000, 128),
    "sokoban-128": (("sokoban", "validation", 0, None), 1000, 128),
    "webshop-test-128": (RECIPES["webshop-test-500"], 1000, 128),
}


@dataclass(frozen=True, slots=True)
class Panel:
    """A named, fixed list of tasks. ``hash`` is the sha256 of the ids, one a line, in order."""

    name: str
    env: str
    tasks: tuple[Task, ...]
    hash: str


def panel_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in DIRECTORY.glob("*.json")))


def load_panel(name: str) -> Panel:
    """Needs no game files. Raises ``UserError`` for an unknown name or a file whose ids do not give its hash."""
    path = DIRECTORY / f"{name}.json"
    if name not in panel_names():
        near = get_close_matches(name, panel_names(), n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"unknown panel {name!r}{hint} (known: {', '.join(panel_names())})")
    content = json.loads(path.read_text())
    tasks = tuple(Task(task, content["env"], content["split"], kind) for kind, task in content["tasks"])
    if _hash(tasks) != content["sha256"]:
        raise UserError(f"panel file {path} was edited: its ids do not give its sha256; restore it from the repository")
    return Panel(name, content["env"], tasks, content["sha256"])


def build_panel(name: str) -> str:
    """The content of a panel's file, from its recipe. The real splits need the game files."""
    (env, split, first, end), seed, size = DRAWS.get(name) or (RECIPES[name], 0, None)
    tasks = make_environment(env).tasks(split)[first:end]
    if size is not None:
        drawn = np.random.RandomState(seed).choice(len(tasks), size, replace=False)  # a stream that NumPy has frozen
        tasks = [tasks[place] for place in drawn]
    rows = ",\n".join(f"  {json.dumps([task.kind, task.id])}" for task in tasks)
    head = json.dumps({"name": name, "env": env, "split": split, "sha256": _hash(tasks)}, indent=1)
    return f'{head.removesuffix("}").rstrip()},\n "tasks": [\n{rows}\n ]\n}}\n'


def _hash(tasks: Sequence[Task]) -> str:
    return sha256("\n".join(task.id for task in tasks).encode()).hexdigest()
