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


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file in its order; Parquet and JSON lines are read as a stream.

    Raises ``UserError`` for a file that cannot be read, is not of its kind, or holds something other than records.
    """
    try:
        for number, record in enumerate(_records(path), 1):
            if not isinstance(record, dict):
                raise UserError(f"record {number} of {path} is not an object with named fields")
            yield record
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    except ValueError as error:  # bad JSON, bad UTF-8, bad Parquet
        raise UserError(f"{path} is damaged or not what its name says: {error}") from error


def _records(path: Path) -> Iterator[Any]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    kind = Path(path.stem).suffix if path.suffix in _OPEN else path.suffix
    if kind not in (".json", ".jsonl"):
        raise UserError(f"{path} must end in one of {', '.join(ENDINGS)}")
    with _text(path) as stream:
        if kind == ".json":
            yield from json.load(stream)
        else:
            yield from (json.loads(line) for line in stream if line.strip())


def _text(path: Path) -> TextIO:
    return _OPEN.get(path.suffix, open)(path, "rt", encoding="utf-8")


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError(f"{path} is Parquet: install the extra with pip install 'seedbed[search]'") from error
    with ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()
