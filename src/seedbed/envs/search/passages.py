"""What does a retriever give, and how does the policy read it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from seedbed.envs.search.files import records
from seedbed.envs.search.tags import neutralise
from seedbed.types import UserError


@dataclass(frozen=True, slots=True)
class Passage:
    """One text of a corpus. ``contents`` is ``"Title"``, a line break, the text (Search-R1's form)."""

    id: str
    contents: str
    score: float = 0.0


class Retriever(Protocol):
    """Finds passages. Safe to call from several threads at once."""

    name: str  #: what it searches with and in, for people

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        """For each query at most ``topk`` passages, best first."""


def read_corpus(path: Path) -> Iterator[Passage]:
    """Records with ``contents``, or with ``title`` and ``text``; without ``id`` the record's number is taken.

    Raises ``UserError`` for another kind of record, or if there is none.
    """
    number = -1
    for number, (place, record) in enumerate(records(path)):
        contents = record.get("contents")
        if contents is None and {"title", "text"} <= record.keys():
            contents = f'"{record["title"]}"\n{record["text"]}'
        if not isinstance(contents, str):
            raise UserError(f"{place} of corpus {path} has neither 'contents' nor 'title' and 'text'")
        yield Passage(str(record.get("id", number)), contents)
    if number < 0:
        raise UserError(f"corpus {path} is empty")


def listed(passages: Sequence[Passage]) -> str:
    """Passages as the policy reads them: ``Doc 1: ...``, each on its own lines (official code)."""
    return "\n".join(f"Doc {i}: {passage.contents}" for i, passage in enumerate(passages, 1)) or "Nothing was found."


def information(text: str) -> str:
    """The observation after a search. No tag of ours is left inside: the text cannot close it, act or answer."""
    return f"\n<information>{neutralise(text)}</information>\n"
