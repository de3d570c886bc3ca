"""Where does this run leave the paper's? Every setting beside the paper's and the official launcher's value.

The values, their sources and the places where paper and launcher disagree are data: ``paper_values.yaml``. The defaults
of ``seedbed.config`` are the paper's ALFWorld run, so a setting differs exactly when it is not at its default:

* ``same``: the paper's value.
* ``launcher``: paper and launcher disagree, and this is the launcher's, for the noted reason.
* ``unspecified``: the paper states no value; this is the launcher's.
* ``ours``: the paper's run has no such setting; at its default it leaves the method alone.
* ``choice``: every run picks its own, such as the seed and the checkpoint.
* ``differs``: none of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from seedbed.config import Config, flat

State = Literal["same", "launcher", "unspecified", "ours", "choice", "differs"]


class PaperValue(BaseModel):
    """What is known about one setting; the fields are explained in ``paper_values.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    paper: Any = None
    launcher: Any = None
    source: str = ""
    note: str = ""
    kind: Literal["", "ours", "choice"] = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One setting of a run beside the paper's."""

    key: str
    known: PaperValue
    value: Any
    state: State


@cache
def paper_values() -> dict[str, PaperValue]:
    """The paper's and launcher's values by dotted setting."""
    text = (files("seedbed.repro") / "paper_values.yaml").read_text(encoding="utf-8")
    return {key: PaperValue.model_validate(entry) for key, entry in yaml.safe_load(text).items()}


def compare(config: Config) -> list[Row]:
    """Every setting of ``config`` in order.

    A setting that only an algorithm other than SEED has counts as ``ours``: its name says that the algorithm differs.
    """
    defaults = dict(flat(Config()))
    rows = []
    for key, value in flat(config):
        known = paper_values().get(key, PaperValue(kind="ours"))
        changed = key in defaults and value != defaults[key]
        rows.append(Row(key, known, value, _state(known, value, changed)))
    return rows


def paper_diff(config: Config) -> str:
    """All settings as a Markdown table."""
    rows = compare(config)
    differing = sum(row.state == "differs" for row in rows)
    lines = [
        "# This run beside the paper's",
        "",
        "Compared with the paper's ALFWorld run (arXiv 2607.14777) and its official launcher (commit 2cf2fad): "
        f"{differing} of {len(rows)} settings differ.",
        "",
        "| setting | paper | launcher | this run | state | source |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        state = "**differs**" if row.state == "differs" else row.state
        source = "; ".join(filter(None, (row.known.source, row.known.note)))
        cells = (row.key, _shown(row.known.paper), _shown(row.known.launcher), _shown(row.value), state, source)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def diff_lines(config: Config) -> list[str]:
    """The differing settings only, one a line, e.g. ``train.updates: 40 (paper 150, launcher 160)``."""
    defaults = dict(flat(Config()))
    lines = []
    for row in compare(config):
        if row.state != "differs":
            continue
        sides = (("paper", row.known.paper), ("launcher", row.known.launcher))
        stated = [f"{side} {_shown(value)}" for side, value in sides if value is not None]
        lines.append(f"{row.key}: {_shown(row.value)} ({', '.join(stated) or f'default {_shown(defaults[row.key])}'})")
    return lines


def _state(known: PaperValue, value: Any, changed: bool) -> State:
    if known.kind == "choice":
        return "choice"
    if changed:
        return "differs"
    if known.kind == "ours":
        return "ours"
    if known.paper is None:
        return "unspecified"
    return "same" if value == known.paper else "launcher"


def _shown(value: Any) -> str:
    if value is None or value in ("", {}):
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    """Text as one table cell."""
    return " ".join(text.replace("|", "\\|").split())
