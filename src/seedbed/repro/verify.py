"""Is what a run stands on the same here? Everything its manifest names is made again on this machine and compared.

What changes results (code, model, tokenizer, chat template, panel, data, settings, stored scores) is told apart from
what is a fact of the machine (packages, Python, GPU, driver).
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import yaml

from seedbed.config import Config, ModelSettings
from seedbed.envs.base import environment_from
from seedbed.evaluate.run import summarise
from seedbed.repro import here
from seedbed.repro.data import data_facts
from seedbed.repro.paper_diff import paper_diff
from seedbed.track.run import Run
from seedbed.train.model import load_renderer, model_facts
from seedbed.types import UserError

State = Literal["same", "differs", "not here", "not recorded"]
_NOWHERE: Any = object()  #: this machine has nothing to compare with


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a manifest names. ``matters``: a difference changes results or what they are compared with."""

    what: str
    recorded: Any
    found: Any
    state: State
    matters: bool


def verify(run: Run) -> list[Check]:
    """All checks of a run, those that matter first. Raises ``UserError`` for a damaged run directory."""
    manifest = run.manifest
    config = _config(run)
    return [
        *_settings(run, manifest, config),
        *_code(manifest),
        *_model(manifest, config),
        *_data(manifest, config),
        *_scores(run),
        *_machine(manifest),
    ]


def _config(run: Run) -> Config | None:
    """The settings, None if this version does not know all of them any more."""
    try:
        return run.config
    except (UserError, OSError, yaml.YAMLError):
        return None


def _settings(run: Run, manifest: Mapping[str, Any], config: Config | None) -> Iterator[Check]:
    text = (run.path / "config.resolved.yaml").read_bytes() if (run.path / "config.resolved.yaml").is_file() else None
    stored = sha256(text).hexdigest() if text is not None else _NOWHERE
    yield _check("settings of the run", manifest.get("settings"), stored, True)
    page = run.path / "paper_diff.md"
    recorded = page.read_text("utf-8") if page.is_file() else None
    again = paper_diff(config) if config else _NOWHERE
    pages = [value if value in (None, _NOWHERE) else _hash(value) for value in (recorded, again)]
    yield _check("comparison with the paper", *pages, True)


def _code(manifest: Mapping[str, Any]) -> Iterator[Check]:
    was, now = manifest.get("code", {}), here.code()
    if "tree" in was:
        yield _check("code", was["tree"], now["tree"], True)
        yield _check("commit", was["commit"], now["commit"], False)
    else:  # a manifest of an older version
        keys = ("commit", "dirty_diff", "untracked")
        yield _check("code", [was.get(k) for k in keys] if was else None, [now[k] for k in keys], True)
    for name in ("values", "tables"):
        what = f"{'settings' if name == 'values' else 'results'} taken to be the paper's"
        yield _check(what, manifest.get("paper", {}).get(name), here.paper()[name], True)


def _model(manifest: Mapping[str, Any], config: Config | None) -> Iterator[Check]:
    was = manifest.get("model") or {}
    if not was:
        return
    now: dict[str, Any] = {}
    if config:
        settings = ModelSettings() if "policy" in manifest else config.model  # a player borrows the shipped tokenizer
        try:
            now = model_facts(settings, load_renderer(settings))
        except UserError:
            now = {}
    files = now.get("model", {})
    for name, recorded in sorted(was.items()):
        yield _check(f"model: {name}", recorded, files.get(name, _NOWHERE), True)
    yield _check("chat template", manifest.get("template_hash"), now.get("template_hash", _NOWHERE), True)


def _data(manifest: Mapping[str, Any], config: Config | None) -> Iterator[Check]:
    was = manifest.get("data")
    now: dict[str, Any] = {"train": {}, "panel": {}}
    facts: Any = _NOWHERE
    if config:
        environment = environment_from(config.env)
        with suppress(UserError):  # the panel is gone: reported below as not here
            now = data_facts(config.env, environment)
        with suppress(UserError):
            facts = environment.facts(environment.tasks(config.env.train_split)[0])
    if was:
        for part, key, what in (
            ("train", "ids", "training tasks"),
            ("panel", "hash", "panel"),
            ("panel", "content", "files and answers of the panel"),
        ):
            if was[part][key] is not None:
                yield _check(what, was[part][key], _here(now[part].get(key)), True)
    elif panel := manifest.get("panel"):
        yield _check("panel", panel["hash"], _here(now["panel"].get("hash")), True)
    if "env_facts" in manifest:
        yield _check("rules of the environment", manifest["env_facts"], _through_json(facts), True)


def _scores(run: Run) -> Iterator[Check]:
    """The summary of every stored evaluation, computed again from its episodes."""
    for path in sorted((run.path / "eval").glob("*.json")):
        try:
            result = json.loads(path.read_text("utf-8"))
            recorded = {k: v for k, v in result["summary"].items() if k != "entropy"}
            again = _through_json(summarise(result["episodes"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no evaluation: {type(error).__name__}: {error}") from None
        yield _check(f"scores of {path.parent.name}/{path.name}", recorded, again, True)


def _machine(manifest: Mapping[str, Any]) -> Iterator[Check]:
    was, now = manifest.get("machine", {}), here.machine()
    yield _check("Python", manifest.get("python"), platform.python_version(), False)
    for name in ("system", "processor", "gpus", "cuda", "driver", "cpus", "torch_threads"):
        yield _check(name, was.get(name, _NOWHERE), now[name], False)
    old, new = manifest.get("packages", {}), here.packages()
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            state: State = "not here" if name not in new else "not recorded" if name not in old else "differs"
            yield Check(f"package {name}", old.get(name), new.get(name), state, False)
    if old and old == new:
        yield Check("packages", f"{len(old)} versions", f"{len(new)} versions", "same", False)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _here(value: Any) -> Any:
    return _NOWHERE if value is None else value


def _through_json(value: Any) -> Any:
    return value if value is _NOWHERE else json.loads(json.dumps(value))


def _check(what: str, recorded: Any, found: Any, matters: bool) -> Check:
    if recorded is _NOWHERE or (recorded is None and matters):
        return Check(what, None, None if found is _NOWHERE else found, "not recorded", matters)
    if found is _NOWHERE:
        return Check(what, recorded, None, "not here", matters)
    return Check(what, recorded, found, "same" if recorded == found else "differs", matters)
