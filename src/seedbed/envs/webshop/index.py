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
from itertools import chain
from pathlib import Path

import numpy as np

from seedbed.envs.webshop.analysis import terms

K1, B = np.float32(0.9), np.float32(0.4)
_CHUNK = 1 << 22  #: tokens sorted at a time while building
_FEW = 20_000  #: postings: so few are all scored sooner than any is ruled out
_STEPS = 16  #: documents in a list that are gone through in the time in which one is looked up
_ROUGH = 1e-4  #: a sum of terms in float32 is not off by more, by far
_TINY = 1e-30  #: less than any term adds
_PIECES = 1 << 19  #: pieces of text whose terms are remembered while building


@dataclass(frozen=True, slots=True)
class Index:
    """Postings of term ``t`` are rows ``starts_V[t]:starts_V[t + 1]``; documents ascend within a term."""

    vocabulary: dict[str, int]
    starts_V: np.ndarray  #: int64, one longer than the vocabulary
    documents: np.ndarray  #: int32, per posting
    kinds: np.ndarray  #: uint16, per posting: which pair of term frequency and length code
    weights: np.ndarray  #: float32, ``tf * norm`` of each such pair, ascending
    tops_V: np.ndarray  #: uint16, the greatest kind of each term
    rank_D: np.ndarray  #: int32, place of each document's id among all ids, for ties
    size: int  #: documents that have a term at all, Lucene's N

    @classmethod
    def build(cls, documents: Iterable[tuple[str, str]]) -> Index:
        """From (id, text) pairs in one pass, about 12 bytes of memory a token. Their order gives document numbers."""
        return _Builder().run(documents)

    def search(self, query: str, limit: int) -> list[int]:
        """Numbers of the best documents, best first; fewer than ``limit`` if fewer share a term with the query."""
        asked = self._asked(query)
        if sum(len(term.documents) for term in asked) < _FEW:
            scores_D = np.zeros(len(self.rank_D))
            for term in asked:
                term.add_to(scores_D)
            racing = np.flatnonzero(scores_D)
            scores = scores_D[racing]
        else:
            racing = self._racing(asked, limit)
            scores = np.zeros(len(racing))
            for term in asked:  # in the order of the query, in which the sums are rounded
                scores += term.gains_of(racing)
        scores = scores.astype(np.float32)
        best = np.flatnonzero(scores >= _at_place(limit, scores))
        return racing[best[np.lexsort((self.rank_D[racing[best]], -scores[best]))][:limit]].tolist()

    def _racing(self, asked: list[_Term], limit: int) -> np.ndarray:
        """Documents among which the best are for certain: int32, ascending.

        Terms that can add most come first. As soon as the others together cannot lift a document that has none of those
        to the ``limit``-th best, they are looked up for the documents that are still in the race alone ("MaxScore",
        Turtle and Flood 1995). Sums are rough here, in float32.
        """
        missing = sorted(asked, key=lambda term: -term.most)
        scores_D = np.zeros(len(self.rank_D), np.float32)
        least = 0.0  # what the document at place ``limit`` has at least
        done, next_look = 0, limit
        while missing and _needed(least, missing) <= 0:
            term = missing.pop(0)
            term.add_to(scores_D)
            done += len(term.documents)
            if len(term.documents) >= limit and done >= next_look:  # what do those that lead now have in the end?
                leading = np.argpartition(scores_D.take(term.documents), -limit)[-limit:]
                leading = term.documents[np.sort(leading)]
                least = max(least, float(sum(t.gains_of(leading) for t in asked).min()))
                next_look = 4 * done
        racing = np.flatnonzero(scores_D >= max(_needed(least, missing), _TINY)).astype(np.int32)
        while missing:
            term = missing.pop(0)
            term.add_to(scores_D, racing)
            partial = scores_D.take(racing)
            least = max(least, _at_place(limit, partial))
            racing = racing[partial >= _needed(least, missing)]
        return racing

    def _asked(self, query: str) -> list[_Term]:
        """The terms of a query that some document has."""
        found = []
        for term, times in Counter(terms(query)).items():
            number = self.vocabulary.get(term)
            if number is None:
                continue
            rows = slice(int(self.starts_V[number]), int(self.starts_V[number + 1]))
            have = rows.stop - rows.start
            weight = np.float32(times) * np.float32(np.log(1 + (self.size - have + 0.5) / (have + 0.5)))
            gain = weight - weight / (np.float32(1) + self.weights)
            found.append(_Term(self.documents[rows], self.kinds[rows], gain, float(gain[self.tops_V[number]])))
        return found

    def save(self, directory: Path) -> None:
        """Write the index as ``.npy`` files and a list of terms; the directory must exist."""
        for name in ("starts_V", "documents", "kinds", "weights", "tops_V", "rank_D"):
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
            tops_V=np.load(directory / "tops_V.npy"),
            rank_D=np.load(directory / "rank_D.npy"),
            size=int(np.load(directory / "size.npy")),
        )


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a query."""

    documents: np.ndarray  #: int32, ascending
    kinds: np.ndarray  #: of each of them
    gain: np.ndarray  #: float32, what a document of each kind gets
    most: float  #: the greatest gain that a document has

    def add_to(self, scores_D: np.ndarray, racing: np.ndarray | None = None) -> None:
        """Add the gain of each document, or of those in ``racing`` alone (ascending)."""
        documents, kinds = self.documents, self.kinds
        if racing is not None and len(racing) * _STEPS < len(documents):
            scores_D[racing] += self.gains_of(racing)
            return
        if racing is not None:
            is_racing_D = np.zeros(len(scores_D), np.bool_)
            is_racing_D[racing] = True
            common = np.flatnonzero(is_racing_D.take(documents))
            documents, kinds = documents.take(common), kinds.take(common)
        scores_D[documents] = scores_D.take(documents) + self.gain.take(kinds)  # no document occurs twice

    def gains_of(self, documents: np.ndarray) -> np.ndarray:
        """float32, 0 for a document that does not have the term."""
        place = np.searchsorted(self.documents, documents)
        place[place == len(self.documents)] = 0
        return np.where(self.documents[place] == documents, self.gain.take(self.kinds[place]), np.float32(0))


def _needed(least: float, missing: list[_Term]) -> float:
    """Below this a document cannot come to ``least`` any more, not even by rounding, whatever the terms give it."""
    return least * (1 - _ROUGH) - sum(term.most for term in missing) * (1 + _ROUGH)


def _at_place(limit: int, scores: np.ndarray) -> float:
    return float(np.partition(scores, -limit)[-limit]) if len(scores) >= limit else 0.0


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
            pending.extend(numbers.of(text))
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
        order = np.argsort(weights, kind="stable")
        numbers = np.empty(len(order), np.uint16)
        numbers[order] = np.arange(len(order))
        for first in range(0, len(kinds), _CHUNK):  # numpy makes eight bytes of every index
            kinds[first : first + _CHUNK] = numbers.take(kinds[first : first + _CHUNK])
        tops = np.maximum.reduceat(kinds, starts[:-1]) if len(kinds) else kinds
        rank = np.empty(len(self.ids), np.int32)
        rank[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids))
        return Index(self.vocabulary, starts, documents, kinds, weights[order], tops, rank, self.filled)


class _Numbers(dict[str, tuple[int, ...]]):
    """What stands between two blanks -> the numbers of its terms; new terms are numbered as they come.

    No word reaches over a blank, so a text is cut there, which is quick, and each piece is looked into once. Forgets
    all when there are ``_PIECES``: those that occur often are soon back.
    """

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    def of(self, text: str) -> Iterable[int]:
        pieces = text.split() if text.isascii() else text.split(" ")
        return chain.from_iterable(map(self.__getitem__, pieces))

    def __missing__(self, piece: str) -> tuple[int, ...]:
        if len(self) == _PIECES:
            self.clear()
        found = tuple(self.vocabulary.setdefault(term, len(self.vocabulary)) for term in terms(piece))
        self[piece] = found
        return found
