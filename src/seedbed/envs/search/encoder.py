"""How does text become a vector? Any sentence-transformers model in a folder (extra ``dense``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np

from seedbed.envs.search.model_folder import check_model_folder
from seedbed.types import UserError

_CONTENT = (".json", ".safetensors", ".txt", ".model")  #: endings of the files that decide what a model does


class Encoder(Protocol):
    """Vectors whose inner products say how well a passage fits a query. Called by one thread at a time."""

    name: str  #: for people
    identity: dict[str, str | None]  #: equal for two encoders only if passages get the same vectors from both

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        """float32, texts by dimensions."""

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        """float32, texts by dimensions."""


class SentenceEncoder:
    """See ``Encoder``. Vectors are normalised (cosine) unless the model's configuration asks for the dot product."""

    def __init__(self, folder: Path, query_prefix: str | None = None, passage_prefix: str | None = None) -> None:
        """The paper's E5 wants the prefixes "query: " and "passage: "; without one the model's configuration decides.

        No code is taken from the folder (see ``model_folder``), nothing is fetched, and weights are read from
        safetensors only. Raises ``UserError`` if the library or the model is missing, or the model names code of its
        own or compares vectors in another way.
        """
        check_model_folder(folder)
        try:
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UserError("dense search needs an extra: pip install 'seedbed[dense]'") from error
        try:
            self._model = SentenceTransformer(
                str(folder), local_files_only=True, model_kwargs={"use_safetensors": True}
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            raise UserError(f"{folder} is not a model that sentence-transformers can load: {error}") from error
        similarity = self._model.similarity_fn_name
        if similarity not in ("cosine", "dot"):
            raise UserError(f"{folder} compares vectors by {similarity}: only models for cosine or dot can be searched")
        self.name = folder.name
        self.identity = {"model": _digest(folder), "passage_prefix": passage_prefix}
        self._normalise = similarity == "cosine"
        self._query_prefix, self._passage_prefix = query_prefix, passage_prefix

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(self._model.encode_query, texts, self._query_prefix)

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(self._model.encode_document, texts, self._passage_prefix)

    def _encode(self, encode: Callable[..., np.ndarray], texts: Sequence[str], prefix: str | None) -> np.ndarray:
        sound = [text.encode("utf-8", "replace").decode() for text in texts]  # a lone surrogate is "?"
        vectors = encode(sound, prompt=prefix, normalize_embeddings=self._normalise, show_progress_bar=False)
        vectors = np.ascontiguousarray(vectors, np.float32)
        if not np.isfinite(vectors).all():
            raise UserError(f"model {self.name} gives vectors that are not finite: it cannot be searched with")
        return vectors


def _digest(folder: Path) -> str:
    """Of the model's files, by name and content."""
    digest = sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in _CONTENT and p.is_file()):
        with path.open("rb") as stream:
            content = sha256()
            while block := stream.read(1 << 20):
                content.update(block)
        digest.update(f"{path.relative_to(folder).as_posix()}\n{content.hexdigest()}\n".encode())
    return digest.hexdigest()
