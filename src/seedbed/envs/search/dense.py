"""Which passages are near a query in meaning? A FAISS index of the corpus under an encoder (extra ``dense``).

Beside an index that is made here stands ``flat.index.json``: from which corpus, model and passage prefix. An index
without such a file is asked for some of the corpus's own passages instead.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.envs.search.encoder import Encoder
from seedbed.envs.search.merged import Merged
from seedbed.envs.search.passages import Passage
from seedbed.envs.search.store import PassageStore, built
from seedbed.types import UserError

_BATCH = 1024  #: passages encoded at once; long and short ones are sorted within it
_PROBES = 16  #: passages that an index from elsewhere must know
_log = logging.getLogger(__name__)


class DenseRetriever:
    """See ``passages.Retriever``. Scores are inner products. Threads that ask at the same time share a batch."""

    def __init__(self, corpus: Path, encoder: Encoder, index: Path | None = None, options: str = "") -> None:
        """``index`` is a FAISS file whose row i is the i-th passage, of any kind for inner products; without it a flat
        one is made, once for each corpus and encoder. ``options`` are its search parameters (``"nprobe=64"``).

        Raises ``UserError`` if the index does not belong to the corpus and the encoder, or faiss is not installed.
        """
        try:
            import faiss  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UserError("dense search needs an extra: pip install 'seedbed[dense]'") from error
        self._store, self._encoder = PassageStore(corpus), encoder
        if index is None:
            name = sha256(json.dumps(encoder.identity, sort_keys=True).encode()).hexdigest()[:12]
            folder = self._store.folder / f"dense-2-{name}"
            index = built(folder, lambda part: self._build(faiss, part)) / "flat.index"
        self._index = _opened(faiss, index, options)
        self._check(faiss, index, corpus)
        self.name = f"{encoder.name}, {len(self._store):,} passages of {corpus.name}"
        self._merged = Merged(self._search)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        return self._merged([(query, topk) for query in queries]) if queries else []

    def _search(self, asked: list[tuple[str, int]]) -> list[list[Passage]]:
        vectors = self._encoder.queries([query for query, _ in asked])
        scores_QK, rows_QK = self._index.search(vectors, min(max(k for _, k in asked), len(self._store)))
        return [
            [
                self._store.passage(int(row), float(score))
                for score, row in zip(scores_K[:k], rows_K[:k], strict=True)
                if row >= 0
            ]
            for scores_K, rows_K, (_, k) in zip(scores_QK, rows_QK, asked, strict=True)
        ]

    def _build(self, faiss: Any, part: Path) -> None:
        index, total, start = None, len(self._store), time.monotonic()
        for first in range(0, total, _BATCH):
            rows = range(first, min(first + _BATCH, total))
            vectors = self._encoder.passages([self._store.passage(row, 0.0).contents for row in rows])
            index = index or faiss.IndexFlatIP(vectors.shape[1])
            index.add(vectors)
            rate = index.ntotal / (time.monotonic() - start)
            _log.info("%d of %d passages encoded, %.0f a second", index.ntotal, total, rate)
        faiss.write_index(index, str(part / "flat.index"))
        (part / "flat.index.json").write_text(json.dumps(self._origin(), indent=1) + "\n", "utf-8")

    def _origin(self) -> dict[str, str | None]:
        return {"corpus": self._store.digest, **self._encoder.identity}

    def _check(self, faiss: Any, index: Path, corpus: Path) -> None:
        if self._index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise UserError(f"{index} is not for inner products: make it with METRIC_INNER_PRODUCT")
        if self._index.ntotal != len(self._store):
            raise UserError(
                f"{index} has {self._index.ntotal} rows but corpus {corpus} has {len(self._store)} passages: "
                "they belong to different corpora"
            )
        made_from = _read_origin(index.with_name(f"{index.name}.json"))
        if made_from is None:
            self._probe(index, corpus)
        elif wrong := [key for key, value in self._origin().items() if made_from.get(key) != value]:
            raise UserError(
                f"{index} was made from another {' and '.join(wrong).replace('_', ' ')}: leave --index out to have one "
                "made, or give what it was made from"
            )

    def _probe(self, index: Path, corpus: Path) -> None:
        """Most passages of the corpus must find themselves: not under another model, nor in another order."""
        rows = np.unique(np.linspace(0, len(self._store) - 1, _PROBES).astype(int))
        texts = [self._store.passage(int(row), 0.0).contents for row in rows]
        vectors = self._encoder.passages(texts)
        if vectors.shape[1] != self._index.d:
            raise UserError(
                f"{index} holds vectors of {self._index.d} numbers but model {self._encoder.name} gives "
                f"{vectors.shape[1]}: name the model it was made with"
            )
        _, found_RK = self._index.search(vectors, min(10, len(self._store)))
        own = sum(
            text in {self._store.passage(int(row), 0.0).contents for row in found if row >= 0}
            for text, found in zip(texts, found_RK, strict=True)
        )
        if own * 2 < len(texts):
            raise UserError(
                f"{index} does not belong to corpus {corpus} and model {self._encoder.name}: only {own} of "
                f"{len(texts)} passages find themselves in it"
            )


def _opened(faiss: Any, index: Path, options: str) -> Any:
    try:
        opened = faiss.read_index(str(index), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise UserError(f"{index} is not a FAISS index that can be read: {error}") from error
    if options:
        try:
            faiss.ParameterSpace().set_index_parameters(opened, options)
        except RuntimeError as error:
            raise UserError(f"{index} does not take the options {options!r}: {error}") from error
    return opened


def _read_origin(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged: delete it to have the index checked by its content") from error
