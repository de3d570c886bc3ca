"""Pretraining rows: scripted episodes with and without skills, notes after some of them, and stand-alone records.

The rows are built with the prompt functions that a rollout uses. A record shows the answer grammar of the analyzer
without any transcript; a note says the same after a transcript in another form. Their union is what Stage 1 has to
bring about.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from tokenizers import Tokenizer

from seedbed.envs.alfworld.expert import Expert, Lesson, Mistakes
from seedbed.envs.alfworld.game import HouseholdGame
from seedbed.envs.alfworld.generate import generate
from seedbed.prompts.analyzer import answer_text
from seedbed.prompts.base import Wording, skill_block, transcript_first, transcript_next
from seedbed.skills import rules
from seedbed.types import Skill

TURNS = 16
ASK = "In a few words: how did it go?"
LIGHT, FULL = 1, 2  # loss weight classes: everything else, and what the model itself is to write
SHARES = (("none", 0.34), ("flow", 0.2), ("avoid", 0.14), ("wrong", 0.32))
NOTES, RECORDS = 0.35, 0.06


@dataclass(frozen=True)
class Rows:
    """Ragged token rows: row b is ``ids[start[b]:start[b + 1]]``, with the class of its loss weight alongside."""

    ids: np.ndarray  #: uint16
    weight: np.ndarray  #: uint8
    start: np.ndarray  #: int64


def lesson_for(condition: str, kind: str, rng: random.Random) -> Lesson | None:
    """What the skill slot teaches: nothing, this kind's workflow, a fitting avoidance, or a lesson for another kind."""
    if condition == "none":
        return None
    if condition == "flow":
        return Lesson("workflow", kind)
    if condition == "avoid":
        return rng.choice([lesson for lesson in rules.lessons(kind) if lesson.flavour == "avoidance"])
    other = rng.choice([k for k in rules.KINDS if k != kind])
    return Lesson("workflow", other) if rng.random() < 0.7 else Lesson("avoidance", other, "key")


def messages(wording: Wording, seed: int, mistakes: Mistakes) -> list[tuple[str, str]]:
    """One row as (role, content). Episodes are numbered by ``seed``; worlds are drawn from the training split."""
    rng = random.Random(seed)
    kind = rng.choice(rules.KINDS)
    if rng.random() < RECORDS:
        lesson = rng.choice(rules.lessons(kind))
        text = rules.phrase(lesson, rng.randrange(2))
        told = f"Record: {kind}, {'won' if lesson.flavour == 'workflow' else 'lost'}, {lesson.mistake or 'clean'}."
        return [
            ("user", told),
            ("assistant", answer_text(Skill("", lesson.flavour, "ok", text, rules.summary(lesson)))),
        ]
    condition = rng.choices([name for name, _ in SHARES], [share for _, share in SHARES])[0]
    lesson = lesson_for(condition, kind, rng)
    game = HouseholdGame(generate("generated_train", kind, rng.randrange(10_000)))
    expert = Expert(game.goal, rng, mistakes, lesson)
    seen = game.start()
    prompt = transcript_first(wording, goal=game.goal, observation=seen.text, admissible=(), think=False)
    if lesson:
        prompt = prompt.with_skill(skill_block(rules.phrase(lesson, rng.randrange(2))))
    out, action = [("user", prompt.text)], expert.first(seen.text)
    for turn in range(TURNS):
        out.append(("assistant", f"<action>{action}</action>"))
        seen = game.step(action)
        if seen.done or turn == TURNS - 1:
            break
        out.append(("user", transcript_next(observation=seen.text, admissible=()).text))
        action = expert.next(seen.text)
    if rng.random() < NOTES:
        expert.journal.after(action, seen.text)
        told = rules.lesson_of(expert.goal, seen.won, expert.journal)
        out += [
            ("user", f"The episode is over: {'success' if seen.won else 'failure'}.\n{ASK}"),
            ("assistant", f"{rules.summary(told)} {rules.phrase(told, rng.randrange(2))}"),
        ]
    return out


class Encoder:
    """Messages to ids and weight classes, with a memory for repeated sentences."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.user, self.assistant, self.end = (
            tokenizer.token_to_id(f"<|{name}|>") for name in ("user", "assistant", "end")
        )
        self._encode = cache(lambda text: tokenizer.encode(text, add_special_tokens=False).ids)

    def __call__(self, chat: list[tuple[str, str]]) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        weight: list[int] = []
        for role, content in chat:
            body = [*self._encode(content), self.end]
            ids += [self.user if role == "user" else self.assistant, *body]
            weight += [LIGHT, *[FULL if role == "assistant" else LIGHT] * len(body)]
        return ids, weight


_state: tuple[Encoder, Wording, Mistakes]


def _start(tokenizer: str, wording: Wording, mistakes: Mistakes) -> None:
    global _state
    _state = (Encoder(Tokenizer.from_str(tokenizer)), wording, mistakes)


def _chunk(seeds: range) -> Rows:
    encoder, wording, mistakes = _state
    return _rows(encoder(messages(wording, seed, mistakes)) for seed in seeds)


def _rows(pairs: Iterator[tuple[list[int], list[int]]]) -> Rows:
    ids, weight, lengths = [], [], [0]
    for row, marks in pairs:
        ids += row
        weight += marks
        lengths.append(len(row))
    return Rows(np.array(ids, np.uint16), np.array(weight, np.uint8), np.cumsum(lengths))


def make(tokenizer: Tokenizer, wording: Wording, mistakes: Mistakes, count: int, workers: int, seed: int) -> Rows:
    """``count`` rows; a pure function of everything but ``workers``."""
    chunks = [range(seed + i, seed + min(i + 500, count)) for i in range(0, count, 500)]
    with multiprocessing.get_context("fork").Pool(workers, _start, (tokenizer.to_str(), wording, mistakes)) as pool:
        parts = pool.map(_chunk, chunks, chunksize=1)
    offsets = np.cumsum([0, *(len(part.ids) for part in parts)])
    start = np.concatenate([[0], *(part.start[1:] + offset for part, offset in zip(parts, offsets, strict=False))])
    return Rows(np.concatenate([p.ids for p in parts]), np.concatenate([p.weight for p in parts]), start)
