"""What is to be reproduced? ``strict.yaml`` of a folder: presets of a benchmark and a model, and the user's reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from seedbed.config import Config, load_config
from seedbed.repro.backbones import backbone
from seedbed.track.store import replace_file
from seedbed.types import UserError

DEFAULT = ("alfworld", "qwen2.5-3b")
NAME = "strict.yaml"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    presets: list[str]
    reasons: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Plan:
    """Presets of one reproduction, the settings they give and the reasons for settings that are the user's own."""

    folder: Path
    presets: tuple[str, ...]
    reasons: dict[str, str]
    config: Config

    @property
    def model(self) -> str | None:
        """The paper's model, None if the presets name none of them."""
        return backbone(self.config.model.path)

    @property
    def options(self) -> str:
        """The presets as options of a command."""
        return " ".join(f"-c {name}" for name in self.presets)

    def expected(self, *overrides: str) -> Config:
        """The settings of one of the runs."""
        return load_config(self.presets, overrides)


def load_plan(folder: Path) -> Plan | None:
    """None if the folder has no plan yet. Raises ``UserError`` for a file that is none."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        content = _File.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"{path} must hold 'presets: [...]' and perhaps 'reasons: {{setting: why}}': {why}") from None
    return Plan(folder, tuple(content.presets), content.reasons, load_config(content.presets))


def begin(folder: Path, presets: Sequence[str]) -> Plan:
    """Write the plan. Raises ``UserError`` for an unknown preset, or if the folder is about other presets already."""
    chosen = tuple(presets) or DEFAULT
    load_config(chosen)
    if there := load_plan(folder):
        if there.presets != chosen:
            raise UserError(
                f"{folder} is about {', '.join(there.presets)}: take another folder for {', '.join(chosen)}"
            )
        return there
    text = yaml.safe_dump({"presets": list(chosen), "reasons": {}}, sort_keys=False)
    replace_file(folder / NAME, lambda path: path.write_text(text, "utf-8"))
    return unwritten(folder, chosen)


def unwritten(folder: Path, presets: Sequence[str]) -> Plan:
    """What ``begin`` would write."""
    return Plan(folder, tuple(presets), {}, load_config(presets))
