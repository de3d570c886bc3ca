"""What would chance score, and what a simple rule? The policies ``random`` and ``scripted``, which need no model.

A player is a function of what the prompt shows and of the request's seed. The shipped environments have theirs in
``envs/*/player.py``; in any other that lists its legal actions ``random`` draws one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from seedbed.config import RolloutSettings
from seedbed.envs.alfworld import player as alfworld
from seedbed.envs.base import Environment
from seedbed.envs.ezpoints import player as ezpoints
from seedbed.envs.search import player as search
from seedbed.envs.sokoban import player as sokoban
from seedbed.envs.webshop import player as webshop
from seedbed.prompts.read import Shown, read
from seedbed.types import UserError

Player = Callable[[Shown, int], str]  #: (what the prompt shows, seed) -> response

POLICIES = ("random", "scripted")
_CHANCE: Mapping[str, Player] = {"ezpoints": ezpoints.chance, "search": search.chance, "webshop": webshop.chance}
_SCRIPTED: Mapping[str, Player] = {
    "alfworld": alfworld.scripted,
    "ezpoints": ezpoints.scripted,
    "search": search.scripted,
    "sokoban": sokoban.scripted,
    "webshop": webshop.scripted,
}
_NO_LIMIT = 1_000_000


def player(policy: str, environment: Environment, name: str) -> Callable[[str, int], str]:
    """(prompt, seed) -> response, for the environment that the user calls ``name``.

    Raises ``UserError`` if there is no such player; what is returned does so in a game that lists nothing to draw from.
    """
    plays = _CHANCE.get(name, _any_listed) if policy == "random" else _SCRIPTED.get(name)
    if plays is None:
        raise UserError(
            f"environment {name!r} has no scripted player (there are those of {', '.join(_SCRIPTED)}): evaluate "
            "'random', or play it with a function of yours and ScriptedEngine (docs/add_an_environment.md)"
        )
    return lambda prompt, seed: plays(read(prompt, environment.wording), seed)


def player_settings(policy: str, settings: RolloutSettings) -> RolloutSettings:
    """What a player plays with: windowed prompts that list the legal actions, and no limit of tokens, which are mere
    carriers of text here. ``scripted`` remembers nothing between turns, so its prompts show the whole episode.
    """
    history = settings.max_turns if policy == "scripted" else settings.history
    lifted = {"layout": "windowed", "list_admissible": True, "history": history}
    return settings.model_copy(update=lifted | {"max_prompt_tokens": _NO_LIMIT, "max_new_tokens": _NO_LIMIT})


def _any_listed(shown: Shown, seed: int) -> str:
    if not shown.admissible:
        raise UserError("this environment lists no legal actions, so there is nothing that 'random' could draw from")
    return f"<think>By chance.</think><action>{random.Random(seed).choice(shown.admissible)}</action>"
