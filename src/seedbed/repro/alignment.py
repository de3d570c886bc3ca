"""Is a run the paper's run? Every setting against the paper and, beside it, the launcher: same, differs or unspecified.

Zero unexplained differences is the bar: where a value is not the paper's or not the launcher's, there is a reason, from
``paper_values.yaml`` or the user's own. A value that a side does not state is ``unspecified``, never ``same``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seedbed.config import Config, flat
from seedbed.repro.backbones import SHAPES, backbone
from seedbed.repro.paper_diff import cell, compare, compared_with, paper_values, shown
from seedbed.types import UserError

Against = Literal["same", "differs", "unspecified"]


@dataclass(frozen=True, slots=True)
class Side:
    """One setting beside both sides. ``departs``: neither the paper's nor the launcher's nor seedbed's default."""

    key: str
    value: Any
    paper: Any
    launcher: Any
    against_paper: Against
    against_launcher: Against
    departs: bool
    source: str
    reason: str

    @property
    def unexplained(self) -> bool:
        return not self.reason and (self.departs or "differs" in (self.against_paper, self.against_launcher))


def sides(config: Config, reasons: Mapping[str, str] | None = None) -> list[Side]:
    """All settings in order. ``reasons`` are the user's, by setting; they explain what nothing else does.

    Raises ``UserError`` for a reason about a setting that does not exist.
    """
    reasons = reasons or {}
    if unknown := sorted(reasons.keys() - dict(flat(config)).keys()):
        raise UserError(f"a reason is given for {unknown[0]!r}, which is no setting: see seedbed config show")
    found = []
    for row in compare(config):
        if row.key == "model.path":
            found.append(_model(config, row.known.source, reasons.get(row.key, "")))
            continue
        choice = row.state == "choice"
        paper, launcher = (None, None) if choice else (row.known.paper, row.known.launcher)
        found.append(
            Side(
                row.key,
                row.value,
                paper,
                launcher,
                _against(row.value, paper),
                _against(row.value, launcher),
                row.state == "differs",
                row.known.source or ("ours" if row.known.kind == "ours" else ""),
                row.reason or reasons.get(row.key, ""),
            )
        )
    return found


def table(lines: Sequence[Side], config: Config) -> str:
    """All settings as Markdown."""
    unexplained = [line.key for line in lines if line.unexplained]
    out = [
        "# Settings against the paper and the official launcher",
        "",
        f"Compared with {compared_with(config)}. Unexplained differences: {len(unexplained)}"
        + (f" ({', '.join(unexplained)})." if unexplained else "."),
        "",
        "| setting | this run | paper | against paper | launcher | against launcher | source | reason |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for s in lines:
        cells = (
            s.key, shown(s.value), shown(s.paper), s.against_paper, shown(s.launcher), s.against_launcher, s.source,
            "**unexplained**" if s.unexplained else s.reason,
        )  # fmt: skip
        out.append("| " + " | ".join(cell(text) for text in cells) + " |")
    return "\n".join(out) + "\n"


def departures(config: Config, expected: Config, prefixes: tuple[str, ...] = ("",)) -> list[str]:
    """Settings that make a run another experiment than ``expected``, e.g. ``train.lr: 1e-05 instead of 1e-06``.

    Left out are those that every run picks itself and those that change no result. Keys start with one of ``prefixes``.
    """
    known, wanted, found = paper_values(expected.env.name), dict(flat(expected)), []
    for key, value in flat(config):
        about = known.get(key)
        idle = about is not None and (about.inert or about.kind == "choice")
        if not idle and key.startswith(prefixes) and value != wanted.get(key):
            found.append(f"{key}: {shown(value)} instead of {shown(wanted.get(key))}")
    return found


def _against(value: Any, side: Any) -> Against:
    return "unspecified" if side is None else "same" if value == side else "differs"


def _model(config: Config, source: str, reason: str) -> Side:
    """The model is compared by what it is, not by the name of its folder."""
    found, launcher = backbone(config.model.path), "Qwen2.5-3B-Instruct"
    why = reason or (f"no launcher of the paper's {found} runs is public" if found not in (None, launcher) else "")
    return Side(
        "model.path",
        found or config.model.path,
        ", ".join(SHAPES),
        launcher,
        "same" if found else "differs",
        "same" if found == launcher else "differs",
        found is None,
        source,
        why,
    )
