"""Does Search-QA read, score and play as the official code does, wherever that is worth keeping?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from search_ops import DECIDED, KEPT, NO_COUNTERPART, OPERATIONS

GOLDEN = Path(os.environ.get("SEEDBED_GOLDEN", Path(__file__).parents[2].parent / "shared" / "golden"))
CASES = {
    case["name"]: case
    for file in sorted(GOLDEN.glob("*.json"))
    for case in json.loads(file.read_text(encoding="utf-8"))
    if case["op"] in OPERATIONS
}
pytestmark = pytest.mark.skipif(not CASES, reason=f"no golden vectors of Search-QA in {GOLDEN}: set SEEDBED_GOLDEN")


def official(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case["expected"].items() if key not in NO_COUNTERPART}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case["questionable"]])
def test_parity(name: str) -> None:
    case = CASES[name]
    assert OPERATIONS[case["op"]](case["inputs"]) == official(case)
    assert name not in KEPT | DECIDED.keys(), "not questionable: nothing to decide"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["questionable"]])
def test_questionable_behaviour_is_decided(name: str) -> None:
    if name not in KEPT | DECIDED.keys():
        pytest.skip("a questionable case that is new to us: decide, then list it")
    case = CASES[name]
    expected = DECIDED[name](official(case)) if name in DECIDED else official(case)
    assert OPERATIONS[case["op"]](case["inputs"]) == expected
    assert (expected == official(case)) == (name in KEPT), "listed on the wrong side"
