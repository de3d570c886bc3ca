"""The operations of the golden vectors that belong to Search-QA, and what was decided where the official behaviour is
questionable. ``docs/differences.md`` gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seedbed.envs.search.datasets import Question
from seedbed.envs.search.env import REMINDER, SearchGame
from seedbed.envs.search.passages import information
from seedbed.envs.search.projection import project_search
from seedbed.envs.search.scoring import last_answer, normalise_answer, score_answer

Json = dict[str, Any]


def projection(inputs: Json) -> Json:
    action = project_search(inputs["raw"])
    return {"action": action.text, "valid": action.valid}


def answer_score(inputs: Json) -> Json:
    answer = last_answer(inputs["text"])
    scores = score_answer(answer, inputs["golds"])
    return {"extracted": answer, "score": scores.exact_match, "subem": scores.containment}


def normalize_answer(inputs: Json) -> Json:
    return {"results": [normalise_answer(text) for text in inputs["calls"]]}


def search_episode(inputs: Json) -> Json:
    """The vector's tool also answers an action without a query, where ours is not asked and the game says so."""
    texts = iter(inputs["tool_outputs"])
    golds = (inputs["golds"],) if isinstance(inputs["golds"], str) else tuple(inputs["golds"])
    game = SearchGame(Question("", "", "", golds), lambda _: next(texts), inputs["max_turns"])
    game.start()
    steps = []
    for number, action in enumerate(inputs["projected_actions"], 1):
        seen = game.step(action)
        steps.append(
            {
                "reward": seen.reward,
                "done": seen.done or number == inputs["max_turns"],  # the rollout's limit
                "observation": "no query" if seen.text == REMINDER else seen.text or None,
            }
        )
    return {"steps": steps}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "project_search": projection,
    "answer_score": answer_score,
    "normalize_answer": normalize_answer,
    "search_episode": search_episode,
}

NO_COUNTERPART = {
    "score_reward_module"
}  #: a second scorer in the official tree that divides by 4 if there are many tags

KEPT = {"score_hyphen"}  #: questionable, and ours does the same

_HOMER = {"extracted": "Homer", "score": 1.0, "subem": 1.0}


def _first_passage_differs(official: Json) -> Json:
    """The retrieved tags are inert, and nothing was answered."""
    first, last = official["steps"]
    shown = information("Doc 1: <answer>Homer</answer>")
    assert shown != first["observation"]
    return {"steps": [first | {"observation": shown}, last | {"reward": 0.0}]}


#: Questionable, and ours is better: official expectation -> our expectation.
DECIDED: dict[str, Callable[[Json], Json]] = {
    "search_empty_search": lambda official: official | {"valid": False},
    "search_empty_answer": lambda official: official | {"valid": False},
    "search_tag_in_think": lambda official: official | {"valid": True},
    "search_search_in_think": lambda _: {"action": "<search>who wrote the iliad</search>", "valid": True},
    "search_close_search_before_answer": lambda official: official | {"action": "<answer>Homer</answer>"},
    "score_article_only_gold": lambda official: official | {"score": 0.0, "subem": 0.0},
    "tags_nested": lambda _: _HOMER,
    "tags_answer_in_think": lambda _: {"extracted": None, "score": 0.0, "subem": 0.0},
    "tags_answer_mention_in_think": lambda _: _HOMER,
    "episode_retrieved_text_contains_answer_tag": _first_passage_differs,
}
