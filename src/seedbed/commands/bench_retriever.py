"""``seedbed bench retriever``: how many queries a second, and how often is the answer in what was found?"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from seedbed.commands.retriever import Dense, Index, IndexOptions, PassagePrefix, QueryPrefix, open_retriever
from seedbed.envs.search.client import RetrieverClient
from seedbed.envs.search.datasets import SIZES, Question, data_folder, load_questions, question_file
from seedbed.envs.search.env import find_corpus
from seedbed.envs.search.passages import Passage
from seedbed.envs.search.scoring import normalise_answer
from seedbed.envs.search.service import RetrieverServer
from seedbed.types import UserError

BATCH = 512
_out = Console(highlight=False, soft_wrap=True)


def retriever(
    corpus: Annotated[Path | None, typer.Option(help="Default: the corpus beside the questions.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Test questions asked, the sets taking turns.")] = 1000,
    topk: Annotated[int, typer.Option(min=1, max=100)] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Episodes that ask at once over HTTP.")] = 32,
    dense: Dense = None,
    index: Index = None,
    index_options: IndexOptions = "",
    query_prefix: QueryPrefix = None,
    passage_prefix: PassagePrefix = None,
    out: Annotated[Path | None, typer.Option(help="Write the figures as JSON.")] = None,
) -> None:
    """Queries a second of a retriever: in this process, and over HTTP with client and service both counted.

    CPU is that of all threads, so queries per CPU second are what one core answers. Example: seedbed bench retriever
    """
    questions = _questions(queries)
    if corpus is None and (corpus := find_corpus(data_folder())) is None:
        raise UserError(f"there is no corpus in {data_folder()}: name one with --corpus")
    searcher = open_retriever(corpus, dense, index, index_options, query_prefix, passage_prefix)
    texts = [question.text for question in questions]
    searcher.search(texts[:1], topk)  # what is loaded on first use is not a query's
    ways: dict[str, dict[str, float]] = {}

    def measure(way: str, search: Callable[[], list[list[Passage]]]) -> list[list[Passage]]:
        clock, cpu = time.perf_counter(), time.process_time()
        found = search()
        cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
        ways[way] = {"per_cpu_second": len(texts) / cpu, "per_second": len(texts) / clock}
        _out.print(f"{way:>28}: {len(texts) / cpu:8,.0f} per CPU second, {len(texts) / clock:8,.0f} per second")
        return found

    _out.print(f"{searcher.name}; {len(texts):,} questions, top {topk}")
    found = measure("in process, one by one", lambda: [searcher.search([text], topk)[0] for text in texts])
    measure(
        f"in process, {BATCH} at once", lambda: [f for batch in _batches(texts) for f in searcher.search(batch, topk)]
    )
    with RetrieverServer(searcher, port=0) as server, ThreadPoolExecutor(threads) as pool:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        client = RetrieverClient(server.url, connections=threads, cache=0)

        def ask(text: str) -> list[Passage]:
            return client.search([text], topk)[0]

        measure("over HTTP, one by one", lambda: [ask(text) for text in texts])
        over = measure(f"over HTTP, {threads} at once", lambda: list(pool.map(ask, texts)))
        server.shutdown()
    if [[p.id for p in passages] for passages in over] != [[p.id for p in passages] for passages in found]:
        _out.print("passages over HTTP differ from those in process for some questions (near ties of a batched model)")
    hits = sum(map(_answered, questions, found)) / len(questions)
    _out.print(f"a gold answer stands in the passages of {hits:.1%} of the questions")
    if out:
        facts: dict[str, Any] = {"retriever": searcher.name, "queries": len(texts), "topk": topk, "threads": threads}
        out.write_text(json.dumps({**facts, "answer_in_passages": hits, "ways": ways}, indent=1) + "\n", "utf-8")


def _questions(count: int) -> list[Question]:
    """Of all sets that are there, taking turns, no text twice."""
    folder = data_folder()
    sets = [name for name in SIZES if question_file(folder, "test", name)]
    found = load_questions("test", sets)
    turns = (q for turn in zip_longest(*(questions.values() for questions in found.values())) for q in turn if q)
    questions = list(islice({question.text: question for question in turns}.values(), count))
    if not questions:
        raise UserError(f"there are no test questions in {folder}: see seedbed doctor")
    return questions


def _batches(texts: Sequence[str]) -> list[Sequence[str]]:
    return [texts[first : first + BATCH] for first in range(0, len(texts), BATCH)]


def _answered(question: Question, passages: Sequence[Passage]) -> bool:
    text = f" {normalise_answer(' '.join(passage.contents for passage in passages))} "
    return any(f" {gold} " in text for gold in map(normalise_answer, question.golds) if gold)
