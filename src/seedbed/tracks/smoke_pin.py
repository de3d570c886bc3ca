"""Step 1: what exactly is played and counted? One environment pinned in a manifest before anything runs."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from seedbed.config import Config, build
from seedbed.envs.base import environment_from
from seedbed.envs.panels import load_panel
from seedbed.track.store import replace_file
from seedbed.tracks.again import weights_of
from seedbed.tracks.paged import PagedStep, require, say, table
from seedbed.view.rundir import read_json

FILE = "pinned.json"


class Pin(PagedStep):
    name = "pin"
    title = "One environment pinned: split, reward, step limit, metric, panel"
    done_when = (
        f"{FILE} names them, panel and split have the pinned ids on this machine, and no panel task is trained on"
    )
    page = "pinned.md"
    makes = (FILE,)

    def make(self, folder: Path) -> None:
        content = json.dumps(pinned(self.config()), indent=1) + "\n"
        replace_file(folder / FILE, lambda path: path.write_text(content, "utf-8"))
        say("pin", f"environment, splits and panel in {FILE}")

    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        held = read_json(folder / FILE)
        now = json.loads(json.dumps(pinned(build(held["settings"], FILE))))
        for key in held:
            require(now.get(key) == held[key], f"{FILE} pins another {key} than there is here")
        require(held["panel"]["shared_with_training"] == 0, f"{FILE}: the panel has tasks of the training split")
        train, panel, metric = (held[key] for key in ("training_split", "panel", "metric"))
        rows = [
            ("environment", f"`{held['environment']}`: " + ", ".join(f"{k} {v}" for k, v in held["env_facts"].items())),
            ("training split", f"`{train['name']}`, {train['tasks']} tasks, ids `{train['sha256'][:16]}`"),
            ("panel", f"`{panel['name']}` of `{panel['split']}`, {panel['tasks']} tasks, ids `{panel['sha256'][:16]}`"),
            ("panel tasks that are also trained on", panel["shared_with_training"]),
            ("reward", held["reward"]),
            ("step limit", f"{held['max_turns']} turns an episode"),
            (
                "metric",
                f"{metric['name']}, temperature {metric['temperature']:g}, {metric['attempts']} episode(s) a task",
            ),
            ("base policy", ", ".join(f"`{digest[:16]}`" for digest in held["base_policy"].values())),
        ]
        body = table(("pinned", "value"), rows) + "\n\nEvery later step is checked against these settings."
        return body, {key: held[key] for key in ("environment", "training_split", "panel", "max_turns", "metric")}


def pinned(config: Config) -> dict[str, Any]:
    """What ``pinned.json`` holds for ``config``."""
    environment, panel = environment_from(config.env), load_panel(config.env.panel)
    tasks = [task.id for task in environment.tasks(config.env.train_split)]
    return {
        "environment": config.env.name,
        "env_facts": environment.facts(panel.tasks[0]),
        "training_split": {
            "name": config.env.train_split,
            "tasks": len(tasks),
            "sha256": sha256("\n".join(tasks).encode()).hexdigest(),
        },
        "panel": {
            "name": panel.name,
            "split": panel.tasks[0].split,
            "tasks": len(panel.tasks),
            "sha256": panel.hash,
            "shared_with_training": len(set(tasks) & {task.id for task in panel.tasks}),
        },
        "reward": "return is the sum of an episode's rewards; above 0 if and only if it was won",
        "max_turns": config.rollout.max_turns,
        "metric": {
            "name": "share of episodes won, 95 % interval over tasks",
            "temperature": config.eval.temperature,
            "attempts": config.eval.attempts,
        },
        "base_policy": weights_of(config.model.path),
        "settings": config.model_dump(mode="json"),
    }


def as_pinned(folder: Path, config: Config, who: str) -> None:
    """Raises ``Broken`` if a run's settings leave what is pinned: only policy and algorithm may differ."""
    held = read_json(folder / FILE)["settings"]
    now = config.model_dump(mode="json")
    for section in ("seed", "env", "rollout", "analyzer", "collect", "sft", "train", "eval"):
        require(held[section] == now[section], f"{who} was not made with the {section} settings of {FILE}")
