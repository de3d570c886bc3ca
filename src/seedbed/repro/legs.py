"""Which runs of a reproduction are there, how far are they, and are they the paper's?

Layout of the folder, everything made by ordinary commands:

    vanilla.json                       eval of the model as it comes
    grpo/                              train run from the model as it comes
    seed/collect, seed/sft, seed/train SEED: Stage 1 and Stage 2
    without-sft/, without-opd/         train runs of the ablations
    unseen/vanilla.json, grpo.json, seed.json   evals of final policies on ALFWorld's unseen games
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from seedbed.config import Config
from seedbed.envs.panels import load_panel
from seedbed.evaluate.run import summarise
from seedbed.repro.alignment import departures
from seedbed.repro.backbones import SHAPES
from seedbed.repro.paper_diff import compare, shown
from seedbed.repro.plan import Plan
from seedbed.track.run import Run
from seedbed.track.store import read_jsonl
from seedbed.types import UserError

#: leg -> its train run, and what it sets on top of the presets
TRAINED = {
    "grpo": ("grpo", ("algo.name=grpo",)),
    "seed": ("seed/train", ()),
    "without-sft": ("without-sft", ()),
    "without-opd": ("without-opd", ("algo.name=grpo",)),
}
FROM_STAGE1 = ("seed", "without-opd")  #: legs that start from the folder's own Stage-1 checkpoint
UNSEEN = "alfworld-unseen-134"


@dataclass(frozen=True, slots=True)
class Score:
    """A stored evaluation: its file below the folder, its content, and what makes it another experiment."""

    file: str
    result: dict[str, Any]
    unaligned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leg:
    """What there is of one run. ``scores`` by update; the last is only there if the run is finished."""

    name: str
    begun: bool = False
    updates: int = 0
    done: int = 0
    scores: dict[int, Score] = field(default_factory=dict)
    rows: tuple[dict[str, Any], ...] = ()  #: metrics, one an update
    unaligned: tuple[str, ...] = ()

    @property
    def final(self) -> Score | None:
        return self.scores.get(self.updates) if self.begun and self.done >= self.updates else None


def trained(plan: Plan, name: str) -> Leg:
    """A leg with a train run. Raises ``UserError`` for damaged files or scores that their episodes do not give."""
    place, overrides = TRAINED[name]
    path = plan.folder / place
    if not (path / "manifest.json").is_file():
        return Leg(name)
    run = Run.open(path, "train")
    config, expected = run.config, plan.expected(*overrides)
    why = [*_own_settings(plan), *departures(config, expected), *_start(plan, name, config)]
    if name in FROM_STAGE1:
        why += stage1(plan)
    scores = {}
    for file in sorted((path / "eval").glob("u*.json")):
        score = read_score(plan, file)
        scores[int(file.stem[1:])] = Score(score.file, score.result, tuple(dict.fromkeys([*why, *score.unaligned])))
    rows = tuple(run.history())
    done = rows[-1]["update"] if rows else 0
    return Leg(name, True, config.train.updates, done, scores, rows, tuple(why))


def vanilla(plan: Plan) -> Score | None:
    """The eval of the model as it comes."""
    file = plan.folder / "vanilla.json"
    if not file.is_file():
        return None
    score = read_score(plan, file)
    frozen = Run(plan.folder).manifest.get("model") if Run(plan.folder).begun else None
    why = [*_own_settings(plan), *score.unaligned]
    if not frozen:
        why.append("model: none was here at the freeze, so nothing tells which one played")
    elif score.result.get("model") != frozen:
        why.append("model: another one played than was frozen")
    return Score(score.file, score.result, tuple(why))


def unseen(plan: Plan, name: str) -> Score | None:
    """The eval of a leg's final policy on the unseen games."""
    file = plan.folder / "unseen" / f"{name}.json"
    if not file.is_file():
        return None
    score = read_score(plan, file, UNSEEN)
    if name == "vanilla":
        seen = vanilla(plan)
        why = [*score.unaligned, *(seen.unaligned if seen else ("vanilla.json: not there to compare the model with",))]
        if seen and seen.result.get("model") != score.result.get("model"):
            why.append("model: another one than in vanilla.json")
        return Score(score.file, score.result, tuple(dict.fromkeys(why)))
    leg = trained(plan, name)
    why = [*score.unaligned, *leg.unaligned]
    policy = plan.folder / TRAINED[name][0] / "checkpoints" / f"u{leg.updates:04d}" / "policy" / "model.safetensors"
    if not leg.final:
        why.append(f"{name}: its run is not finished")
    elif not policy.is_file():
        why.append(f"model: {policy.relative_to(plan.folder)} is not there to compare with")
    elif score.result.get("model", {}).get(policy.name) != _file_hash(policy, policy.stat().st_mtime_ns):
        why.append("model: another one than the run's final checkpoint")
    return Score(score.file, score.result, tuple(dict.fromkeys(why)))


def read_score(plan: Plan, file: Path, panel: str | None = None) -> Score:
    """A result of ``seedbed eval`` or of a run, checked against itself. Raises ``UserError`` if it does not hold."""
    wanted = panel or plan.config.env.panel
    name, stat = file.relative_to(plan.folder).as_posix(), file.stat()
    result = _checked(file, name, stat.st_mtime_ns, stat.st_size)
    expected = plan.config.rollout.model_copy(update={"temperature": plan.config.eval.temperature})
    asked = {
        "panel": wanted,
        "attempts": plan.config.eval.attempts,
        "temperature": plan.config.eval.temperature,
        **{f"rollout.{key}": value for key, value in expected.model_dump(mode="json").items()},
    }
    found = {**result, **{f"rollout.{key}": value for key, value in result.get("rollout", {}).items()}}
    why = [f"{key}: {found.get(key)} instead of {value}" for key, value in asked.items() if found.get(key) != value]
    if "policy" in result:
        why.append(f"model: the player {result['policy']!r}, which is no model")
    if result.get("server"):
        why.append("model: its weights were a server's and are not known by hash")
    return Score(name, result, tuple(why))


@cache
def _checked(file: Path, name: str, version: int, size: int) -> dict[str, Any]:
    """A result whose episodes give its summary. Intervals take long: a file that did not change is checked once."""
    try:
        result = json.loads(file.read_text("utf-8"))
        again = json.loads(json.dumps(summarise(result["episodes"])))
        stored = {key: value for key, value in result["summary"].items() if key != "entropy"}
        played = Counter(episode["task"] for episode in result["episodes"])
        listed = load_panel(result["panel"])
        whole = played == {task.id: result["attempts"] for task in listed.tasks}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{name} is no result of seedbed eval: {type(error).__name__} {error}") from None
    if again != stored:
        raise UserError(f"{name} was edited: its episodes do not give its summary; evaluate again")
    if not whole or result["panel_hash"] != listed.hash:
        raise UserError(f"{name} does not hold every task of panel {listed.name!r} equally often: evaluate again")
    return result


def stage1(plan: Plan) -> list[str]:
    """What makes the folder's Stage 1 another one than the paper's."""
    why = []
    for kind, prefixes in (("collect", ("collect.", "rollout.", "env.")), ("sft", ("sft.",))):
        path = plan.folder / "seed" / kind
        if not (path / "manifest.json").is_file():
            why.append(f"seed/{kind}: not there")
            continue
        config = Run.open(path, kind).config
        why += [f"Stage 1: {line}" for line in departures(config, plan.config, prefixes)]
        if not _same_place(config.model.path, plan.config.model.path):
            why.append(f"Stage 1: model.path: {config.model.path} instead of {plan.config.model.path}")
    told = plan.folder / "seed" / "collect" / "annotate.json"
    if told.is_file():
        by, author = (json.loads(told.read_text("utf-8")).get(key) for key in ("by", "author"))
        wanted = plan.config.annotate
        if (by, author) != (wanted.by, wanted.model):
            why.append(f"Stage 1: skills by {author} ({by}) instead of {wanted.model} ({wanted.by})")
    return why


def collected(plan: Plan) -> tuple[int, int] | None:
    """(tasks, trajectories) of the folder's Stage-1 collection, None if there is none."""
    path = plan.folder / "seed" / "collect"
    if not (path / "tasks.jsonl").is_file():
        return None
    parts = sorted((path / "trajectories").glob("c*.jsonl"))
    return len(list(read_jsonl(path / "tasks.jsonl"))), sum(len(list(read_jsonl(part))) for part in parts)


def _own_settings(plan: Plan) -> list[str]:
    """Where the presets themselves are not the paper's run, with a reason or without."""
    other = [] if plan.model else [f"model: {plan.config.model.path} is none of the paper's ({', '.join(SHAPES)})"]
    for row in compare(plan.config):
        if row.state == "differs" and not row.known.inert:
            other.append(f"{row.key}: {shown(row.value)} instead of {shown(row.known.expected)}")
    return other


def _start(plan: Plan, name: str, config: Config) -> Sequence[str]:
    """What is wrong with the weights a run started from."""
    if name in FROM_STAGE1:
        own = (plan.folder / "seed" / "sft" / "checkpoints").resolve()
        if own not in Path(config.model.path).resolve().parents:
            return [f"model.path: {config.model.path} instead of a checkpoint of seed/sft"]
    elif not _same_place(config.model.path, plan.config.model.path):
        return [f"model.path: {config.model.path} instead of {plan.config.model.path}"]
    return []


def _same_place(one: str, other: str) -> bool:
    return one == other or Path(one).resolve() == Path(other).resolve()


@cache
def _file_hash(path: Path, version: int) -> str:
    """``version`` is the time of change: a file of gigabytes is read once a process."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            digest.update(block)
    return digest.hexdigest()
