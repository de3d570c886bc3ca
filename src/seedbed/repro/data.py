"""Which data is a run about? Counts and hashes of its training split and its panel, from the environment itself."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from seedbed.envs.base import Environment, environment_from
from seedbed.envs.panels import load_panel
from seedbed.types import Task, UserError

if TYPE_CHECKING:
    from seedbed.config import EnvSettings


def data_facts(settings: EnvSettings, environment: Environment | None = None) -> dict[str, Any]:
    """Size and hash of the training split's ids, and of the panel its hash and one of its content.

    What is not on this machine is None. An environment that has already read its data makes this quick.
    """
    environment = environment or environment_from(settings)
    return {
        "env": settings.name,
        "train": _split(environment, settings.train_split),
        "panel": _panel(environment, settings.panel),
    }


def hash_of(texts: Sequence[str]) -> str:
    """sha256 of lines in sorted order."""
    return sha256("\n".join(sorted(texts)).encode()).hexdigest()


def _split(environment: Environment, split: str) -> dict[str, Any]:
    try:
        ids = [task.id for task in environment.tasks(split)]
    except UserError:
        return {"split": split, "tasks": None, "ids": None}
    return {"split": split, "tasks": len(ids), "ids": hash_of(ids)}


def _panel(environment: Environment, name: str) -> dict[str, Any]:
    panel = load_panel(name)
    try:
        content = content_hash(environment, panel.tasks)
    except UserError:  # its files are not here
        content = None
    return {"name": name, "hash": panel.hash, "content": content}


def content_hash(environment: Environment, tasks: Sequence[Task]) -> str | None:
    """sha256 over what the environment knows of each task beside its id: its file's hash and its right answers.

    None where it knows neither: then the ids are all that is held fast.
    """
    known = [(task.id, environment.source(task).get("sha256", ""), environment.secrets(task)) for task in tasks]
    if not any(file or answers for _, file, answers in known):
        return None
    return hash_of([" ".join([task, file, *answers]) for task, file, answers in known])
