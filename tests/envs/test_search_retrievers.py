"""Retrievers: the right passages in the right order, from an index that is made once."""

from __future__ import annotations

import json
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.envs.search.bm25 import K1, B, BM25Retriever, words
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
    """Lucene's BM25 from its formula, in float64; equal scores by contents, the same contents by place."""
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
    ranked = sorted((i for i, s in enumerate(scores) if s > 0), key=lambda i: (-round(scores[i], 6), tie(texts[i]), i))[
        :topk
    ]
    return [(f"p{i}", scores[i]) for i in ranked]


def tie(contents: str) -> bytes:
    return blake2b(contents.encode(), digest_size=8).digest()


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


def test_ties_of_the_same_text_go_to_the_earlier_passage(tmp_path: Path):
    (found,) = BM25Retriever(write(tmp_path, ["same words"] * 40 + ["other"])).search(["same"], 3)
    assert [p.id for p in found] == ["p0", "p1", "p2"]


def test_a_corpus_gives_the_same_passages_in_any_order(tmp_path: Path):
    texts = [f"city {name}" for name in "abcdefghijklmnopqrst"]  # all tie
    found = [
        [p.contents for p in BM25Retriever(write(tmp_path, some)).search(["city"], 5)[0]]
        for some in (texts, texts[::-1], texts[7:] + texts[:7])
    ]
    assert found[0] == found[1] == found[2] != texts[:5]


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
    with pytest.raises(UserError, match="line 6 of corpus .* has neither 'contents' nor 'title' and 'text'"):
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


def test_32_threads_find_what_one_finds(tmp_path: Path):
    retriever = BM25Retriever(write(tmp_path, [f"{text} {i}" for i in range(50) for text in TEXTS]))
    queries = [f"{word} {i}" for i in range(50) for word in ("Iliad", "city", "Herbert", "nothing")]
    alone = retriever.search(queries, 4)
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(lambda query: retriever.search([query], 4)[0], queries)) == alone
