"""Retrievers: the right passages in the right order, from an index that is made once."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.envs.search.bm25 import K1, B, BM25Retriever, words
from seedbed.envs.search.dense import DenseRetriever, load_encoder
from seedbed.envs.search.passages import Passage, read_corpus
from seedbed.types import UserError

pytest.importorskip("bm25s", reason="the extra [search] is not installed")
TEXTS = [
    '"Dune"\nDune is a novel by Frank Herbert.',
    '"Homer"\nHomer wrote the Iliad, and the Iliad is long.',
    '"Troy"\nTroy is the city of the Iliad.',
    '"Łódź"\nŁódź is a city in Poland; vitamin C.',
    "",
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SEEDBED_CACHE", str(folder))
    return folder


def write(folder: Path, texts: list[str]) -> Path:
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"id": f"p{i}", "contents": text}) + "\n" for i, text in enumerate(texts)))
    return corpus


def oracle(texts: list[str], query: str, topk: int) -> list[tuple[str, float]]:
    """Lucene's BM25 from its formula, in float64; equal scores in the order of the corpus."""
    bags = [Counter(words(text)) for text in texts]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in words(query):
            df = sum(word in other for other in bags)
            norm = K1 * (1 - B + B * bag.total() / mean)
            score += math.log(1 + (len(bags) - df + 0.5) / (df + 0.5)) * bag[word] / (bag[word] + norm) if df else 0.0
        scores.append(score)
    ranked = sorted((i for i, s in enumerate(scores) if s > 0), key=lambda i: (-round(scores[i], 6), i))[:topk]
    return [(f"p{i}", scores[i]) for i in ranked]


def check(texts: list[str], query: str, topk: int, found: list[Passage]) -> None:
    expected = oracle(texts, query, topk)
    assert [p.id for p in found] == [name for name, _ in expected]
    np.testing.assert_allclose([p.score for p in found], [score for _, score in expected], rtol=1e-5)


@pytest.mark.parametrize("topk", [1, 3, 5, 100])
@pytest.mark.parametrize(
    "query", ["who wrote the Iliad?", "CITY city", "łódź", "vitamin C", "a the of", "", "zzz", "\ud800"]
)
def test_bm25_is_the_formula(tmp_path: Path, query: str, topk: int):
    (found,) = BM25Retriever(write(tmp_path, TEXTS)).search([query], topk)
    check(TEXTS, query, topk, found)
    assert all(p.contents == TEXTS[int(p.id[1:])] for p in found)


@settings(max_examples=25)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcde"), max_size=6).map(" x".join), min_size=1, max_size=6),
    query=st.lists(st.sampled_from(["xa", "xb", "xe"]), max_size=2).map(" ".join),
)
def test_bm25_is_the_formula_on_any_corpus(tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str):
    texts = [*texts, "solid"]
    (found,) = BM25Retriever(write(tmp_path_factory.mktemp("corpus"), texts)).search([query], 3)
    check(texts, query, 3, found)


def test_ties_go_to_the_earlier_passage(tmp_path: Path):
    (found,) = BM25Retriever(write(tmp_path, ["same words"] * 40 + ["other"])).search(["same"], 3)
    assert [p.id for p in found] == ["p0", "p1", "p2"]


def test_many_queries_are_each_of_them(tmp_path: Path):
    retriever, queries = BM25Retriever(write(tmp_path, TEXTS)), ["Iliad", "Poland", "zzz"]
    assert retriever.search(queries, 2) == [retriever.search([query], 2)[0] for query in queries]
    assert retriever.search([], 2) == []
    assert retriever.name == "bm25, 5 passages of corpus.jsonl"


def test_the_index_is_made_once_and_for_this_content(tmp_path: Path, cache: Path):
    first = BM25Retriever(write(tmp_path, TEXTS)).search(["Iliad"], 3)
    made = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    assert BM25Retriever(tmp_path / "corpus.jsonl").search(["Iliad"], 3) == first
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == made
    assert BM25Retriever(write(tmp_path, ["Iliad"])).search(["Iliad"], 3)[0][0].contents == "Iliad"
    assert not [path for path in cache.rglob("*") if path.suffix in (".pkl", ".pickle")]


def test_a_broken_build_leaves_nothing_behind(tmp_path: Path, cache: Path):
    corpus = write(tmp_path, TEXTS)
    corpus.write_text(corpus.read_text() + '{"id": "5"}\n')
    with pytest.raises(UserError, match="record 6 of corpus .* has neither 'contents' nor 'title' and 'text'"):
        BM25Retriever(corpus)
    assert [path for path in cache.rglob("*") if path.is_file()] == []
    assert BM25Retriever(write(tmp_path, TEXTS)).search(["Dune"], 1)[0][0].id == "p0"


@pytest.mark.parametrize(("texts", "message"), [([], "is empty"), (["", "the"], "has no words")])
def test_a_corpus_in_which_nothing_can_be_found_is_refused(tmp_path: Path, texts: list[str], message: str):
    with pytest.raises(UserError, match=message):
        BM25Retriever(write(tmp_path, texts))
    with pytest.raises(UserError, match="cannot be read"):
        BM25Retriever(tmp_path / "none.jsonl")


def test_titles_are_read_as_search_r1_writes_them(tmp_path: Path):
    (tmp_path / "c.json").write_text('[{"title": "Troy", "text": "A city."}, {"id": 7, "contents": "x"}]')
    assert list(read_corpus(tmp_path / "c.json")) == [Passage("0", '"Troy"\nA city.'), Passage("7", "x")]


class Letters:
    """An encoder: how often each of the letters a to z occurs."""

    def encode(self, sentences: list[str], *, normalize_embeddings: bool, show_progress_bar: bool) -> np.ndarray:
        counts_BV = np.array([[s.lower().count(chr(97 + i)) for i in range(26)] for s in sentences], np.float64)
        return counts_BV / np.linalg.norm(counts_BV, axis=1, keepdims=True)


def dense(corpus: Path, **options: object) -> DenseRetriever:
    pytest.importorskip("faiss", reason="the extra [dense] is not installed")
    return DenseRetriever(corpus, Letters(), "letters", **options)


def test_dense_search_is_the_largest_inner_product(tmp_path: Path, cache: Path):
    texts = ["aab", "bbb", "abc", "ccd"] * 90  # more than one batch
    texts[5] = "abb"
    retriever = dense(write(tmp_path, texts))
    (found,) = retriever.search(["abb"], 2)
    assert (found[0].id, found[0].score) == ("p5", pytest.approx(1.0))
    assert (found[1].id, found[1].score) == ("p1", pytest.approx(2 / math.sqrt(5)))  # bbb: (0, 1) by (1, 2)/sqrt(5)
    (index,) = cache.rglob("flat.index")
    assert dense(tmp_path / "corpus.jsonl", index=index).search(["abb"], 2) == [found]
    assert [len(f) for f in retriever.search(["a", "b"], 100)] == [100, 100] and retriever.search([], 1) == []


def test_prefixes_are_part_of_the_text_and_of_the_index(tmp_path: Path):
    corpus = write(tmp_path, ["ab", "b"])
    assert dense(corpus).search(["b"], 1)[0][0].score == pytest.approx(1.0)
    with_prefix = dense(corpus, query_prefix="zz", passage_prefix="zz")
    assert [p.id for p in with_prefix.search(["b"], 2)[0]] == ["p1", "p0"]
    assert with_prefix.search(["b"], 2)[0][1].score == pytest.approx(5 / math.sqrt(6 * 5))


def test_an_index_of_another_corpus_is_refused(tmp_path: Path, cache: Path):
    dense(write(tmp_path, ["ab", "b"]))
    (index,) = cache.rglob("flat.index")
    with pytest.raises(UserError, match="has 2 rows but corpus .* has 3 passages"):
        dense(write(tmp_path, ["ab", "b", "c"]), index=index)
    with pytest.raises(UserError, match="is not a FAISS index"):
        dense(tmp_path / "corpus.jsonl", index=tmp_path / "corpus.jsonl")


def test_without_the_model_or_the_library_it_is_said():
    with pytest.raises(UserError, match=r"there is no folder nowhere|pip install 'seedbed\[dense\]'"):
        load_encoder("nowhere")
