"""What does a response append to the formula? It is JSON with the fields "thoughts" and "action"."""

from __future__ import annotations

import re

from seedbed.envs.ezpoints.game import TOKENS
from seedbed.types import Action

_FIELD = re.compile(r'"action"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|([^",}\n]*))', re.IGNORECASE)
_TOKEN = re.compile(r"\d+|[+*=]")


def project_json(response: str) -> Action:
    """The one number or sign in the field "action" behind the reasoning; invalid, and nothing, if there is not one.

    Read like the official code, which asks for no whole JSON object: a broken or fenced one will do. A second action,
    or another number or sign after the last brace, leaves open which is meant. Thoughts are asked for, not required.
    """
    answer = response.rpartition("</think>")[2]
    named = set()
    rest = answer
    for field in _FIELD.finditer(answer):
        named.add(tuple(_TOKEN.findall(field[1] or field[2] or "")))
        rest = answer[field.end() :]
    tokens = named.pop() if len(named) == 1 else ()
    behind = rest.rpartition("}")[2]
    if len(tokens) != 1 or tokens[0] not in TOKENS or not set(_TOKEN.findall(behind)) <= set(tokens):
        return Action("", False)
    return Action(tokens[0], True)
