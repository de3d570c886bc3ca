"""Which questions are there, and what is each one's id?

Files are looked for in ``SEARCH_DATA``, else in ``SEEDBED_DATA/search``. The id of a question comes from its words, so
it is the same in every copy of a data set, in any order, as JSON or Parquet, whole or in part.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from seedbed.envs.search.files import ENDINGS, records
from seedbed.types import UserError

#: Test questions of each set as the paper has them, 51,713 together (official code).
SIZES = {
    "nq": 3610,
    "triviaqa": 11313,
    "popqa": 14267,
    "hotpotqa": 7405,
    "2wikimultihopqa": 12576,
    "musique": 2417,
    "bamboogle": 125,
}
TRAINED = ("nq", "hotpotqa")  #: the sets the paper trains on
SPLITS = ("train", "test")

#: Sets that ask several questions in the same words: their ids take the gold answers in too.
_REPEATING = ("popqa",)
_OTHER_NAMES = {"2wikimultihopqa": ("2wikimultihop",)}
#: Where the questions of a set are, best first; without ``{set}`` the file holds several, told apart by data_source.
_PLACES = {
    "train": ("{set}_train", "{set}/train", "train"),
    "test": ("{set}_test", "{set}/test", "{set}_dev", "{set}/dev", "test", "sub_{set}"),
}
#: Fields of a record, best first. Search-R1's Parquet has all of these forms of an answer, and what is made of it for
#: training (prompts as lists of messages) keeps only the inner ones.
_QUESTION = (("question",), ("extra_info", "question"))
_GOLDS = (("golden_answers",), ("answer",), ("answers",), ("reward_model", "ground_truth", "target"))
_TAG = "searchR1_"  #: before the name of the set, in some of these files
_HOW = (
    "set SEARCH_DATA to a folder with FlashRAG's or Search-R1's files (nq/test.jsonl, nq_test.json, test.parquet), "
    "or choose the sets you have with env.options.sets"
)


@dataclass(frozen=True, slots=True)
class Question:
    id: str  #: ``<split>/<set>/<12 hex digits>``, for further questions of the same words ``-2``, ``-3`` behind it
    set: str
    text: str
    golds: tuple[str, ...]  #: the answers that count as right; never shown to the policy


def data_folder() -> Path:
    """Raises ``UserError`` if no folder is named, or it is not there."""
    if named := os.environ.get("SEARCH_DATA"):
        folder = Path(named)
    elif shared := os.environ.get("SEEDBED_DATA"):
        folder = Path(shared) / "search"
    else:
        raise UserError(f"no Search-QA data: neither SEARCH_DATA nor SEEDBED_DATA is set; {_HOW}")
    if not folder.is_dir():
        raise UserError(f"no Search-QA data: there is no folder {folder}; {_HOW}")
    return folder


def question_file(folder: Path, split: str, name: str) -> Path | None:
    """The file that holds the questions of a set, None if there is none."""
    stems = [place.format(set=n) for place in _PLACES[split] for n in _names(name)]
    candidates = (folder / f"{stem}{ending}" for stem in stems for ending in ENDINGS)
    return next((path for path in candidates if path.is_file() and _has(path, name)), None)


def load_questions(split: str, sets: Sequence[str]) -> Mapping[str, Mapping[str, Question]]:
    """Set -> id -> question, each set sorted by id.

    Raises ``UserError`` that says what was found, unless every set was.
    """
    folder = data_folder()
    files = {name: question_file(folder, split, name) for name in sets}
    if missing := [name for name, file in files.items() if file is None]:
        found = ", ".join(f"{n} in {f.relative_to(folder)}" for n, f in files.items() if f) or "nothing"
        raise UserError(f"{folder} holds no {split} questions of {', '.join(missing)} (found {found}); {_HOW}")
    return {name: _load(file, split, name, file.stat().st_mtime_ns) for name, file in files.items()}


def check_sizes(questions: Mapping[str, Mapping[str, Question]]) -> None:
    """Warns of every test set that is not as large as the published one."""
    for name, found in questions.items():
        if len(found) != SIZES[name]:
            warnings.warn(
                f"the Search-QA data holds {len(found)} test questions of {name}, the published set has {SIZES[name]}: "
                "results on all of it are not comparable, results on a panel are",
                stacklevel=3,
            )


@cache
def _load(file: Path, split: str, name: str, version: int) -> Mapping[str, Question]:
    """``version`` is the file's time of change: another file in its place is read again."""
    sources = _contents(file, version)
    pairs = [pair for source in ("", *_names(name)) for pair in sources.get(source, ())]
    return MappingProxyType({question.id: question for question in name_questions(pairs, split, name)})


def _has(path: Path, name: str) -> bool:
    """A file named after the split alone holds the sets that its records say, unless its folder is named after one."""
    if path.name.partition(".")[0] not in SPLITS or path.parent.name in _names(name):
        return True
    return any(source in _contents(path, path.stat().st_mtime_ns) for source in _names(name))


def _names(name: str) -> tuple[str, ...]:
    return (name, *_OTHER_NAMES.get(name, ()))


@cache
def _contents(file: Path, version: int) -> Mapping[str, list[tuple[str, tuple[str, ...]]]]:
    """(question, golds) of a file by ``data_source``, "" where a record has none."""
    sources: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for place, record in records(file):
        text, golds = _first(record, _QUESTION), _golds(_first(record, _GOLDS))
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"{place} of {file} has no 'question' that is a text")
        if not golds:
            raise UserError(f"{place} of {file} has no 'golden_answers' that are one or more texts")
        source = str(record.get("data_source") or "").removeprefix(_TAG)
        sources.setdefault(source, []).append((text.strip(), golds))
    return sources


def _first(record: dict[str, Any], fields: Sequence[tuple[str, ...]]) -> Any:
    """What stands in the first of ``fields`` that is there and not null; a path leads to a field within fields."""
    for path in fields:
        value: Any = record
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _golds(value: Any) -> tuple[str, ...]:
    """No answers if one of them is not a text: an answer that is silently left out could be the right one."""
    listed = [value] if isinstance(value, str) else value
    sound = isinstance(listed, list) and all(isinstance(gold, str) for gold in listed)
    return tuple(listed) if sound and any(gold.strip() for gold in listed) else ()


def name_questions(pairs: Iterable[tuple[str, tuple[str, ...]]], split: str, name: str) -> list[Question]:
    """Questions with their ids, sorted by id. The order of ``pairs`` does not matter."""
    by_words: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for text, golds in pairs:
        told = [text, *sorted(golds)] if name in _REPEATING else [text]
        words = "\n".join(" ".join(re.findall(r"\w+", part.casefold())) for part in told)
        by_words.setdefault(sha256(words.encode()).hexdigest()[:12], []).append((text, golds))
    return [
        Question(f"{split}/{name}/{digest}" + (f"-{copy}" if copy > 1 else ""), name, text, golds)
        for digest in sorted(by_words)
        for copy, (text, golds) in enumerate(sorted(by_words[digest], key=lambda pair: (pair[1], pair[0])), 1)
    ]
