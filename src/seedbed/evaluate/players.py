"""What would chance score, and what a simple rule? The policies ``random`` and ``scripted``, which need no model.

A player is a function of the prompt's text and the request's seed. The shipped environments have theirs in
``envs/*/player.py``; in any other that lists its legal actions ``random`` draws one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from seedbed.config import RolloutSettings
from seedbed.envs.alfworld import player as alfworld
from seedbed.envs.base import Environment
from seedbed.envs.search import player as search
from seedbed.envs.webshop import player as webshop
from seedbed.prompts.base import Wording
from seedbed.prompts.read import read
from seedbed.types import UserError

Player = Callable[[str, int], str]  #: (prompt, seed) -> response

POLICIES = ("random", "scripted")
_CHANCE: Mapping[str, Player] = {"search": search.chance, "webshop": webshop.chance}
_SCRIPTED: Mapping[str, Player] = {
    "alfworld": alfworld.scripted,
    "search": search.scripted,
    "webshop": webshop.scripted,
}
_NO_LIMIT = 1_000_000


def player(policy: str, environment: Environment, name: str) -> Player:
    """The player of an environment that the user calls ``name``. Raises ``UserError`` if there is none."""
    if policy == "random":
        return _CHANCE.get(name) or _any_listed(environment.wording, name)
    if name in _SCRIPTED:
        return _SCRIPTED[name]
    raise UserError(
        f"environment {name!r} has no scripted player (there are those of {', '.join(_SCRIPTED)}): evaluate 'random', "
        "or play it with a function of yours and ScriptedEngine (docs/add_an_environment.md)"
    )


def player_settings(policy: str, settings: RolloutSettings) -> RolloutSettings:
    """What a player plays with: windowed prompts that list the legal actions, and no limit of tokens, which are mere
    carriers of text here. ``scripted`` remembers nothing between turns, so its prompts show the whole episode.
    """
    history = settings.max_turns if policy == "scripted" else settings.history
    lifted = {"layout": "windowed", "list_admissible": True, "history": history}
    return settings.model_copy(update=lifted | {"max_prompt_tokens": _NO_LIMIT, "max_new_tokens": _NO_LIMIT})


def _any_listed(wording: Wording, name: str) -> Player:
    def chance(prompt: str, seed: int) -> str:
        listed = read(prompt, wording).admissible
        if not listed:
            raise UserError(f"environment {name!r} lists no legal actions, so there is nothing to draw 'random' from")
        return f"<think>By chance.</think><action>{random.Random(seed).choice(listed)}</action>"

    return chance
