"""How is a response read as a search or an answer?

Source: official code, golden ``projection.json`` (``project_search``); departures in ``docs/differences.md``.
"""

from __future__ import annotations

from seedbed.envs.search.tags import blocks
from seedbed.types import Action


def project_search(response: str, require_think: bool = False) -> Action:
    """The first search outside the reasoning, else the first answer, as ``<search>...</search>``; "" without either.

    Valid means: one block, not empty, and no other tag of that kind, closed or not. The paper's code does not ask for
    reasoning; ``require_think`` does. Text after the block never reaches the environment.
    """
    found, tags = blocks(response)
    chosen = next((b for b in found if b.name == "search"), found[0] if found else None)
    if chosen is None:
        return Action("", False)
    valid = tags == 2 and bool(chosen.inside) and (chosen.reasoned or not require_think)
    return Action(f"<{chosen.name}>{chosen.inside}</{chosen.name}>", valid)
