"""A toy environment and a scripted policy whose success is known without playing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from seedbed.engines.base import Completion, Request, Sampling, ScoreRow
from seedbed.envs.base import Environment, Game
from seedbed.prompts.base import Wording
from seedbed.render import Renderer
from seedbed.types import Observation, Task

STOP = "<|end|>"


def renderer() -> Renderer:
    """One token a byte, and the smallest chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=STOP)
    tokenizer.chat_template = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}" + STOP + "{% endfor %}a:"
    return Renderer(tokenizer)


class ToyGame(Game):
    """Won by saying ``good`` once; a task whose id says so breaks on its second step."""

    def __init__(self, task: Task) -> None:
        self.goal, self._breaks, self._steps = f"win {task.id}", "breaks" in task.id, 0

    def start(self) -> Observation:
        return Observation("a room")

    def step(self, action: str) -> Observation:
        self._steps += 1
        if self._breaks and self._steps == 2:
            raise RuntimeError("the game server is gone")
        return Observation(
            "bravo" if action == "good" else "no",
            done=action == "good",
            won=action == "good",
            reward=float(action == "good"),
        )


class Toy(Environment):
    name = "toy"
    wording = Wording(role="You play.")

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(f"task {i}", "toy", split, "even" if i % 2 == 0 else "odd") for i in range(10)]

    def open(self, task: Task) -> Game:
        return ToyGame(task)


@dataclass
class Scripted:
    """Solves task ``i`` if ``i < solves`` (greedy), or with a chance that depends on the request's seed alone."""

    renderer: Renderer
    solves: int = 7
    version: int = 3
    widest: int = 0  #: largest batch it was asked for

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        self.widest = max(self.widest, len(requests))
        return [self._one(r, sampling) for r in requests]

    def _one(self, request: Request, sampling: Sampling) -> Completion:
        text = self.renderer.tokenizer.decode(request.prompt_ids_T.tolist())
        number = int(text.split("win task ")[1].split()[0].rstrip("abeks<|"))
        luck = np.random.default_rng(request.seed).random() < 0.3
        good = luck if sampling.temperature else number < self.solves
        words = f"<action>{'good' if good else 'bad'}</action>" if number != 9 else "no tags"
        ids = [*self.renderer.tokenizer.encode(words, add_special_tokens=False), self.renderer.stop_id]
        return Completion(np.array(ids, np.int32), np.full(len(ids), -0.25, np.float32), "stop")

    def score(self, rows: Sequence[ScoreRow], temperature: float = 1.0) -> list[np.ndarray]:
        raise AssertionError("an evaluation scores nothing")
