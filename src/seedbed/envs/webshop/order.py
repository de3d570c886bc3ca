"""In which order do the 1,000 products stand? In the published one, whatever the order of the file.

Prices, price limits and goals are drawn in the order of the products, so task ``webshop/test/7`` means what it means
only in that order; ``small.txt`` has it. A catalogue without any of these products is somebody's own and stays as it
is. So does the full one: nothing published says its order in fewer bytes than the file itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from seedbed.types import UserError

FILE = Path(__file__).with_name("small.txt")


@cache
def published() -> dict[str, int]:
    """Product id -> place."""
    return {asin: place for place, asin in enumerate(FILE.read_text("ascii").split())}


def in_published_order(records: Iterable[dict[str, Any]], source: Path) -> list[dict[str, Any]]:
    """``records`` of the small catalogue, sorted. Raises ``UserError`` if they are only in part the published ones."""
    records, places = list(records), published()
    known = {asin for record in records if isinstance(asin := record.get("asin"), str) and asin in places}
    if not known:
        return records
    if len(known) != len(places) or len(records) != len(places):
        raise UserError(
            f"{source} holds {len(known)} of the {len(places):,} published products and {len(records) - len(known)} "
            "other records, so its tasks would not be those of anyone else; copy it again"
        )
    return sorted(records, key=lambda record: places[record["asin"]])
