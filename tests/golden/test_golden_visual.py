"""Are responses in Sokoban and EZPoints read as the official code reads them, wherever that is worth keeping?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from visual_ops import DECIDED, KEPT, OPERATIONS, SOKOBAN

GOLDEN = Path(os.environ.get("SEEDBED_GOLDEN", Path(__file__).parents[2].parent / "shared" / "golden"))
CASES = {
    case["name"]: case
    for file in sorted(GOLDEN.glob("*.json"))
    for case in json.loads(file.read_text(encoding="utf-8"))
    if case["op"] in OPERATIONS
}
pytestmark = pytest.mark.skipif(not CASES, reason=f"no golden vectors of visual environments in {GOLDEN}")


def official(case: dict[str, Any]) -> dict[str, Any]:
    expected = case["expected"]
    return {key: expected[key] for key in SOKOBAN} if case["op"] == "project_action_tag" else expected


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case["questionable"]])
def test_parity(name: str) -> None:
    case = CASES[name]
    assert OPERATIONS[case["op"]](case["inputs"]) == official(case)
    assert name not in KEPT | DECIDED.keys(), "not questionable: nothing to decide"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["questionable"]])
def test_questionable_reading_is_decided(name: str) -> None:
    """Most questionable action tags are so for other environments: they name no direction, and agree here."""
    case = CASES[name]
    expected = DECIDED[name](official(case)) if name in DECIDED else official(case)
    assert OPERATIONS[case["op"]](case["inputs"]) == expected
    assert (expected == official(case)) == (name not in DECIDED), "listed on the wrong side"
    assert case["op"] == "project_action_tag" or name in KEPT | DECIDED.keys(), "new to us: decide, then list it"
