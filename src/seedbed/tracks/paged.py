"""How is a step of the CPU tracks judged? It leaves records and one page made from them, and the page is made again.

The page says what the records show, and ends with the sha256 of every file of the step. ``check`` compares the hashes
with the disk, computes the page anew and asks whether the records show what the step is for. So an edit of any file, or
of the page itself, is seen, and a page that agrees with records which do not hold is still a failure.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from seedbed.config import Config, load_config
from seedbed.track.store import replace_file
from seedbed.tracks.base import Finding, Step
from seedbed.types import UserError
from seedbed.view.text import visible

#: Files below a step's folders that no step answers for, and why.
NOT_RECORDS = {
    "report.html": "written by `seedbed report` from the records; look as often as you like",
    "annotate.lock": "an empty file that is held while skills are written",
}
_ROW = re.compile(r"^\| `(.+)` \| `([0-9a-f]{64})` \|$", re.MULTILINE)
_err = Console(stderr=True, highlight=False)


class Broken(Exception):
    """The records do not show what the step asks for; the text says what is wrong with which of them."""


class PagedStep(Step):
    """A step whose ``page`` is made from the files below ``makes``.

    ``leaves`` are files in there that a later step makes. ``settings`` are overrides of the preset ``tiny``.
    """

    page: str
    makes: tuple[str, ...]
    leaves: tuple[str, ...] = ()

    def __init__(self, settings: Sequence[str] = ()) -> None:
        self.settings = tuple(settings)

    def config(self, *overrides: str) -> Config:
        return load_config("tiny", [*self.settings, *overrides])

    @abstractmethod
    def make(self, folder: Path) -> None:
        """Make everything but the page."""

    @abstractmethod
    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        """(body of the page, evidence), from the records alone. Raises ``Broken``."""

    def run(self, folder: Path) -> None:
        self.clear(folder)
        self.make(folder)
        try:
            text = self.text(folder, self.shown(folder)[0])
        except Broken as broken:
            raise UserError(f"{self.name} was made, but {broken}") from broken
        replace_file(folder / self.page, lambda path: path.write_text(text, "utf-8"))

    def clear(self, folder: Path) -> None:
        """Remove what an earlier run of the step left; the page first, so that a half-made step is never done."""
        (folder / self.page).unlink(missing_ok=True)
        for name in self.makes:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def check(self, folder: Path) -> Finding:
        page = folder / self.page
        if not page.is_file():
            begun = [name for name in self.makes if (folder / name).exists()]
            why = f"{self.page} is missing: the step was cut short, or the page was removed"
            return Finding("failed", why) if begun else Finding("open", "not begun")
        text = page.read_text("utf-8", "replace")
        if changed := _changed(dict(_ROW.findall(text)), self.hashes(folder)):
            return Finding("failed", f"{changed} since {self.page} was made from it")
        try:
            body, evidence = self.shown(folder)
        except (Broken, UserError) as broken:
            return Finding("failed", str(broken))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            return Finding("failed", f"the records of {self.name} are not what the step makes ({error!r})")
        if text != self.text(folder, body):
            why = f"{self.page} says other than its records: it was edited, or another version of seedbed made it"
            return Finding("failed", why)
        return Finding("done", f"{self.page} and its {len(self.hashes(folder))} records hold", evidence)

    def text(self, folder: Path, body: str) -> str:
        rows = [f"| `{name}` | `{digest}` |" for name, digest in self.hashes(folder).items()]
        return "\n".join(
            [
                f"# {self.title}",
                "",
                f"Done when: {self.done_when}",
                "",
                body.strip(),
                "",
                "## Records",
                "",
                "This page was made from these files alone, and is made again whenever the step is checked.",
                "",
                "| file | sha256 |",
                "|---|---|",
                *rows,
                "",
            ]
        )

    def files(self, folder: Path) -> list[str]:
        """Every record of the step, by name below ``folder``."""
        found = [path for name in self.makes for path in _below(folder / name)]
        names = sorted(path.relative_to(folder).as_posix() for path in found)
        return [name for name in names if name not in self.leaves]

    def hashes(self, folder: Path) -> dict[str, str]:
        return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in self.files(folder)}


def say(who: str, text: str) -> None:
    """A line of progress, beside the answer of the command."""
    _err.print(f"{who:>9}  {text}", style="dim", markup=False, soft_wrap=True)


def require(holds: bool, otherwise: str) -> None:
    """Raises ``Broken`` with ``otherwise``."""
    if not holds:
        raise Broken(otherwise)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; text of models and environments is shown as data."""
    cells = [
        [visible(str(cell)).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in r] for r in rows
    ]
    lines = [columns, ["---"] * len(columns), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float, sign: str = "") -> str:
    """Three digits, and never ``-0.000``."""
    return f"{round(value, 3) + 0.0:{sign}.3f}"


def quoted(text: str) -> str:
    """Text as an indented block, so that nothing in it is read as Markdown."""
    return "\n".join(f"    {line}" for line in visible(text).split("\n"))


def _below(path: Path) -> list[Path]:
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [p for p in found if p.is_file() and p.name not in NOT_RECORDS and not p.name.startswith(".")]


def _changed(stored: dict[str, str], now: dict[str, str]) -> str:
    for name in sorted(stored.keys() | now.keys()):
        if name not in now:
            return f"{name} was removed"
        if name not in stored:
            return f"{name} was added"
        if stored[name] != now[name]:
            return f"{name} was changed"
    return ""
