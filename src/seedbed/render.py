"""From prompt slots to token ids: the only place that tokenises.

Message contents are data. A control-token string inside one (an environment text with ``<|im_end|>``, say) is encoded
as ordinary characters, so text can never open or close a turn. Sampled ids are never re-tokenised: a transcript grows
by appending the template's glue and the new message to ``prompt ids + response ids``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedbed.types import Message, Trajectory, UserError

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"  # Unicode noncharacters: no valid text holds them, no template changes them
_MARKER = re.compile(f"{_OPEN}(\\d+){_CLOSE}")


@dataclass(frozen=True, slots=True)
class Context:
    """A rendered chat that ends where the assistant starts to write."""

    text: str  #: with markers in place of neutralised control tokens
    ids_T: np.ndarray  #: int32
    prefix_break: bool = False  #: the template changed an earlier part, so these ids do not extend the previous ones
    forced: int = 0  #: template tokens right after the previous response that close a turn the policy left open

    @property
    def lead(self) -> str:
        """What the template already wrote of the response: an opened ``<think>``, or nothing. Read, never trained."""
        return "<think>" if self.text.rstrip().endswith("<think>") else ""

    @property
    def reasoned(self) -> bool:
        """The template wrote the reasoning, an empty one (Qwen3, ``enable_thinking: false``): none can be required."""
        return self.text.rstrip().endswith("</think>")


class Renderer:
    """Chat template and tokenizer of one model.

    Raises ``UserError`` for a tokenizer without chat template, without vocabulary, or whose template ends no turn.
    """

    def __init__(self, tokenizer: Any, template_options: dict[str, Any] | None = None, source: str = "the model"):
        if not getattr(tokenizer, "chat_template", None):
            raise UserError(
                f"{source} has no chat template: add chat_template.jinja to its folder or use an instruct model"
            )
        if len(tokenizer) == 0 or not tokenizer.encode("a", add_special_tokens=False):
            raise UserError(f"the tokenizer of {source} is empty: its tokenizer.json holds no vocabulary")
        self.tokenizer = tokenizer
        self.options = dict(template_options or {})
        added = tokenizer.added_tokens_decoder.values()
        self._controls = sorted(
            {t.content for t in added if t.special} | set(tokenizer.all_special_tokens), key=len, reverse=True
        )
        self._control_re = re.compile("|".join(map(re.escape, self._controls)) or "(?!)")
        self._stop_text = self._end_of_turn(source)
        self.stop_id: int = tokenizer.convert_tokens_to_ids(self._stop_text)

    @property
    def hash(self) -> str:
        """sha256 over chat template and its options: two runs with equal hashes render alike."""
        blob = json.dumps([self.tokenizer.chat_template, self.options], sort_keys=True)
        return hashlib.sha256(blob.encode()).hexdigest()

    def open(self, messages: Sequence[Message]) -> Context:
        """Render a chat from nothing; the result ends with the template's assistant start."""
        text = self._template(messages)
        return Context(text, self._encode(text))

    def extend(self, context: Context, response_ids_T: np.ndarray, messages: Sequence[Message]) -> Context:
        """Render ``messages`` (the chat of ``context``, the response as last-but-one message, a new user message).

        If the template leaves the earlier part alone, the new ids are exactly ``context.ids + response ids + rest``.
        Otherwise everything is rendered anew and ``prefix_break`` is set.
        """
        text = self._template(messages)
        stopped = len(response_ids_T) > 0 and int(response_ids_T[-1]) == self.stop_id
        written = context.text + self._neutral(messages[-2].content)
        if not text.startswith(written + (self._stop_text if stopped else "")):
            return Context(text, self._encode(text), prefix_break=True)
        rest = text[len(written) + (len(self._stop_text) if stopped else 0) :]
        forced = 0 if stopped or not rest.startswith(self._stop_text) else 1
        ids = np.concatenate([context.ids_T, response_ids_T, self._encode(rest)]).astype(np.int32)
        return Context(text, ids, forced=forced)

    def content(self, response_ids_T: np.ndarray) -> str:
        """A response as message content: decoded, without the end-of-turn token. U+FFFD stands for cut characters."""
        ids = response_ids_T[:-1] if len(response_ids_T) and int(response_ids_T[-1]) == self.stop_id else response_ids_T
        return self.tokenizer.decode(ids.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _end_of_turn(self, source: str) -> str:
        """The control token the template writes after an assistant message; the configured eos token often differs."""
        try:
            text = self._template([Message("user", "a"), Message("assistant", "said"), Message("user", "b")])
        except Exception as error:
            raise UserError(f"the chat template of {source} cannot be rendered ({error}): mend its template") from error
        after = text.partition("said")[2]
        for control in self._controls:
            if after.startswith(control):
                return control
        raise UserError(
            f"the chat template of {source} ends an assistant message with {after[:20]!r}, which is none of the "
            "tokenizer's special tokens: register its end-of-turn token as special, else no response could ever end"
        )

    def _template(self, messages: Sequence[Message]) -> str:
        chat = [{"role": m.role, "content": self._neutral(m.content)} for m in messages]
        return self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **self.options)

    def _neutral(self, text: str) -> str:
        text = text.replace(_OPEN, "\ufffd").replace(_CLOSE, "\ufffd").encode("utf-8", "replace").decode("utf-8")
        return self._control_re.sub(lambda found: f"{_OPEN}{self._controls.index(found.group())}{_CLOSE}", text)

    def _encode(self, text: str) -> np.ndarray:
        if _OPEN not in text:
            return np.asarray(self.tokenizer.encode(text, add_special_tokens=False), dtype=np.int32)
        ids: list[int] = []
        for i, piece in enumerate(_MARKER.split(text)):  # odd pieces are indices of neutralised control tokens
            if i % 2 == 0:
                ids += self.tokenizer.encode(piece, add_special_tokens=False) if piece else []
            else:
                ids += self.tokenizer.encode(
                    self._controls[int(piece)], add_special_tokens=False, split_special_tokens=True
                )
        return np.asarray(ids, dtype=np.int32)


def chat_of(trajectory: Trajectory, turn: int, skill: str = "") -> list[Message]:
    """The messages that turn ``turn`` was asked with, the skill slot of the row's first prompt filled if ``skill``.

    Windowed: the turn's own user message. Transcript: everything up to it, responses as the policy wrote them.
    """
    turns = trajectory.turns_K
    first = turn if trajectory.layout == "windowed" else 0
    messages: list[Message] = []
    for k in range(first, turn + 1):
        prompt = turns[k].prompt.with_skill(skill) if skill and k == first else turns[k].prompt
        messages.append(Message("user", prompt.text))
        if k < turn:
            messages.append(Message("assistant", turns[k].text))
    return messages
