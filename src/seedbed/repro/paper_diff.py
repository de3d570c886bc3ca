"""Where does this run leave the paper's? Every setting beside the paper's and the official launcher's value.

The values, their sources and the places where paper and launcher disagree are data: ``paper_values.yaml``. A run is
compared with the paper's run of its own environment; one of an environment that is not in the paper, with ALFWorld's.

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

#: Environments of the paper's runs -> how people call them.
TITLES = {
    "alfworld": "ALFWorld",
    "webshop": "WebShop",
    "search": "Search-QA",
    "sokoban": "Sokoban",
    "ezpoints": "EZPoints",
}


class PaperValue(BaseModel):
    """What is known about one setting; the fields are explained in ``paper_values.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    paper: Any = None
    launcher: Any = None
    source: str = ""
    note: str = ""
    preset: Any = None
    reason: str = ""
    inert: bool = False
    kind: Literal["", "ours", "choice"] = ""
    follow: Literal["paper", "launcher"] = "paper"

    @property
    def expected(self) -> Any:
        """The value that is no difference; None where neither side states one."""
        return self.launcher if self.follow == "launcher" or self.paper is None else self.paper


@dataclass(frozen=True, slots=True)
class Row:
    """One setting of a run beside the paper's."""

    key: str
    known: PaperValue
    value: Any
    state: State

    @property
    def reason(self) -> str:
        """Why ``value`` is not the paper's or the launcher's, where that is known; empty for a change of the user's."""
        if self.state == "choice":
            return "every run picks its own"
        if self.state in ("same", "launcher") and self.known.launcher not in (None, self.known.paper):
            return self.known.note
        if self.state != "differs":
            return ""
        if self.known.inert:
            return self.known.reason or "memory, time or what is kept: it changes no result"
        return self.known.reason if self.value == self.known.preset else ""


@cache
def paper_values(env: str = "alfworld") -> dict[str, PaperValue]:
    """What is known of the paper's run of ``env``, by dotted setting; ALFWorld's if the paper has no such run."""
    text = (files("seedbed.repro") / "paper_values.yaml").read_text(encoding="utf-8")
    env, values = env if env in TITLES else "alfworld", {}
    for key, entry in yaml.safe_load(text).items():
        known = {name: value for name, value in entry.items() if name not in TITLES} | entry.get(env, {})
        known["source"] = known.get("source", "").replace("{env}", env)
        values[key] = PaperValue.model_validate(known)
    return values


def compared_with(config: Config) -> str:
    """The run that ``config`` is compared with, in words."""
    return f"the paper's {TITLES.get(config.env.name, TITLES['alfworld'])} run"


def compare(config: Config) -> list[Row]:
    """Every setting of ``config`` in order.

    A setting that only an algorithm other than SEED has counts as ``ours``: its name says that the algorithm differs.
    """
    defaults, values = dict(flat(Config())), paper_values(config.env.name)
    rows = []
    for key, value in flat(config):
        known = values.get(key, PaperValue(kind="ours"))
        rows.append(Row(key, known, value, _state(known, value, defaults.get(key, value))))
    return rows


def paper_diff(config: Config) -> str:
    """All settings as a Markdown table."""
    rows = compare(config)
    differing = sum(row.state == "differs" for row in rows)
    lines = [
        "# This run beside the paper's",
        "",
        f"Compared with {compared_with(config)} (arXiv 2607.14777) and its official launcher (commit 2cf2fad): "
        f"{differing} of {len(rows)} settings differ.",
        "",
        "| setting | paper | launcher | this run | state | source |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        state = "**differs**" if row.state == "differs" else row.state
        why = row.reason if row.state == "differs" else ""
        source = "; ".join(filter(None, (row.known.source, row.known.note, why)))
        cells = (row.key, shown(row.known.paper), shown(row.known.launcher), shown(row.value), state, source)
        lines.append("| " + " | ".join(cell(text) for text in cells) + " |")
    return "\n".join(lines) + "\n"


def diff_lines(config: Config) -> list[str]:
    """The differing settings, one a line, e.g. ``train.updates: 40 (paper 150, launcher 160)``, with any reason."""
    defaults = dict(flat(Config()))
    lines = []
    for row in compare(config):
        if row.state != "differs":
            continue
        sides = (("paper", row.known.paper), ("launcher", row.known.launcher))
        stated = [f"{side} {shown(value)}" for side, value in sides if value is not None]
        line = f"{row.key}: {shown(row.value)} ({', '.join(stated) or f'default {shown(defaults[row.key])}'})"
        lines.append(f"{line}: {row.reason}" if row.reason else line)
    return lines


def _state(known: PaperValue, value: Any, default: Any) -> State:
    if known.kind == "choice":
        return "choice"
    if known.kind == "ours":
        return "ours" if value == default else "differs"
    if value != known.expected:
        return "differs"
    if known.paper is None:
        return "unspecified"
    return "same" if value == known.paper else "launcher"


def shown(value: Any) -> str:
    """A value as text, ``-`` for nothing."""
    if value is None or value in ("", {}):
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def cell(text: str) -> str:
    """Text as one table cell."""
    return " ".join(text.replace("|", "\\|").split())
