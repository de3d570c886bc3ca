"""Who plays where nothing is trained (collect, eval)? Weights in process, a server that has them, or a mere player."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seedbed.config import Config, ModelSettings, RolloutSettings
from seedbed.engines.base import Engine
from seedbed.engines.scripted import ScriptedEngine
from seedbed.engines.served import ServedEngine
from seedbed.engines.torch_engine import TorchEngine
from seedbed.envs.base import Environment
from seedbed.evaluate.players import POLICIES, player, player_settings
from seedbed.render import Renderer
from seedbed.train.model import load_engine, load_renderer, model_facts


@dataclass(frozen=True, slots=True)
class Actor:
    """A policy that can play. ``facts`` is what a manifest or result says of it."""

    engine: Engine
    renderer: Renderer
    rollout: RolloutSettings
    facts: dict[str, Any]

    def release(self) -> None:
        """Give back the cache of the episodes played."""
        if isinstance(self.engine, TorchEngine):
            self.engine.release()


def load_actor(config: Config, environment: Environment) -> Actor:
    """The policy that ``model`` names: 'random' or 'scripted', a served model (``model.server``), or a folder."""
    settings = config.model
    if settings.path in POLICIES:
        plays = player(settings.path, environment, config.env.name)
        renderer = load_renderer(ModelSettings())  # the shipped model's tokens carry the text
        rollout = player_settings(settings.path, config.rollout)
        renderer.tokenizer.model_max_length = rollout.max_prompt_tokens  # no model reads them: nothing to warn of
        facts = model_facts(ModelSettings(), renderer) | {"policy": settings.path}
        return Actor(ScriptedEngine(renderer, plays, seeded=True), renderer, rollout, facts)
    if settings.server:
        renderer = load_renderer(settings)
        facts = model_facts(settings, renderer) | {"server": settings.served_name or settings.path}
        return Actor(ServedEngine(renderer, settings), renderer, config.rollout, facts)
    engine, renderer = load_engine(settings)
    return Actor(engine, renderer, config.rollout, model_facts(settings, renderer))
