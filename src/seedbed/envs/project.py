"""How is a response read as an action?

The response is the whole assistant message: where a chat template pre-fills ``<think>``, the caller puts it back in
front. Every departure from the official code is listed in ``docs/differences.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seedbed.types import Action

_OPEN, _CLOSE = "<action>", "</action>"
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: Control characters and lone surrogates break text engines; U+FFFD is a character that was cut.
_UNPLAYABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")
_BLANK = re.compile(r"<[^<>]+>")  # in a listed action: words of the policy's own
_QUOTED = re.compile(r"(['\"`])(?P<inside>[^'\"`]+)\1")


def project_tag(response: str, require_think: bool, fallback_chars: int = 30, strict_format: bool = True) -> Action:
    """The ``<action>`` block of ``response`` outside its reasoning, lower-cased; of several blocks or lines the first.

    Valid means: there is a block of plain text, no Chinese character anywhere, and, if ``require_think``, a closed
    ``<think>`` block (official code). ``strict_format`` (ours) also wants what the prompt asks for: exactly one block,
    one line that is not empty, the reasoning before it. Without a block the action is the last ``fallback_chars``
    characters as they are (30 in ALFWorld, 20 in WebShop), invalid; such text may hold newlines, which ``normalise``
    removes. Golden ``projection.json``.
    """
    lowered = response.lower()
    pieces = _outside_reasoning(lowered)
    blocks = [(inside, reasoned) for piece, reasoned in pieces for inside in _blocks(piece)]
    if not blocks:
        return Action(lowered[-fallback_chars:], False)
    inside, reasoned = blocks[0]
    lines = inside.rpartition(_OPEN)[2].strip().splitlines() or [""]
    text = _UNPLAYABLE.sub("", lines[0]).strip()
    if quoted := _QUOTED.fullmatch(text):
        text = quoted["inside"].strip()
    plain = not _UNPLAYABLE.search(inside) and not _CHINESE.search(lowered)
    if not strict_format:
        return Action(text, plain and (pieces[-1][1] or not require_think))
    alone = len(blocks) == 1 and len(lines) == 1 and _OPEN not in inside and bool(text)
    return Action(text, plain and alone and (reasoned or not require_think))


def _outside_reasoning(text: str) -> list[tuple[str, bool]]:
    """The pieces of ``text`` outside closed think blocks, each with whether a think block closed before it.

    A closing tag without an opening one (nested, or pre-filled by the template) makes reasoning of all that precedes
    it. An opening tag that is never closed hides nothing.
    """
    pieces: list[tuple[str, bool]] = []
    position, thought = 0, False
    while (close := text.find("</think>", position)) >= 0:
        opened = text.find("<think>", position, close)
        if opened < 0:
            pieces.clear()
        else:
            pieces.append((text[position:opened], thought))
            thought = True
        position = close + len("</think>")
    return [*pieces, (text[position:], thought)]


def _blocks(piece: str) -> Iterator[str]:
    """The texts between ``<action>`` and the next ``</action>``, by ``find``: linear on any input."""
    position = 0
    while (opened := piece.find(_OPEN, position)) >= 0 and (close := piece.find(_CLOSE, opened)) >= 0:
        yield piece[opened + len(_OPEN) : close]
        position = close + len(_CLOSE)


def normalise(action: str, admissible: Sequence[str]) -> str:
    """The admissible action that equals ``action`` up to white space, case and a final full stop, else ``action`` on
    one line.

    Nothing is guessed: no prefixes, no aliases, and no choice between two admissible actions that read the same. Only
    what is sent to the environment changes; sampled tokens do not. The caller knows an action was rejected if the
    result is not in ``admissible``. Source: ours (the official code sends the action as projected).
    """
    if action in admissible:
        return action
    wanted = _key(action)
    matches = {legal for legal in admissible if _key(legal) == wanted}
    return matches.pop() if len(matches) == 1 else " ".join(_UNPLAYABLE.sub("", action).split())


def offered(action: str, admissible: Sequence[str]) -> bool:
    """Whether ``action`` is listed, words for each ``<...>`` of a listed one (``search[<your query>]``); yes if nothing
    is listed. Source: ours."""
    forms = (_BLANK.split(legal) for legal in admissible)
    return not admissible or any(re.fullmatch(r".*\S.*".join(map(re.escape, form)), action) for form in forms)


def _key(action: str) -> str:
    spaced = " ".join(action.casefold().split())
    return re.sub(r" ?([\[\]]) ?", r"\1", spaced).removesuffix(".").rstrip()
