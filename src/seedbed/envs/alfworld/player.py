"""A plain household player: look where such a thing usually is, treat it if asked, put it where the goal says.

It has the prompt and nothing else. What it did before is in the prompt's history, so the episode is thought through
from its start at every turn; ``expert.Expert``, here without its mistakes, is the thinking.
"""

from __future__ import annotations

import random

from seedbed.envs.alfworld.expert import Expert, Mistakes
from seedbed.prompts.read import Shown

_FLAWLESS = Mistakes(key=0, shut=0, wrong=0, stray=0)


def scripted(shown: Shown, seed: int) -> str:
    """The response to a prompt. ``seed`` plays no part: the order of search comes from the goal and the room."""
    seen = [*(observation for observation, _ in shown.history), shown.observation]
    expert = Expert(shown.goal, random.Random(f"{shown.goal}\n{seen[0]}"), _FLAWLESS)
    action = expert.first(seen[0])
    for observation in seen[1:]:
        action = expert.next(observation)
    return f"<think>By rule.</think><action>{action}</action>"
