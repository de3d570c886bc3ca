"""What is a tag in Search, and whose?

The policy thinks, searches and answers in tags; results come in ``<information>``. Tags inside the reasoning are not
actions. Text that was retrieved may hold anything: ``neutralise`` makes its tags visibly something else before the
policy reads it, and ``restore`` gives the text back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

VOCABULARY = ("think", "search", "answer", "information", "action")
_TAG = re.compile(r"<(/?)(think|search|answer)>", re.IGNORECASE)
_FOREIGN = re.compile(rf"<(\\*)(\s*/?\s*(?:{'|'.join(VOCABULARY)})\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Block:
    """``<name>inside</name>``; ``exact`` if both tags are in lower case, ``reasoned`` if reasoning closed before it."""

    name: str
    inside: str
    exact: bool
    reasoned: bool


def blocks(text: str) -> tuple[list[Block], int]:
    """Search and answer blocks outside the reasoning, in order, and the number of tags of that kind there.

    As in ``envs/project.py``: a closing think tag without an opening one makes reasoning of all before it, an opening
    one that is never closed hides nothing. Of nested openings of one name the innermost counts. Linear in the text.
    """
    pieces: list[tuple[list[re.Match[str]], bool]] = [([], False)]
    opened: int | None = None
    for tag in _TAG.finditer(text):
        tags, thought = pieces[-1]
        if tag[2].lower() != "think":
            tags.append(tag)
        elif not tag[1]:
            opened = len(tags) if opened is None else opened
        elif opened is None:
            pieces = [([], thought)]
        else:
            del tags[opened:]
            pieces.append(([], True))
            opened = None
    found = [block for tags, thought in pieces for block in _in_piece(text, tags, thought)]
    return found, sum(len(tags) for tags, _ in pieces)


def _in_piece(text: str, tags: list[re.Match[str]], reasoned: bool) -> list[Block]:
    last_close = {tag[2].lower(): tag.start() for tag in tags if tag[1]}
    found: list[Block] = []
    waiting: re.Match[str] | None = None
    for tag in tags:
        name = tag[2].lower()
        ours = waiting is None or waiting[2].lower() == name
        if not tag[1]:
            if ours and tag.start() < last_close.get(name, -1):
                waiting = tag
        elif waiting is not None and ours:
            exact = waiting[2].islower() and tag[2].islower()
            found.append(Block(name, text[waiting.end() : tag.start()].strip(), exact, reasoned))
            waiting = None
    return found


def neutralise(text: str) -> str:
    r"""``<answer>`` becomes ``<\answer>``, ``<\answer>`` becomes ``<\\answer>``: no tag of ours is left, none is lost.

    One backslash is put behind the ``<`` of everything that reads as a tag of ``VOCABULARY``, spaces and case aside.
    """
    return _FOREIGN.sub(r"<\\\1\2", text)


def restore(text: str) -> str:
    """The text that ``neutralise`` was given."""
    return _FOREIGN.sub(lambda tag: "<" + tag[1][1:] + tag[2], text)
