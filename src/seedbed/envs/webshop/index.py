"""Which products answer a query? An inverted index in numpy that ranks as Lucene's BM25 does, in memory or on disk.

Score of a document for a query: the sum over its terms of ``w - w / (1 + tf * norm)`` with
``w = idf * (times the term is in the query)``, ``idf = ln(1 + (N - df + 0.5) / (df + 0.5))`` and
``norm = 1 / (k1 * (1 - b + b * length / average))``, where the length went through Lucene's one-byte code. Terms are
computed in float32 and summed in float64, as there. Equal scores: the smaller id in string order. Source: Lucene's
``BM25Similarity`` and ``SmallFloat``; k1, b and the order of ties are Anserini's.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seedbed.envs.webshop.analysis import Terms, terms, words

K1, B = np.float32(0.9), np.float32(0.4)
_CHUNK = 1 << 22  #: tokens sorted at a time while building


@dataclass(frozen=True, slots=True)
class Index:
    """Postings of term ``t`` are rows ``starts_V[t]:starts_V[t + 1]``; documents ascend within a term."""

    vocabulary: dict[str, int]
    starts_V: np.ndarray  #: int64, one longer than the vocabulary
    documents: np.ndarray  #: int32, per posting
    kinds: np.ndarray  #: uint16, per posting: which pair of term frequency and length code
    weights: np.ndarray  #: float32, ``tf * norm`` of each such pair
    rank_D: np.ndarray  #: int32, place of each document's id among all ids, for ties
    size: int  #: documents that have a term at all, Lucene's N

    @classmethod
    def build(cls, documents: Iterable[tuple[str, str]]) -> Index:
        """From (id, text) pairs in one pass, about 12 bytes of memory a token. Their order gives document numbers."""
        return _Builder().run(documents)

    def search(self, query: str, limit: int) -> list[int]:
        """Numbers of the best documents, best first; fewer than ``limit`` if fewer share a term with the query."""
        scores = np.zeros(len(self.rank_D))
        for term, times in Counter(terms(query)).items():
            number = self.vocabulary.get(term)
            if number is None:
                continue
            rows = slice(int(self.starts_V[number]), int(self.starts_V[number + 1]))
            found = rows.stop - rows.start
            weight = np.float32(times) * np.float32(np.log(1 + (self.size - found + 0.5) / (found + 0.5)))
            gain = weight - weight / (np.float32(1) + self.weights)
            documents = self.documents[rows]
            scores[documents] = scores.take(documents) + gain.take(self.kinds[rows])  # a document occurs once a term
        return self._best(scores.astype(np.float32), limit)

    def _best(self, scores_D: np.ndarray, limit: int) -> list[int]:
        """The ``limit`` documents of the largest positive scores, in order."""
        place = max(len(scores_D) - limit, 0)
        least = np.partition(scores_D, place)[place] if len(scores_D) else 0.0
        hits = np.flatnonzero((scores_D >= least) & (scores_D > 0))
        return hits[np.lexsort((self.rank_D[hits], -scores_D[hits]))][:limit].tolist()

    def save(self, directory: Path) -> None:
        """Write the index as ``.npy`` files and a list of terms; the directory must exist."""
        for name in ("starts_V", "documents", "kinds", "weights", "rank_D"):
            np.save(directory / f"{name}.npy", getattr(self, name))
        np.save(directory / "size.npy", np.array(self.size))
        (directory / "terms.txt").write_text("\n".join(self.vocabulary), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Index:
        """The index of a directory, its postings mapped and not read."""
        listed = (directory / "terms.txt").read_text(encoding="utf-8").split("\n")
        return cls(
            vocabulary={term: number for number, term in enumerate(listed)},
            starts_V=np.load(directory / "starts_V.npy"),
            documents=np.load(directory / "documents.npy", mmap_mode="r"),
            kinds=np.load(directory / "kinds.npy", mmap_mode="r"),
            weights=np.load(directory / "weights.npy"),
            rank_D=np.load(directory / "rank_D.npy"),
            size=int(np.load(directory / "size.npy")),
        )


def length_code(length: int) -> int:
    """Lucene's one-byte code of a document length, ``SmallFloat.intToByte4``: exact to 40, then 4 significant bits."""
    if length < 24:
        return length
    rest = length - 24
    shift = max(rest.bit_length() - 4, 0)
    code = rest >> shift
    return 24 + (code if shift == 0 and code < 8 else (code & 7) | (shift + 1) << 3)


def coded_length(code: int) -> int:
    """The length that a code stands for, the smallest of those that share it."""
    if code < 24:
        return code
    bits, shift = (code - 24) & 7, (code - 24 >> 3) - 1
    return 24 + (bits if shift < 0 else (bits | 8) << shift)


class _Builder:
    """Collects postings chunk by chunk, each sorted by term, and lays them out by term at the end."""

    def __init__(self) -> None:
        self.vocabulary: dict[str, int] = {}
        self.ids: list[str] = []
        self.tokens = 0
        self.filled = 0  # documents with a term
        self.kinds: dict[int, int] = {}  # term frequency * 256 + length code -> its number
        self.runs: list[tuple[np.ndarray, ...]] = []  # terms, how many postings each; documents, kinds by posting

    def run(self, pairs: Iterable[tuple[str, str]]) -> Index:
        numbers = _Numbers(self.vocabulary)
        pending, lengths = array("i"), array("i")
        for name, text in pairs:
            before = len(pending)
            pending.extend([n for word in words(text) if (n := numbers[word]) >= 0])
            lengths.append(len(pending) - before)
            self.ids.append(name)
            if len(pending) >= _CHUNK:
                self._sort(pending, lengths)
                pending, lengths = array("i"), array("i")
        if lengths:
            self._sort(pending, lengths)
        return self._laid_out()

    def _sort(self, pending: array, lengths: array) -> None:
        """Postings of the newest ``len(lengths)`` documents, whose term numbers stand in ``pending``."""
        length_C, count = np.frombuffer(lengths, np.int32), len(lengths)
        keys = np.frombuffer(pending, np.int32) * np.int64(count) + np.repeat(np.arange(count), length_C)
        keys, frequency = np.unique(keys, return_counts=True)
        term, document = np.divmod(keys, count)
        code_C = np.array([length_code(length) for length in lengths])
        pairs, kind = np.unique(frequency * 256 + code_C[document], return_inverse=True)
        known = [self.kinds.setdefault(pair, len(self.kinds)) for pair in pairs.tolist()]
        terms_here, postings = np.unique(term, return_counts=True)
        first = len(self.ids) - count
        self.runs.append((terms_here, postings, (document + first).astype(np.int32), np.array(known, np.uint16)[kind]))
        self.tokens += len(pending)
        self.filled += int(np.count_nonzero(length_C))

    def _laid_out(self) -> Index:
        in_use = np.zeros(len(self.vocabulary), np.int64)
        for terms_here, postings, _, _ in self.runs:
            in_use[terms_here] += postings
        starts = np.concatenate(([0], np.cumsum(in_use)))
        documents, kinds = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint16)
        free = starts[:-1].copy()
        while self.runs:
            terms_here, postings, document, kind = self.runs.pop(0)
            before = np.cumsum(postings) - postings
            rows = np.arange(len(document)) + np.repeat(free[terms_here] - before, postings)
            documents[rows], kinds[rows] = document, kind
            free[terms_here] += postings

        average = np.float32(max(self.tokens, 1) / max(self.filled, 1))
        pairs = np.array(list(self.kinds), np.int64)
        norms = np.array([1 / (K1 * ((1 - B) + B * np.float32(coded_length(c)) / average)) for c in range(256)])
        weights = (pairs >> 8).astype(np.float32) * norms.astype(np.float32)[pairs & 255]
        rank = np.empty(len(self.ids), np.int32)
        rank[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids))
        return Index(self.vocabulary, starts, documents, kinds, weights, rank, self.filled)


class _Numbers(dict[str, int]):
    """Word -> number of its term, -1 for a stop word; new terms are numbered as they come."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self.vocabulary, self.terms = vocabulary, Terms()

    def __missing__(self, word: str) -> int:
        term = self.terms[word]
        self[word] = self.vocabulary.setdefault(term, len(self.vocabulary)) if term else -1
        return self[word]
