"""Which passages are near a query in meaning? Any sentence-transformers model and a FAISS index (extra ``dense``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from seedbed.envs.search.passages import Passage
from seedbed.envs.search.store import PassageStore, built
from seedbed.types import UserError

_BATCH = 256


class Encoder(Protocol):
    """What is used of a SentenceTransformer."""

    def encode(self, sentences: list[str], *, normalize_embeddings: bool, show_progress_bar: bool) -> np.ndarray: ...


class DenseRetriever:
    """See ``passages.Retriever``. Scores are inner products of normalised vectors."""

    def __init__(
        self,
        corpus: Path,
        encoder: Encoder,
        model: str,
        *,
        index: Path | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
    ) -> None:
        """``index`` is a FAISS file whose row i is the i-th passage; without it a flat one is made, once for each
        corpus, ``model`` and ``passage_prefix``. The paper's E5 wants the prefixes "query: " and "passage: ".

        Raises ``UserError`` if the index has another number of rows than the corpus, or faiss is not installed.
        """
        faiss = _faiss()
        self._store = PassageStore(corpus)
        self._encoder, self._prefix = encoder, query_prefix
        if index is None:
            name = sha256(f"{model}\n{passage_prefix}".encode()).hexdigest()[:12]
            folder = self._store.folder / f"dense-1-{name}"
            index = built(folder, lambda part: self._build(faiss, passage_prefix, part)) / "flat.index"
        try:
            self._index = faiss.read_index(str(index), faiss.IO_FLAG_MMAP)
        except RuntimeError as error:
            raise UserError(f"{index} is not a FAISS index that can be read: {error}") from error
        if self._index.ntotal != len(self._store):
            raise UserError(
                f"{index} has {self._index.ntotal} rows but corpus {corpus} has {len(self._store)} passages: "
                "they belong to different corpora"
            )
        self.name = f"{model}, {len(self._store):,} passages of {corpus.name}"

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        if not queries:
            return []
        vectors = _vectors(self._encoder, [self._prefix + query for query in queries])
        scores_QK, rows_QK = self._index.search(vectors, min(topk, len(self._store)))
        return [
            [self._store.passage(int(row), float(score)) for score, row in zip(scores, rows, strict=True) if row >= 0]
            for scores, rows in zip(scores_QK, rows_QK, strict=True)
        ]

    def _build(self, faiss: Any, prefix: str, part: Path) -> None:
        index: Any = None
        for texts in _batches(prefix + passage.contents for passage in self._store):
            vectors = _vectors(self._encoder, texts)
            index = index or faiss.IndexFlatIP(vectors.shape[1])
            index.add(vectors)
        faiss.write_index(index, str(part / "flat.index"))


def load_encoder(model: str) -> Encoder:
    """A SentenceTransformer from a folder. Raises ``UserError`` if the library or the folder is missing."""
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError("dense search needs an extra: pip install 'seedbed[dense]'") from error
    if not Path(model).is_dir():
        raise UserError(f"there is no folder {model}: name one that holds a sentence-transformers model")
    return SentenceTransformer(model)


def _faiss() -> Any:
    try:
        import faiss  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError("dense search needs an extra: pip install 'seedbed[dense]'") from error
    return faiss


def _vectors(encoder: Encoder, texts: list[str]) -> np.ndarray:
    vectors = encoder.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    return np.ascontiguousarray(vectors, np.float32)


def _batches(texts: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(texts, _BATCH)):
        yield batch
