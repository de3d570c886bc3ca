"""Where are the WebShop files on this machine, and what is in them?

``WEBSHOP_DATA``, else ``SEEDBED_DATA/webshop``: a directory with the items, their attributes and instructions and, if
there are any, the human instructions, each as ``.json`` or ``.json.gz``.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from seedbed.types import UserError

#: catalogue -> endings of its two file names, and the published number of products.
CATALOGUES = {"small": ("_1000", 1_000), "full": ("", 1_181_436)}
_HOW = (
    "put items_shuffle{0}.json and items_ins_v2{0}.json of the official WebShop (each may be gzipped) into a directory "
    "and set WEBSHOP_DATA to it"
)
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ShopFiles:
    """The files of one catalogue."""

    catalogue: str  #: a key of ``CATALOGUES``
    items: Path
    attributes: Path
    human: Path | None  #: None: there are no human goals

    def records(self) -> Iterator[dict[str, Any]]:
        """Item records one by one, so that a catalogue larger than memory can be read.

        Raises ``UserError`` if the file is damaged or is no list of records.
        """
        with _open(self.items) as stream:
            try:
                yield from _elements(stream)
            except (ValueError, EOFError, OSError) as error:
                raise _damaged(self.items, error) from error

    def instructions(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Contents of the attribute file and the human file (empty without one), by product id."""
        return _table(self.attributes), _table(self.human) if self.human else {}


def find_files(catalogue: str) -> ShopFiles:
    """Raises ``UserError`` that says where was looked, what was found and what is missing."""
    if catalogue not in CATALOGUES:
        raise UserError(f"WebShop has no catalogue {catalogue!r}; use one of {', '.join(CATALOGUES)}")
    ending = CATALOGUES[catalogue][0]
    how = _HOW.format(ending)
    if official := os.environ.get("WEBSHOP_DATA"):
        place = Path(official)
    elif shared := os.environ.get("SEEDBED_DATA"):
        place = Path(shared) / "webshop"
    else:
        raise UserError(f"no WebShop data: neither WEBSHOP_DATA nor SEEDBED_DATA is set; {how}")
    if not place.is_dir():
        raise UserError(f"no WebShop data: there is no directory {place}; {how}")
    items, attributes = _find(place, f"items_shuffle{ending}"), _find(place, f"items_ins_v2{ending}")
    if not items or not attributes:
        missing = " and ".join(
            f"{name}{ending}.json"
            for name, file in (("items_shuffle", items), ("items_ins_v2", attributes))
            if not file
        )
        found = sorted(path.name for path in place.glob("items_*.json*"))
        raise UserError(
            f"the WebShop data in {place} lacks {missing} for catalogue {catalogue!r} "
            f"(found {', '.join(found) or 'no items_* file'}); {how}"
        )
    partial = sorted(place.glob("items_human_ins*.json*"))
    return ShopFiles(catalogue, items, attributes, _find(place, "items_human_ins") or (partial[0] if partial else None))


def _find(place: Path, name: str) -> Path | None:
    return next((path for end in (".json", ".json.gz") if (path := place / f"{name}{end}").is_file()), None)


def _open(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _table(path: Path) -> dict[str, Any]:
    with _open(path) as stream:
        try:
            content = json.load(stream)
        except (ValueError, EOFError, OSError) as error:
            raise _damaged(path, error) from error
    if not isinstance(content, dict):
        raise _damaged(path, "it is no table by product id")
    return content


def _damaged(path: Path, error: object) -> UserError:
    return UserError(f"{path} is damaged or incomplete ({error}); copy it again")


def _elements(stream: IO[str]) -> Iterator[dict[str, Any]]:
    """The elements of a JSON list of objects, decoded one at a time."""
    decoder = json.JSONDecoder()
    text = stream.read(_BLOCK).lstrip()
    if not text.startswith("["):
        raise ValueError("it is no list of records")
    position, ended = 1, False
    while True:
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1
        if text[position : position + 1] == "]":
            return
        try:
            record, position = decoder.raw_decode(text, position)
        except ValueError:
            if ended:
                raise
            # The record goes on in the next block, or the text is used up.
            block = stream.read(_BLOCK)
            text, position, ended = text[position:] + block, 0, not block
            continue
        if not isinstance(record, dict):
            raise ValueError("it is no list of records")
        yield record
