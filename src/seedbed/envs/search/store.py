"""Where do the passages of a corpus and their indexes live? In ``SEEDBED_CACHE`` (default ``~/.cache/seedbed``).

One folder for each corpus, named by the hash of its content. Everything in it is made once and read through memory
maps, so a corpus may be larger than memory and several processes share it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np

from seedbed.envs.search.passages import Passage, read_corpus
from seedbed.types import UserError


class PassageStore:
    """The passages of a corpus by row. Safe to read from several threads at once."""

    def __init__(self, corpus: Path) -> None:
        """Raises ``UserError`` if the corpus cannot be read or is not one."""
        cache = Path(os.environ.get("SEEDBED_CACHE") or Path.home() / ".cache" / "seedbed")
        self.digest = _digest(corpus)  #: sha256 of the corpus file
        self.folder = cache / "search" / self.digest[:16]
        place = built(self.folder / "passages-1", lambda part: _write(corpus, part))
        self._offsets = np.load(place / "offsets.npy", mmap_mode="r")
        self._lines = np.memmap(place / "passages.jsonl", np.uint8, mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[Passage]:
        return (self.passage(row, 0.0) for row in range(len(self)))

    def passage(self, row: int, score: float) -> Passage:
        record = json.loads(self._lines[self._offsets[row] : self._offsets[row + 1]].tobytes())
        return Passage(record["id"], record["contents"], score)


def built(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, filled by ``make`` if it is not there: under another name first, so no half-made one is ever read."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        make(part)
        part.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster, with the same content
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _digest(corpus: Path) -> str:
    digest = sha256()
    try:
        with corpus.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise UserError(f"corpus {corpus} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _write(corpus: Path, part: Path) -> None:
    offsets = [0]
    with (part / "passages.jsonl").open("wb") as out:
        for passage in read_corpus(corpus):
            line = json.dumps({"id": passage.id, "contents": passage.contents}) + "\n"
            offsets.append(offsets[-1] + out.write(line.encode("ascii")))
    np.save(part / "offsets.npy", np.array(offsets, np.int64))
