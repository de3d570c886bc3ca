"""What of Search-QA is on this machine?"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from seedbed.envs.doctor import Finding
from seedbed.envs.search.datasets import SIZES, SPLITS, TRAINED, data_folder, load_questions, question_file
from seedbed.envs.search.env import find_corpus
from seedbed.types import UserError

_EXPORT = "export SEARCH_DATA=FOLDER"


def check() -> list[Finding]:
    """Questions by set, corpus, and the libraries that search it."""
    return [*_data(), *_libraries()]


def _data() -> Iterator[Finding]:
    try:
        folder = data_folder()
    except UserError as error:
        yield Finding("questions", "missing", str(error), _EXPORT)
        return
    for split in reversed(SPLITS):
        for name in SIZES if split == "test" else TRAINED:
            part, file = f"{split} questions, {name}", question_file(folder, split, name)
            if file is None:
                yield Finding(part, "missing", f"no file of them in {folder}", _EXPORT)
                continue
            try:
                count = len(load_questions(split, [name])[name])
            except UserError as error:
                yield Finding(part, "missing", str(error), f"rm {file}")
                continue
            part_of = f" of {SIZES[name]}" if split == "test" and count != SIZES[name] else ""
            yield Finding(part, "ok", f"{count}{part_of} in {file.name}")
    corpus = find_corpus(folder)
    if corpus:
        yield Finding("corpus", "ok", str(corpus))
    else:
        what = f"no corpus in {folder}; a retriever service (env.options.retriever=URL) does instead"
        yield Finding("corpus", "optional", what, "seedbed retriever serve --corpus FILE")


def _libraries() -> Iterator[Finding]:
    for part, module, extra in (
        ("BM25", "bm25s", "search"),
        ("Parquet", "pyarrow", "search"),
        ("dense index", "faiss", "dense"),
        ("dense model", "sentence_transformers", "dense"),
    ):
        if find_spec(module):
            yield Finding(part, "ok", f"{module} is installed")
        else:
            state = "missing" if module == "bm25s" else "optional"
            yield Finding(part, state, f"{module} is not installed", f"pip install 'seedbed[{extra}]'")
