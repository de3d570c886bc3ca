"""How is a file of records read? JSON, JSON lines or Parquet, the first two also packed with gzip or xz."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from seedbed.types import UserError

ENDINGS = (".jsonl", ".json", ".parquet", ".jsonl.gz", ".json.gz", ".jsonl.xz", ".json.xz")
_OPEN = {".gz": gzip.open, ".xz": lzma.open}


def records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each record is ("line 7", for messages) and the record, in the order of the file.

    Parquet and JSON lines are read as a stream. Raises ``UserError`` for a file that cannot be read, is not of its
    kind, or holds something other than records.
    """
    try:
        for place, record in _records(path):
            if not isinstance(record, dict):
                raise UserError(f"{place} of {path} is not an object with named fields")
            yield place, record
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    except ValueError as error:  # bad JSON, bad UTF-8, bad Parquet
        raise UserError(f"{path} is damaged or not what its name says: {error}") from error


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    kind = Path(path.stem).suffix if path.suffix in _OPEN else path.suffix
    if kind not in (".json", ".jsonl"):
        raise UserError(f"{path} must end in one of {', '.join(ENDINGS)}")
    with _text(path) as stream:
        if kind == ".jsonl":
            yield from _lines(stream, path)
            return
        content = json.load(stream)
        if not isinstance(content, list):
            raise UserError(f"{path} is not a list of records: end its name in .jsonl if it has one on each line")
        yield from ((f"record {number}", record) for number, record in enumerate(content, 1))


def _lines(stream: TextIO, path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(stream, 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except ValueError as error:
                raise UserError(f"line {number} of {path} is not JSON: {error}") from error


def _text(path: Path) -> TextIO:
    return _OPEN.get(path.suffix, open)(path, "rt", encoding="utf-8")


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError(f"{path} is Parquet: install the extra with pip install 'seedbed[search]'") from error
    with ParquetFile(path) as file:
        rows = (row for batch in file.iter_batches() for row in batch.to_pylist())
        yield from ((f"row {number}", row) for number, row in enumerate(rows, 1))
