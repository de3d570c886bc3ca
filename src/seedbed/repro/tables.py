"""What does the paper report, and of which kind is each average it prints?

The cells are data (``paper_tables.yaml``). Of the ALFWorld averages of Table 1 some are means of the six task types
("macro"), others shares of all games won ("micro"): a gap between rows of different kinds is partly a change of
measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np
import yaml

Kind = Literal["macro", "micro", "both", "neither"]
GAMES = 128  #: ALFWorld games a validation of the official code plays: what a micro average is a share of

#: What printing cells and average with one decimal can move a mean by.
_ROUNDING = 0.1


@dataclass(frozen=True, slots=True)
class Average:
    """A printed average beside what its cells give. All in per cent."""

    table: str
    model: str
    method: str
    skills: bool  #: skills in the prompt at evaluation too
    benchmark: str
    printed: float
    macro: float  #: mean of the row's cells
    won: int | None  #: games of 128 that give the printed value, rounded or cut after one decimal, if any number does
    kind: Kind


@cache
def paper_tables() -> dict[str, Any]:
    """The content of ``paper_tables.yaml``."""
    return yaml.safe_load((files("seedbed.repro") / "paper_tables.yaml").read_text(encoding="utf-8"))


def averages() -> list[Average]:
    """Every printed average of Tables 1, 2, 7 and 8, recomputed."""
    tables = paper_tables()
    found = []
    for row in tables["table1"]["rows"]:
        for benchmark in ("alfworld", "search"):
            found.append(_average("table1", row, benchmark, row[benchmark], row[f"{benchmark}_average"]))
    for table in ("table2", "table7"):
        found += [_average(table, row, "alfworld", row["alfworld"], row["average"]) for row in tables[table]["rows"]]
    return found + [_average("table8", row, "visual", row["cells"], row["average"]) for row in tables["table8"]["rows"]]


def reported(model: str, method: str, benchmark: str) -> dict[str, float]:
    """Cells of one row of Table 1 by column (deployed without skills), empty if the paper has no such row."""
    columns = paper_tables()["table1"]["columns"][benchmark]
    for row in paper_tables()["table1"]["rows"]:
        if (row["model"], row["method"], row["skills"]) == (model, method, False):
            return dict(zip(columns, row[benchmark], strict=True))
    return {}


def _average(table: str, row: dict[str, Any], benchmark: str, cells: list[float], printed: float) -> Average:
    macro = float(np.mean(cells))
    won = _games(printed) if benchmark == "alfworld" else None
    is_macro = abs(macro - printed) <= _ROUNDING + 1e-9
    kind: Kind = {(True, True): "both", (True, False): "macro", (False, True): "micro"}.get(
        (is_macro, won is not None), "neither"
    )
    model = row.get("model", "Qwen2.5-VL-3B-Instruct" if benchmark == "visual" else "Qwen2.5-3B-Instruct")
    return Average(table, model, row["method"], row.get("skills", False), benchmark, printed, macro, won, kind)


def _games(printed: float) -> int | None:
    for won in range(GAMES + 1):
        share = 1000 * won / GAMES
        if round(10 * printed) in (round(share), math.floor(share)):
            return won
    return None
