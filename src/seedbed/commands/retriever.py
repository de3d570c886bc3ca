"""``seedbed retriever``: serve a corpus to many runs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from seedbed.envs.search.passages import Retriever
from seedbed.types import UserError

app = typer.Typer(no_args_is_help=True, help="Serve passages for Search-QA.")


@app.callback()
def _group() -> None:
    """So that a lone command keeps its name."""


@app.command()
def serve(
    corpus: Annotated[Path, typer.Option(help="JSON lines of id and contents (also .gz, .xz, Parquet).")],
    host: Annotated[str, typer.Option(help="Address to listen on; anyone who reaches it can search.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    dense: Annotated[str, typer.Option(help="Folder of a sentence-transformers model, instead of BM25.")] = "",
    index: Annotated[Path | None, typer.Option(help="FAISS index of the corpus for --dense, if there is one.")] = None,
    query_prefix: Annotated[str, typer.Option(help="For --dense; E5 wants 'query: '.")] = "",
    passage_prefix: Annotated[str, typer.Option(help="For --dense; E5 wants 'passage: '.")] = "",
) -> None:
    """Answer POST /retrieve in SEED's and Search-R1's format until interrupted."""
    from seedbed.envs.search.service import RetrieverServer  # noqa: PLC0415 - starts quickly without

    if not dense and (index or query_prefix or passage_prefix):
        raise UserError("--index, --query-prefix and --passage-prefix belong to --dense: name a model with it")
    logging.basicConfig(format="%(asctime)s %(message)s")
    retriever = _retriever(corpus, dense, index, query_prefix, passage_prefix)
    try:
        server = RetrieverServer(retriever, host, port)
    except OSError as error:
        raise UserError(f"cannot listen on {host} port {port}: {error.strerror}; choose another --port") from error
    with server:
        typer.echo(f"{retriever.name}: {server.url}")
        server.serve_forever()


def _retriever(corpus: Path, dense: str, index: Path | None, query_prefix: str, passage_prefix: str) -> Retriever:
    if dense:
        from seedbed.envs.search.dense import DenseRetriever, load_encoder  # noqa: PLC0415 - an extra

        encoder = load_encoder(dense)
        return DenseRetriever(
            corpus, encoder, dense, index=index, query_prefix=query_prefix, passage_prefix=passage_prefix
        )
    from seedbed.envs.search.bm25 import BM25Retriever  # noqa: PLC0415 - starts quickly without

    return BM25Retriever(corpus)
