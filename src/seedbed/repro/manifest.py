"""What does a ``manifest.json`` hold? Models of it, and the JSON schema made of them (``manifest.schema.json``).

A run may state further facts of its own; what is named here has the form that is named here.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seedbed.types import UserError


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Paper(_Part):
    """What the run is compared with."""

    arxiv: str
    version: str | None = Field(description="null: our sources name none")
    official_code: str = Field(description="commit")
    values: str = Field(pattern="^[0-9a-f]{64}$", description="sha256 of the settings taken to be the paper's")
    tables: str = Field(pattern="^[0-9a-f]{64}$", description="sha256 of the results taken to be the paper's")


class Code(_Part):
    commit: str
    dirty_diff: str = Field(description="what git diff says of the package; empty if committed")
    untracked: dict[str, str] = Field(description="new files of the package, by sha256")
    tree: str = Field(pattern="^[0-9a-f]{64}$", description="sha256 over the package's files")


class Machine(_Part):
    system: str
    processor: str
    cpus: int | None
    gpus: list[str]
    torch_threads: int
    cuda: str | None = Field(description="that torch was built for")
    driver: str | None


class Split(_Part):
    split: str
    tasks: int | None
    ids: str | None = Field(pattern="^[0-9a-f]{64}$", description="sha256 of the sorted ids; null: data not here")


class PanelData(_Part):
    name: str
    hash: str = Field(pattern="^[0-9a-f]{64}$", description="sha256 of the ids in order")
    content: str | None = Field(
        pattern="^[0-9a-f]{64}$", description="sha256 of files and answers; null: not here, or the ids tell all"
    )


class Data(_Part):
    env: str
    train: Split
    panel: PanelData


class Manifest(BaseModel):
    """manifest.json of a run directory."""

    model_config = ConfigDict(extra="allow", title="manifest.json of a seedbed run")
    format: int = Field(ge=1, le=1)
    kind: str
    seed: int = Field(ge=0)
    started: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
    settings: str = Field(pattern="^[0-9a-f]{64}$", description="sha256 of config.resolved.yaml")
    paper: Paper
    code: Code
    packages: dict[str, str]
    python: str
    machine: Machine
    data: Data
    model: dict[str, str] = Field({}, description="files of the model's folder, tokenizer too, by sha256")
    template_hash: str | None = None
    env_facts: dict[str, Any] | None = None
    policy: str | None = Field(None, description="a player without a model")
    server: str | None = Field(None, description="a served model, by its name there")


def schema() -> dict[str, Any]:
    """The JSON schema of a manifest."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Manifest.model_json_schema()}


def schema_text() -> str:
    """What ``manifest.schema.json`` holds."""
    return json.dumps(schema(), indent=1, sort_keys=True) + "\n"


def check(manifest: dict[str, Any], source: str) -> None:
    """Raises ``UserError`` that names the first field that is not as the schema says."""
    try:
        Manifest.model_validate(manifest, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{source} is no manifest of this version: {where}: {first['msg'].lower()}") from None
