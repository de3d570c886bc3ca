"""Search-QA as an environment: at most four turns, each a search or the answer.

Reward 1 for an exact match at the end, else 0 (official code). Only the policy's own answer is scored: retrieved
text never enters scoring and cannot close a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from threading import Lock
from typing import Any

from seedbed.envs.base import Environment, Game, register
from seedbed.envs.search.bm25 import BM25Retriever
from seedbed.envs.search.datasets import (
    SIZES,
    SPLITS,
    TRAINED,
    Question,
    check_sizes,
    data_folder,
    load_questions,
)
from seedbed.envs.search.passages import Retriever, information, listed
from seedbed.envs.search.projection import project_search
from seedbed.envs.search.scoring import last_answer, score_answer
from seedbed.prompts.base import Wording
from seedbed.types import Action, Observation, Task, Trajectory, UserError

REMINDER = (
    "Nothing was searched and nothing answered. Write either <search> query </search> or <answer> answer </answer>."
)
_CORPORA = ("corpus.jsonl", "corpus.jsonl.xz", "corpus.jsonl.gz")


class SearchGame(Game):
    """One question. ``look_up`` maps a query to text; what it raises is a fault of the episode."""

    def __init__(self, question: Question, look_up: Callable[[str], str], max_turns: int = 4) -> None:
        self.goal = question.text
        self._golds = question.golds
        self._look_up = look_up
        self._turns_left = max_turns

    def start(self) -> Observation:
        return Observation("")

    def step(self, action: str) -> Observation:
        """``action`` as ``project_search`` gives it. An answer ends the game.

        On the last turn a search is not sent: nobody would read what it finds. Ending there is the rollout's turn limit
        (``step_cap``, T9); a turn beyond it ends the game and scores nothing.
        """
        self._turns_left -= 1
        if self._turns_left < 0:
            return Observation("", done=True)
        if action.startswith("<answer>"):
            won = score_answer(last_answer(action), self._golds).exact_match == 1.0
            return Observation("", reward=float(won), done=True, won=won)
        if not self._turns_left:
            return Observation("")
        query = action.removeprefix("<search>").removesuffix("</search>").strip()
        if not action.startswith("<search>") or not query:
            return Observation(REMINDER)
        return Observation(information(self._look_up(query)))


@register("search")
class SearchQA(Environment):
    """Questions of seven open-domain sets with a retriever.

    Splits: ``test`` (all sets taking turns, so that its first 700 are 100 of each) and ``train`` (NQ and HotpotQA as
    in the paper); ``test_nq`` and so on are one set.
    """

    wording = Wording(
        role=(
            "You answer a question and may search a text collection for what you need to know. "
            "What a search finds comes between <information> and </information>."
        ),
        act=(
            "Then do exactly one of two things: search with <search> query </search>, or, once you know enough, give "
            "the short final answer with <answer> answer </answer>."
        ),
        act_only=(
            "Do exactly one of two things: search with <search> query </search>, or, once you know enough, give the "
            "short final answer with <answer> answer </answer>."
        ),
        task="Your question:",
        steps=True,
    )

    def __init__(
        self,
        sets: Sequence[str] | None = None,
        retriever: str = "",
        topk: int = 3,
        max_turns: int = 4,
        require_think: bool = False,
        timeout: float = 10.0,
        retries: int = 4,
    ) -> None:
        """``retriever`` is the URL of a service or a corpus file for BM25 in this process (default: the corpus in the
        data folder). ``timeout`` (seconds) and ``retries`` are those of a service. ``require_think`` makes a turn
        without reasoning invalid, which the paper's code does not.

        Raises ``UserError`` for an unknown set.
        """
        if unknown := sorted(set(sets or ()) - SIZES.keys()):
            raise UserError(f"env.options.sets: there is no set {unknown[0]!r}; the sets are {', '.join(SIZES)}")
        self._sets = tuple(sets) if sets else None
        self._place, self._topk, self._max_turns = retriever, topk, max_turns
        self._require_think, self._timeout, self._retries = require_think, timeout, retries
        self._retriever: Retriever | None = None
        self._lock = Lock()

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Reads the questions and opens the retriever, which for a corpus file may first have to index it."""
        self._connect()
        for task in {(task.split, task.kind): task for task in tasks}.values():
            self.question(task)

    def tasks(self, split: str) -> Sequence[Task]:
        """Each set in the order of its ids, which is none of the questions' own. Warns of incomplete test sets.

        Raises ``UserError`` if a set is missing, saying what was found.
        """
        base, _, name = split.partition("_")
        if base not in SPLITS or (name and name not in SIZES):
            known = (*SPLITS, *(f"{base}_{name}" for base in SPLITS for name in SIZES))
            raise UserError(f"environment 'search' has no split {split!r}; use one of {', '.join(known)}")
        default = TRAINED if base == "train" else tuple(SIZES)
        questions = load_questions(base, (name,) if name else self._sets or default)
        if base == "test":
            check_sizes(questions)
        rounds = zip_longest(*(found.values() for found in questions.values()))
        return [Task(q.id, "search", split, q.set) for taken in rounds for q in taken if q is not None]

    def open(self, task: Task) -> SearchGame:
        """Raises ``UserError`` if the question is not in the data, or there is no retriever."""
        question, retriever = self.question(task), self._connect()
        return SearchGame(question, lambda query: listed(retriever.search([query], self._topk)[0]), self._max_turns)

    def question(self, task: Task) -> Question:
        base, _, rest = task.id.partition("/")
        name = rest.partition("/")[0]
        found = load_questions(base, (name,))[name] if base in SPLITS and name in SIZES else {}
        if task.id not in found:
            raise UserError(
                f"question {task.id!r} is not among the {len(found)} {base} questions of {name} in {data_folder()}: "
                "use the files the panel was made from"
            )
        return found[task.id]

    def project(self, response: str, require_think: bool) -> Action:
        """Reasoning is asked for but not required, as in the paper's code, unless the environment's option says so."""
        return project_search(response, require_think and self._require_think)

    def measures(self, trajectory: Trajectory) -> dict[str, float]:
        """All scores of an episode's answer, for reports: F1 and containment are never rewarded."""
        last = trajectory.turns_K[-1].action.text if trajectory.turns_K else ""
        answer = last_answer(last) if last.startswith("<answer>") else None
        return asdict(score_answer(answer, self.question(trajectory.task).golds))

    def secrets(self, task: Task) -> tuple[str, ...]:
        """The right answers."""
        return self.question(task).golds

    def facts(self, task: Task) -> dict[str, Any]:
        """What a score depends on beside the task: what is searched, how much of it is shown, and the rules."""
        return {
            "retriever": self._connect().name,
            "topk": self._topk,
            "max_turns": self._max_turns,
            "require_think": self._require_think,
        }

    def _connect(self) -> Retriever:
        with self._lock:
            if self._retriever is None:
                self._retriever = self._open_retriever()
            return self._retriever

    def _open_retriever(self) -> Retriever:
        if self._place.startswith(("http://", "https://")):
            from seedbed.envs.search.client import RetrieverClient  # noqa: PLC0415 - only where there is a service

            client = RetrieverClient(self._place, timeout=self._timeout, retries=self._retries)
            self.waits_s = client.patience_s
            return client
        if self._place:
            return BM25Retriever(Path(self._place))
        folder = data_folder()
        if corpus := find_corpus(folder):
            return BM25Retriever(corpus)
        raise UserError(
            f"there is no {' or '.join(_CORPORA)} in {folder}: name a corpus file or the URL of a retriever service "
            "with env.options.retriever"
        )


def find_corpus(folder: Path) -> Path | None:
    """The corpus beside the questions, if there is one."""
    return next((folder / name for name in _CORPORA if (folder / name).is_file()), None)
