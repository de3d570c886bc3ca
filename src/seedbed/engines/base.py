"""What an engine is: ``generate`` and ``score``, on ids, with log-probs. Nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class Sampling:
    """``temperature`` 0 is greedy. Log-probs are those of the distribution drawn from (of the plain one if greedy)."""

    temperature: float = 1.0
    max_new_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue. The same ``seed`` gives the same tokens in any batch (up to float rounding).

    ``slot`` names the cache row to use: requests of one episode share a slot, so that a prompt which extends the
    previous prompt plus response costs only its new tokens.
    """

    prompt_ids_T: np.ndarray
    seed: int
    slot: int


@dataclass(frozen=True, slots=True)
class Completion:
    ids_T: np.ndarray  #: int32, with the end-of-turn token if it was sampled
    logprobs_T: np.ndarray  #: float32
    finish: str  #: "stop" or "length"


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A row to score: log-probs are wanted for ``ids_T[select_T]`` given everything before each."""

    ids_T: np.ndarray
    select_T: np.ndarray  #: bool


class Engine(Protocol):
    """In process, served or scripted: one policy that continues prompts and scores given tokens."""

    version: int  #: optimiser updates behind the weights in use

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """Continue every prompt; results in request order."""
        ...

    def score(self, rows: Sequence[ScoreRow], temperature: float = 1.0) -> list[np.ndarray]:
        """Float32 log-probs of the selected tokens of each row; results in row order."""
        ...
