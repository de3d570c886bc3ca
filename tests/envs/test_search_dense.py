"""Dense retrieval: the nearest passages under a real (tiny, random) sentence-transformers model, and no stale index."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, BertConfig, BertModel, PreTrainedTokenizerFast

from seedbed.commands.retriever import open_retriever
from seedbed.envs.search.client import RetrieverClient
from seedbed.envs.search.dense import DenseRetriever
from seedbed.envs.search.encoder import SentenceEncoder
from seedbed.envs.search.merged import Merged
from seedbed.envs.search.passages import Passage
from seedbed.envs.search.service import RetrieverServer
from seedbed.types import UserError

faiss = pytest.importorskip("faiss", reason="the extra [dense] is not installed: no FAISS")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
library = pytest.importorskip("sentence_transformers", reason="the extra [dense] is not installed")

WORDS = "dune novel homer iliad troy city poland long wrote who the of a query passage : ?".split()
TEXTS = [" ".join(WORDS[(i * step) % len(WORDS)] for i in range(n)) for n in range(2, 9) for step in (1, 3, 5)]
HIDDEN = 32


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEEDBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write(tmp_path / "corpus.jsonl", TEXTS)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


def write(path: Path, texts: Sequence[str]) -> Path:
    path.write_text("".join(json.dumps({"id": f"p{i}", "contents": text}) + "\n" for i, text in enumerate(texts)))
    return path


def make_model(folder: Path, seed: int = 0, **options: object) -> Path:
    """A random BERT with mean pooling, written by sentence-transformers itself. ``options`` are those of its class."""
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    words = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    plain = folder.with_name(f"{folder.name}-plain")
    PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=16, **special).save_pretrained(plain)
    sizes = dict(num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16)
    torch.manual_seed(seed)
    bert = BertModel(BertConfig(vocab_size=len(vocabulary), hidden_size=HIDDEN, initializer_range=0.5, **sizes))
    bert.save_pretrained(plain)
    library.SentenceTransformer(modules=[Transformer(str(plain)), Pooling(HIDDEN)], **options).save(str(folder))
    return folder


def vectors(folder: Path, texts: Sequence[str]) -> np.ndarray:
    """By transformers alone, one text at a time: the mean over a text's tokens, not normalised."""
    plain = folder.with_name(f"{folder.name}-plain")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(plain)
    bert = AutoModel.from_pretrained(plain).eval()
    with torch.no_grad():
        states = [bert(**tokenizer(text, truncation=True, return_tensors="pt")).last_hidden_state[0] for text in texts]
    return np.stack([state.mean(0).numpy() for state in states])


def check(found: list[Passage], scores_P: np.ndarray, topk: int) -> None:
    """``found`` are the ``topk`` best of TEXTS; equal scores in any order."""
    assert [p.contents for p in found] == [TEXTS[int(p.id[1:])] for p in found]
    assert len({p.id for p in found}) == topk
    np.testing.assert_allclose([p.score for p in found], np.sort(scores_P)[::-1][:topk], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose([p.score for p in found], [scores_P[int(p.id[1:])] for p in found], rtol=1e-4, atol=1e-5)


def unit(vectors_BD: np.ndarray) -> np.ndarray:
    return vectors_BD / np.linalg.norm(vectors_BD, axis=1, keepdims=True)


QUERIES = ["who wrote the iliad ?", "novel", "city of poland", ""]


def test_cosine_of_the_models_own_vectors(corpus: Path, model: Path):
    found = open_retriever(corpus, model).search(QUERIES, 5)
    scores_QP = unit(vectors(model, QUERIES)) @ unit(vectors(model, TEXTS)).T
    for passages, scores_P in zip(found, scores_QP, strict=True):
        check(passages, scores_P, 5)
    assert len({tuple(p.id for p in passages) for passages in found}) > 1, "queries differ in what they find"


def test_a_model_made_for_the_dot_product_is_searched_by_it(corpus: Path, tmp_path: Path):
    dot = make_model(tmp_path / "dot", similarity_fn_name="dot")
    for passages, scores_P in zip(
        open_retriever(corpus, dot).search(QUERIES, 5), vectors(dot, QUERIES) @ vectors(dot, TEXTS).T, strict=True
    ):
        check(passages, scores_P, 5)
    with pytest.raises(UserError, match="compares vectors by euclidean"):
        SentenceEncoder(make_model(tmp_path / "far", similarity_fn_name="euclidean"))


def test_prefixes_stand_before_the_text(corpus: Path, model: Path):
    found = open_retriever(corpus, model, query_prefix="query: ", passage_prefix="passage: ").search(QUERIES, 4)
    queries = unit(vectors(model, [f"query: {query}" for query in QUERIES]))
    passages = unit(vectors(model, [f"passage: {text}" for text in TEXTS]))
    for listed, scores_P in zip(found, queries @ passages.T, strict=True):
        check(listed, scores_P, 4)


def test_without_a_prefix_the_models_configuration_decides(corpus: Path, tmp_path: Path):
    model = make_model(tmp_path / "model", prompts={"query": "query: ", "document": "passage: "})
    given = open_retriever(corpus, model, query_prefix="query: ", passage_prefix="passage: ").search(QUERIES, 4)
    assert open_retriever(corpus, model).search(QUERIES, 4) == given
    bare = unit(vectors(model, QUERIES)) @ unit(vectors(model, TEXTS)).T
    check(open_retriever(corpus, model, query_prefix="", passage_prefix="").search(QUERIES, 4)[0], bare[0], 4)


def stamps(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_an_index_is_made_once_for_each_corpus_model_and_passage_prefix(corpus: Path, model: Path, cache: Path):
    first = open_retriever(corpus, model).search(QUERIES, 3)
    made = stamps(cache)
    assert open_retriever(corpus, model, query_prefix="query: ").search(QUERIES, 3) != first
    assert open_retriever(corpus, model).search(QUERIES, 3) == first
    assert stamps(cache) == made
    (index,) = cache.rglob("*.index")
    assert open_retriever(corpus, model, index).search(QUERIES, 3) == first

    open_retriever(corpus, model, passage_prefix="passage: ")
    assert len(list(cache.rglob("*.index"))) == 2
    make_model(model, seed=1)  # another model under the same name
    scores_QP = unit(vectors(model, QUERIES)) @ unit(vectors(model, TEXTS)).T
    check(open_retriever(corpus, model).search(QUERIES, 3)[0], scores_QP[0], 3)
    assert len(list(cache.rglob("*.index"))) == 3
    assert not [path for path in cache.rglob("*") if path.suffix in (".pkl", ".pickle")]


def test_a_stale_index_is_refused(corpus: Path, model: Path, tmp_path: Path, cache: Path):
    open_retriever(corpus, model)
    (index,) = cache.rglob("*.index")
    other = write(tmp_path / "other.jsonl", TEXTS[::-1])
    with pytest.raises(UserError, match="was made from another corpus: leave --index out"):
        open_retriever(other, model, index)
    with pytest.raises(UserError, match="was made from another passage prefix"):
        open_retriever(corpus, model, index, passage_prefix="passage: ")
    with pytest.raises(UserError, match="was made from another corpus and model and passage prefix"):
        open_retriever(other, make_model(tmp_path / "another", seed=1), index, passage_prefix="")
    with pytest.raises(UserError, match="has 21 rows but corpus .* has 20 passages"):
        open_retriever(write(tmp_path / "other.jsonl", TEXTS[1:]), model, index)
    origin = index.with_name("flat.index.json")
    origin.write_text("[")
    with pytest.raises(UserError, match="flat.index.json is damaged"):
        open_retriever(corpus, model, index)


def test_an_index_from_elsewhere_must_know_the_corpus(corpus: Path, model: Path, tmp_path: Path):
    """As one that was downloaded: any kind for inner products, and nothing beside it that says what it is."""
    passages = unit(vectors(model, TEXTS)).astype(np.float32)
    index = faiss.index_factory(HIDDEN, "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(passages)
    index.add(passages)
    faiss.write_index(index, str(tmp_path / "ivf.index"))
    found = open_retriever(corpus, model, tmp_path / "ivf.index", "nprobe=4").search(QUERIES, 5)
    scores_QP = unit(vectors(model, QUERIES)) @ passages.T
    for listed, scores_P in zip(found, scores_QP, strict=True):
        check(listed, scores_P, 5)
    few = open_retriever(corpus, model, tmp_path / "ivf.index", "nprobe=1").search(QUERIES, len(TEXTS))
    assert all(0 < len(listed) < len(TEXTS) for listed in few), "what was not looked at is left out"

    with pytest.raises(UserError, match="does not take the options 'speed=9'"):
        open_retriever(corpus, model, tmp_path / "ivf.index", "speed=9")
    # A passage of 10 found by chance would prove nothing, so the corpus is larger here.
    texts = [f"{first} {second} {third}" for first in WORDS[:6] for second in WORDS[:6] for third in WORDS[:6]]
    larger = write(tmp_path / "larger.jsonl", texts)
    flat = faiss.IndexFlatIP(HIDDEN)
    flat.add(unit(vectors(model, texts)).astype(np.float32))
    faiss.write_index(flat, str(tmp_path / "flat.index"))
    assert open_retriever(larger, model, tmp_path / "flat.index").search([texts[5]], 1)[0][0].contents == texts[5]
    with pytest.raises(UserError, match="only . of 16 passages find themselves"):
        open_retriever(larger, make_model(tmp_path / "another", seed=1), tmp_path / "flat.index")
    with pytest.raises(UserError, match="only . of 16 passages find themselves"):
        open_retriever(write(tmp_path / "shuffled.jsonl", texts[100:] + texts[:100]), model, tmp_path / "flat.index")


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("IndexFlatL2", HIDDEN, "is not for inner products"),
        ("IndexFlatIP", 8, "holds vectors of 8 numbers but model model gives 32"),
    ],
)
def test_an_index_that_cannot_be_searched_is_refused(
    corpus: Path, model: Path, tmp_path: Path, kind: str, size: int, message: str
):
    index = getattr(faiss, kind)(size)
    index.add(np.ones((len(TEXTS), size), np.float32))
    faiss.write_index(index, str(tmp_path / "x.index"))
    with pytest.raises(UserError, match=message):
        open_retriever(corpus, model, tmp_path / "x.index")
    for other in (corpus, tmp_path / "none.index"):
        with pytest.raises(UserError, match="is not a FAISS index that can be read"):
            open_retriever(corpus, model, other)


def test_no_code_and_no_pickle_is_taken_from_a_model(model: Path, tmp_path: Path):
    modules = json.loads((model / "modules.json").read_text())
    (model / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Thing: pass\n")
    (model / "modules.json").write_text(
        json.dumps([*modules, {"idx": 2, "name": "2", "path": "", "type": "mine.Thing"}])
    )
    with pytest.raises(UserError, match="modules.json is not safe to load: .*mine.Thing"):
        SentenceEncoder(model)
    assert not (tmp_path / "ran").exists()
    (model / "modules.json").write_text(json.dumps(modules))
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(UserError, match="pytorch_model.bin is not safe to load"):
        SentenceEncoder(model)
    with pytest.raises(UserError, match="nowhere holds no sentence-transformers model"):
        SentenceEncoder(tmp_path / "nowhere")


def test_32_threads_get_what_one_gets_over_both_formats(corpus: Path, model: Path):
    retriever = open_retriever(corpus, model)
    server = RetrieverServer(retriever, port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        client = RetrieverClient(server.url, cache=0, connections=32)  # each body holds both formats
        queries = [f"{a} {b} \ud800" for a in WORDS[:8] for b in WORDS[:8]]
        with ThreadPoolExecutor(32) as pool:
            found = list(pool.map(lambda asked: client.search([asked[1]], 2 + asked[0] % 3)[0], enumerate(queries)))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    for number, (passages, alone) in enumerate(zip(found, retriever.search(queries, 4), strict=True)):
        assert len(passages) == 2 + number % 3
        np.testing.assert_allclose([p.score for p in passages], [p.score for p in alone[: len(passages)]], rtol=1e-4)


class Letters:
    """An encoder whose vectors can be worked out by hand: how often each of the letters a to z occurs."""

    name, identity = "letters", {"model": "letters"}

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        return unit(np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts], np.float32))

    passages = queries


def test_more_passages_than_a_batch_holds(tmp_path: Path):
    texts = ["aab", "bbb", "abc", "ccd"] * 600
    texts[2005] = "abb"
    retriever = DenseRetriever(write(tmp_path / "corpus.jsonl", texts), Letters())
    (found,) = retriever.search(["abb"], 2)
    assert (found[0].id, found[0].score) == ("p2005", pytest.approx(1.0))
    assert found[1].contents == "bbb" and found[1].score == pytest.approx(2 / math.sqrt(5))  # (0, 1) by (1, 2)/sqrt(5)
    assert [len(f) for f in retriever.search(["a", "b"], 100)] == [100, 100] and retriever.search([], 1) == []


def test_those_who_wait_are_served_together_and_hear_of_an_error():
    calls: list[list[int]] = []
    entered, release = threading.Event(), threading.Event()

    def double(items: list[int]) -> list[int]:
        calls.append(items)
        entered.set()
        release.wait(10)
        if 13 in items:
            raise ValueError("thirteen")
        return [2 * item for item in items]

    merged = Merged(double)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(merged, [0])
        assert entered.wait(10)
        waiting = [pool.submit(merged, [i, -i]) for i in range(1, 9)]
        while len(merged._waiting) < 8:
            time.sleep(0.001)
        release.set()
        assert first.result() == [0]
        assert [future.result() for future in waiting] == [[2 * i, -2 * i] for i in range(1, 9)]
        assert len(calls) == 2 and sorted(calls[1]) == sorted([*range(-8, 0), *range(1, 9)])
        with pytest.raises(ValueError, match="thirteen"):
            merged([13])
        assert merged([4]) == [8], "it goes on"
