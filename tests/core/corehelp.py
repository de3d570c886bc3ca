"""Small random policies, a two-turn environment, and episodes made of real tokens."""

from __future__ import annotations

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.engines.torch_engine import TorchEngine
from seedbed.envs.base import Environment, Game
from seedbed.prompts.base import Wording
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.types import Group, Observation, Task, UserError


def random_policy(vocabulary: int = 262, kind: str = "qwen3", seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    shape = dict(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.3,
    )
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**shape)).eval()
    return Qwen3ForCausalLM(Qwen3Config(**shape, head_dim=8, tie_word_embeddings=True)).eval()


def engine_for(renderer: Renderer, **options: int) -> TorchEngine:
    return TorchEngine(random_policy(len(renderer.tokenizer)), renderer.stop_id, **options)


def play(
    renderer: Renderer,
    environment: Environment,
    *,
    attempts: int = 3,
    layout: str = "transcript",
    tasks: int = 2,
    reply=None,
    **settings: object,
) -> list[Group]:
    """Groups of scripted episodes: attempts differ because the environment words its answers differently."""
    rollout = RolloutSettings(
        **{
            "layout": layout,
            "max_turns": 4,
            "max_new_tokens": 64,
            "max_prompt_tokens": 4000,
            "think": False,
            "list_admissible": False,
            **settings,
        }
    )
    engine = ScriptedEngine(renderer, reply or (lambda prompt: f"<action>say {len(prompt) % 7}</action>"))
    return collect_groups(engine, environment, renderer, rollout, environment.tasks("train")[:tasks], attempts, seed=0)


class Corridor(Environment):
    """Say something four times; the outcome depends on the attempt, so that groups are mixed."""

    name = "corridor"
    wording = Wording("You walk down a corridor.")
    threads = 1  # walkers are numbered as they come in

    def __init__(
        self, win_at: int = 3, breaks_at: tuple[int, ...] = (), wins: tuple[int, ...] = (0,), lose_at: int | None = None
    ):
        self.win_at, self.breaks_at, self.wins, self.lose_at, self.opened = win_at, breaks_at, wins, lose_at, 0

    def tasks(self, split: str) -> list[Task]:
        if split != "train":
            raise UserError(f"corridor has no split {split!r}")
        return [Task(f"door-{i}", "corridor", split, "odd" if i % 2 else "even") for i in range(6)]

    def open(self, task: Task) -> Game:
        self.opened += 1
        return _Walk(self, task, self.opened - 1)


class _Walk(Game):
    def __init__(self, corridor: Corridor, task: Task, number: int):
        self.corridor, self.number, self.turn = corridor, number, 0
        self.goal = f"reach {task.id}"

    def start(self) -> Observation:
        return Observation("A long corridor.")

    def step(self, action: str) -> Observation:
        self.turn += 1
        if self.number in self.corridor.breaks_at and self.turn == 2:
            raise ConnectionError("the corridor collapsed")
        if self.turn == self.corridor.lose_at:
            return Observation("A trap.", done=True)
        if self.turn >= self.corridor.win_at and self.number in self.corridor.wins:
            return Observation("The door opens.", reward=10.0, done=True, won=True)
        return Observation(f"Step {self.turn} of walker {self.number}: you said {action}.")


def ids(rng: np.random.Generator, low: int, high: int, vocabulary: int = 250) -> np.ndarray:
    return rng.integers(5, vocabulary, rng.integers(low, high)).astype(np.int32)
