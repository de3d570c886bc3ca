"""What can be set: typed models, YAML files, dotted overrides. An unknown key is an error that names the nearest one.

Defaults are the paper's run for ALFWorld (sources in ``repro/paper_values.yaml``). Everything else is a
preset or the user's own and shows in the diff that every run prints and stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from seedbed.algo import AlgoSettings, SeedSettings
from seedbed.types import UserError


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


def _address(key: str, value: str) -> str:
    """An http address without secrets: settings are stored and shown. What is refused is not repeated."""
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise UserError(f"{key} must be an http or https address, e.g. http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        raise UserError(f"{key} must hold no user, password or query: keys belong into OPENAI_API_KEY")
    return value


class ModelSettings(Settings):
    path: str = Field("tiny", description="a Hugging Face folder, or 'tiny' for the model that ships with seedbed")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    template_options: dict[str, Any] = Field({}, description="passed to the chat template, e.g. enable_thinking: false")
    server: str = Field("", description="collect, eval: address of an OpenAI-compatible server that has the weights")
    served_name: str = Field("", description="the server's name for the model; default: model.path")

    @field_validator("server")
    @classmethod
    def _no_key_here(cls, value: str) -> str:
        return _address("model.server", value)


class EnvSettings(Settings):
    name: str = Field("alfworld", description="registered name, or module:Class of your own")
    options: dict[str, Any] = {}
    train_split: str = "train"
    panel: str = Field("alfworld-seen-140", description="named list of held-out task ids for evaluation")
    workers: int = Field(16, ge=1, description="games that take their turns at once; never changes what they do")
    patience_s: float = Field(300.0, gt=0, description="a game that does not answer for so long is a fault")


class RolloutSettings(Settings):
    layout: Literal["windowed", "transcript"] = "windowed"
    history: int = Field(5, ge=0, description="observation-action pairs shown (windowed)")
    max_turns: int = Field(30, ge=1)
    max_new_tokens: int = Field(512, ge=1)
    max_prompt_tokens: int = Field(2048, ge=8)
    temperature: float = Field(1.0, ge=0)
    think: bool = Field(True, description="ask for and require <think> before the action")
    list_admissible: bool = True
    admissible_only: bool = Field(False, description="a turn is invalid if its action is none of the legal ones (ours)")


class AnalyzerSettings(Settings):
    max_new_tokens: int = Field(4096, ge=1)
    max_prompt_tokens: int = Field(16384, ge=8)
    temperature: float = Field(0.0, ge=0)
    steps: int = Field(0, ge=0, description="at most so many critical-step skills beside the episode's (windowed)")


class CollectSettings(Settings):
    tasks: int = Field(180, ge=1)
    attempts: int = Field(8, ge=1)
    temperature: float = Field(0.4, ge=0)


class AnnotateSettings(Settings):
    """Who writes the skills of Stage 1; everything below ``by`` is for an external analyzer."""

    by: Literal["openai", "policy", "rules"] = "openai"
    model: str = Field("glm-5.2", min_length=1, description="default: OPENAI_MODEL")
    base_url: str = Field("", description="of an OpenAI-compatible server, default: OPENAI_BASE_URL")
    api_key_env: str = Field("OPENAI_API_KEY", description="environment variable with the key, never the key")
    temperature: float = Field(0.0, ge=0)
    max_new_tokens: int = Field(4096, ge=1)
    concurrency: int = Field(128, ge=1, description="calls at a time")
    timeout_s: float = Field(180.0, gt=0, description="of one call, whatever arrived until then")
    retries: int = Field(5, ge=0, description="calls after the first for 429, 5xx, timeouts and broken answers")
    parse_attempts: int = Field(2, ge=1, description="answers asked for until one parses; each is paid")
    budget_tokens: int = Field(0, ge=0, description="for all calls of the run, in and out; 0: none")
    budget_usd: float = Field(0.0, ge=0, description="for all calls of the run at the prices below; 0: none")
    price_in: float = Field(0.0, ge=0, description="dollars per million prompt tokens")
    price_out: float = Field(0.0, ge=0, description="dollars per million answer tokens, reasoning included")

    @field_validator("api_key_env", "base_url")
    @classmethod
    def _no_key_here(cls, value: str, info: ValidationInfo) -> str:
        """Settings are stored and shown, so a key must not be among them; what is refused is not repeated."""
        if info.field_name == "api_key_env" and not (value.isidentifier() and value.isascii()):
            raise UserError("annotate.api_key_env must be the name of the environment variable that holds the key")
        return _address("annotate.base_url", value) if info.field_name == "base_url" else value


class SftSettings(Settings):
    epochs: int = Field(3, ge=1)
    batch_rows: int = Field(8, ge=1)
    lr: float = Field(5e-6, gt=0)
    warmup: float = Field(0.1, ge=0, le=1, description="share of the steps")
    max_tokens: int = Field(8192, ge=16, description="of a row: prompt and answer; a row is never cut")
    too_long: Literal["error", "drop"] = Field("error", description="what to do if a row has more; drops are counted")
    micro_tokens: int = Field(8192, ge=16, description="packed tokens a forward pass: memory, never the gradient")
    checkpointing: bool = Field(True, description="compute activations twice: memory, never the gradient")
    lora_rank: int = Field(0, ge=0, description="LoRA instead of all weights, 0: all weights")
    lora_alpha: float = Field(32.0, gt=0, description="the adapter counts alpha / rank")
    weight_decay: float = Field(0.01, ge=0)
    grad_clip: float = Field(1.0, gt=0)
    validation: float = Field(0.1, ge=0, lt=1, description="share of the tasks held out")
    eval_trajectories: int = Field(
        100, ge=0, description="held-out trajectories that the policy analyses after each epoch, 0 for none"
    )
    rehearsal: float = Field(
        0.0, ge=0, description="weight of the trajectories' own action tokens beside the skill tokens (ours)"
    )


class TrainSettings(Settings):
    updates: int = Field(150, ge=1)
    tasks: int = Field(16, ge=1, description="tasks an update")
    attempts: int = Field(8, ge=1, description="episodes a task (the group)")
    lr: float = Field(1e-6, gt=0)
    warmup: int = Field(0, ge=0, description="optimiser steps")
    weight_decay: float = Field(0.01, ge=0)
    grad_clip: float = Field(1.0, gt=0)
    minibatch_rows: int = Field(256, ge=1, description="turns an optimiser step, whole groups")
    micro_tokens: int = Field(8192, ge=16, description="padded tokens a forward pass: memory, never the gradient")
    aggregation: Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean"] = "token-mean"
    clip: float = Field(0.2, gt=0)
    dual_clip: float = Field(3.0, gt=1)
    kl_coefficient: float = Field(0.01, ge=0)
    entropy_coefficient: float = Field(0.001, ge=0)
    rehearsal_rows: int = Field(
        0, ge=0, description="Stage-1 rows in every optimiser step, so that RL does not unlearn analysis (ours)"
    )
    rehearsal_weight: float = Field(0.3, ge=0)
    rehearsal_data: str = Field("", description="the sft run the rows come from; default: the one model.path is of")
    checkpoint_every: int = Field(10, ge=1)
    max_fault_share: float = Field(0.2, gt=0, le=1)


class EvalSettings(Settings):
    every: int = Field(5, ge=0, description="updates between evaluations, 0 for none")
    attempts: int = Field(1, ge=1)
    temperature: float = Field(0.4, ge=0)


class Config(Settings):
    seed: int = Field(0, ge=0)
    model: ModelSettings = ModelSettings()
    env: EnvSettings = EnvSettings()
    rollout: RolloutSettings = RolloutSettings()
    analyzer: AnalyzerSettings = AnalyzerSettings()
    algo: AlgoSettings = SeedSettings()
    collect: CollectSettings = CollectSettings()
    annotate: AnnotateSettings = AnnotateSettings()
    sft: SftSettings = SftSettings()
    train: TrainSettings = TrainSettings()
    eval: EvalSettings = EvalSettings()

    @model_validator(mode="after")
    def _a_step_skill_has_a_place(self) -> Self:
        if self.analyzer.steps and self.rollout.layout == "transcript":
            raise UserError(
                f"analyzer.steps={self.analyzer.steps} needs rollout.layout=windowed: a transcript row has one skill "
                "slot for all of its turns; set analyzer.steps=0 or rollout.layout=windowed"
            )
        return self


def load_config(source: str | Sequence[str] | None = None, overrides: Sequence[str] = ()) -> Config:
    """Defaults, then presets or YAML files (later over earlier), then ``key.sub=value`` overrides (values are YAML).

    Raises ``UserError`` for a missing file, bad YAML, an unknown key (naming the nearest) or a value of the wrong kind.
    """
    sources = [source] if isinstance(source, str) else list(source or ())
    data: dict[str, Any] = {}
    for name in sources:
        _lay_over(data, _read(name))
    for override in overrides:
        key, eq, value = override.partition("=")
        if not eq:
            raise UserError(f"override {override!r} is not of the form key.sub=value")
        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"the value of override {override!r} is not YAML: {str(error).splitlines()[0]}") from error
        _set(data, key.strip().split("."), parsed)
    return build(data, " and ".join([*sources, *(["the command line"] if overrides else [])]))


def build(data: dict[str, Any], source: str) -> Config:
    """Validate a plain dict; see ``load_config``."""
    if isinstance(data.get("algo"), str):  # algo=grpo is short for algo.name=grpo
        data = {**data, "algo": {"name": data["algo"]}}
    elif isinstance(data.get("algo"), dict) and "name" not in data["algo"]:
        data = {**data, "algo": {"name": "seed", **data["algo"]}}
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise UserError(_explain(error, source)) from None


def presets() -> list[str]:
    """Names accepted instead of a file."""
    return sorted(p.name.removesuffix(".yaml") for p in files("seedbed.presets").iterdir() if p.name.endswith(".yaml"))


def flat(config: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting as (dotted key, value)."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def to_yaml(config: Config) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _read(source: str) -> dict[str, Any]:
    if source in presets():
        text = (files("seedbed.presets") / f"{source}.yaml").read_text(encoding="utf-8")
    else:
        path = Path(source)
        if not path.is_file():
            near = get_close_matches(source, presets(), n=1)
            hint = f"; did you mean the preset {near[0]!r}?" if near else f" (presets: {', '.join(presets())})"
            raise UserError(f"config {source!r} is neither a file nor a preset{hint}")
        text = path.read_text(encoding="utf-8")
    try:
        data = yaml.safe_load(text) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"config {source!r} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise UserError(f"config {source!r} must hold keys and values, not a {type(data).__name__}")
    return data


def _lay_over(data: dict[str, Any], upper: dict[str, Any]) -> None:
    """Settings of ``upper`` replace those of ``data``; a setting that is itself a table is replaced whole."""
    for section, values in upper.items():
        if isinstance(values, dict):
            for key, value in values.items():
                _set(data, [section, key], value)
        else:
            data[section] = values


def _set(data: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        inner = data.get(name)
        if isinstance(inner, str) and name == "algo":
            inner = {"name": inner}
        data[name] = inner if isinstance(inner, dict) else {}
        data = data[name]
    data[path[-1]] = value


def _explain(error: ValidationError, source: str) -> str:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    if where[:1] == ["algo"] and len(where) > 1:
        where = ["algo", *where[2:]]  # pydantic puts the union's tag in between
    key = ".".join(where)
    if first["type"] == "extra_forbidden":
        known = _keys(where)
        if key in known:
            return f"setting {key!r} in {source} does not belong to the algorithm named there: drop it or set algo.name"
        near = get_close_matches(key, known, n=1, cutoff=0.5) or get_close_matches(
            where[-1], [k.split(".")[-1] for k in known], n=1
        )
        return f"unknown setting {key!r} in {source}" + (
            f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(known)})"
        )
    if first["type"] == "union_tag_invalid":
        return (
            f"algo.name={first['input'].get('name')!r} in {source} is unknown: expected {first['ctx']['expected_tags']}"
        )
    return f"setting {key!r} in {source} is wrong: {first['msg'].lower()} (got {first['input']!r})"


def _keys(where: list[str]) -> list[str]:
    """All keys beside the unknown one, or of the whole configuration at the top."""
    everything = [key for key, _ in flat(Config())] + list(Config.model_fields)
    beside = [k for k in everything if k.startswith(".".join(where[:-1]) + ".")] if len(where) > 1 else everything
    return beside or everything
