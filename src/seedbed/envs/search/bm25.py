"""Which passages fit a query by BM25? An index on disk, made once for each corpus.

Lucene's formula (bm25s) with k1 0.9 and b 0.4 as in Pyserini. Words are runs of letters and digits in lower case
without Lucene's English stop words; nothing is stemmed. Ties are decided by the passages' contents, so that a corpus
gives the same results in any order; only passages of the very same text go by their place in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

import numpy as np

from seedbed.envs.search.passages import Passage
from seedbed.envs.search.store import PassageStore, built
from seedbed.types import UserError

K1, B = 0.9, 0.4
_TIES = "ties.npy"  #: a number for each passage, out of its contents
_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.casefold()) if word not in _STOP_WORDS]


class BM25Retriever:
    """See ``passages.Retriever``. Memory holds the vocabulary; passages and postings stay on disk."""

    def __init__(self, corpus: Path) -> None:
        """Opens the index of a corpus, making it if needed.

        Raises ``UserError`` if the corpus cannot be read, has no words, or bm25s is not installed.
        """
        try:
            import bm25s  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UserError("BM25 search needs bm25s: install the extra with pip install 'seedbed[search]'") from error
        self._store = PassageStore(corpus)
        folder = built(self._store.folder / f"bm25-2-{K1}-{B}", lambda part: _build(bm25s, self._store, part))
        self._index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        self._ties_D = np.load(folder / _TIES, mmap_mode="r")
        self.name = f"bm25, {len(self._store):,} passages of {corpus.name}"

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        """Only passages that share a word with the query, so there may be fewer than ``topk``."""
        return [self._search(query, topk) for query in queries]

    def _search(self, query: str, topk: int) -> list[Passage]:
        known = self._index.get_tokens_ids(words(query))
        if not known:
            return []
        scores = self._index.get_scores_from_ids(known)
        topk = min(topk, len(scores))
        least = max(np.partition(scores, -topk)[-topk], np.finfo(np.float32).tiny)
        best = np.flatnonzero(scores >= least)
        best = best[np.lexsort((self._ties_D[best], -scores[best]))][:topk]
        return [self._store.passage(int(row), float(scores[row])) for row in best]


def _build(bm25s: ModuleType, store: PassageStore, part: Path) -> None:
    vocabulary: dict[str, int] = {}
    documents = [
        np.array([vocabulary.setdefault(word, len(vocabulary)) for word in words(passage.contents)], np.int32)
        for passage in store
    ]
    ties_D = np.array([_digest(passage.contents) for passage in store], np.uint64)
    if not vocabulary:
        raise UserError(f"the corpus behind {store.folder} has no words: nothing could ever be found in it")
    index = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy", csc_backend="numpy")
    index.index((documents, vocabulary), create_empty_token=False, show_progress=False)
    index.save(part, show_progress=False)
    np.save(part / _TIES, ties_D)


def _digest(contents: str) -> int:
    return int.from_bytes(blake2b(contents.encode("utf-8", "replace"), digest_size=8).digest(), "big")
