"""``seedbed retriever``: serve a corpus to many runs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from seedbed.envs.search.passages import Retriever
from seedbed.types import UserError

app = typer.Typer(no_args_is_help=True, help="Serve passages for Search-QA.")

Dense = Annotated[Path | None, typer.Option(help="Folder of a sentence-transformers model, instead of BM25.")]
Index = Annotated[Path | None, typer.Option(help="FAISS index of the corpus for --dense; without it one is made once.")]
IndexOptions = Annotated[str, typer.Option(help="Search parameters of the index: nprobe=64, efSearch=128.")]
QueryPrefix = Annotated[
    str | None,
    typer.Option(help="For --dense; E5 wants 'query: '.", show_default="what the model's configuration says"),
]
PassagePrefix = Annotated[
    str | None,
    typer.Option(help="For --dense; E5 wants 'passage: '.", show_default="what the model's configuration says"),
]


@app.callback()
def _group() -> None:
    """So that a lone command keeps its name."""


@app.command()
def serve(
    corpus: Annotated[Path, typer.Option(help="JSON lines of id and contents (also .gz, .xz, Parquet).")],
    host: Annotated[str, typer.Option(help="Address to listen on; anyone who reaches it can search.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    dense: Dense = None,
    index: Index = None,
    index_options: IndexOptions = "",
    query_prefix: QueryPrefix = None,
    passage_prefix: PassagePrefix = None,
) -> None:
    """Answer POST /retrieve in SEED's and Search-R1's format, and GET /health, until interrupted.

    Use it with env.options.retriever=URL. Example: seedbed retriever serve --corpus wiki-18.jsonl --dense e5-base-v2
    --index e5_Flat.index --query-prefix 'query: ' --passage-prefix 'passage: '
    """
    from seedbed.envs.search.service import RetrieverServer  # noqa: PLC0415 - starts quickly without

    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("seedbed").setLevel(logging.INFO)
    retriever = open_retriever(corpus, dense, index, index_options, query_prefix, passage_prefix)
    try:
        server = RetrieverServer(retriever, host, port)
    except OSError as error:
        raise UserError(f"cannot listen on {host} port {port}: {error.strerror}; choose another --port") from error
    with server:
        typer.echo(f"{retriever.name}: {server.url}")
        server.serve_forever()


def open_retriever(
    corpus: Path,
    dense: Path | None = None,
    index: Path | None = None,
    index_options: str = "",
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
) -> Retriever:
    """What the options of ``serve`` ask for. Raises ``UserError`` if they do not fit together."""
    if dense is None:
        if index or index_options or query_prefix is not None or passage_prefix is not None:
            raise UserError(
                "--index, --index-options, --query-prefix and --passage-prefix belong to --dense: name a model with it"
            )
        from seedbed.envs.search.bm25 import BM25Retriever  # noqa: PLC0415 - starts quickly without

        return BM25Retriever(corpus)
    from seedbed.envs.search.dense import DenseRetriever  # noqa: PLC0415 - starts quickly without
    from seedbed.envs.search.encoder import SentenceEncoder  # noqa: PLC0415 - starts quickly without

    return DenseRetriever(corpus, SentenceEncoder(dense, query_prefix, passage_prefix), index, index_options)
