"""What did the calls cost, and may another one be made?

A call reserves an estimate of the most it can cost before it is made, whatever is in flight; what it does cost only the
server knows. So a budget is a limit that may be passed by the error of that estimate, never by more than what was in
flight. The reservation ends in one of three ways: an answer (its tokens are spent), a refusal by the server (nothing
is), or a call whose answer was lost or unreadable, which the server may charge: the whole reservation then counts.
The same two methods read the journal of earlier processes, so the budget is one of the run, not of a process.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from seedbed.config import AnnotateSettings
from seedbed.skills.annotator.journal import ANSWERED
from seedbed.types import UserError

#: Faults before the server did any work; every other fault may be charged.
UNPAID = frozenset({"rate_limit", "unreachable", "bad_request", "refused"})
KILLED = "killed"  #: no ``end`` in the journal: the process was killed with the call in flight
_TEMPLATE_TOKENS = 64  # a chat template's own
_MARGIN = 1.5  # another prompt may take more tokens a byte than any before it


class Ledger:
    """Tokens, money and calls of a run. Thread-safe.

    ``faults`` counts calls that gave no answer, by cause; ``again`` the answers that did not parse and were asked for
    anew. So ``calls == answered + sum(faults.values())`` once nothing is in flight, and ``answered`` is the number of
    distinct requests plus ``again``.
    """

    def __init__(self, settings: AnnotateSettings, rows: Iterable[dict[str, Any]] = ()) -> None:
        if settings.budget_usd and not (settings.price_in or settings.price_out):
            raise UserError("annotate.budget_usd needs annotate.price_in and price_out, dollars per million tokens")
        self.settings = settings
        self.calls, self.answered, self.again, self.unmetered = 0, 0, 0, 0
        self.faults: Counter[str] = Counter()
        self.tokens_in, self.tokens_out = 0, 0
        self.uncertain_in, self.uncertain_out = 0, 0
        self._open: dict[int, dict[str, Any]] = {}
        self._per_byte = 0.0  # most tokens a byte of a prompt, as far as the server has told
        self._changed = threading.Condition()
        for row in rows:
            self.begun(row) if row["event"] == "begin" else self.ended(row)
        for row in list(self._open.values()):
            self.ended({**row, "status": KILLED})

    def admit(
        self, prompt_bytes: int, halted: Callable[[], bool], note: Callable[[int, int], dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Wait until the budget has room for one more call beside all in flight, by the estimate, then reserve it.

        ``note(most tokens in, most tokens out)``, as estimated, journals the call; its line comes back. None if there
        never will be room, or if ``halted``.
        """
        with self._changed:
            while not halted():
                need = (math.ceil(prompt_bytes * self._rate()) + _TEMPLATE_TOKENS, self.settings.max_new_tokens)
                if self._fits(*need):
                    row = note(*need)
                    self.begun(row)
                    return row
                if not self._open:
                    return None
                self._changed.wait(0.2)
        return None

    def begun(self, row: dict[str, Any]) -> None:
        """Reserve for a journalled call."""
        with self._changed:
            self.calls += 1
            self._open[row["call"]] = row

    def ended(self, row: dict[str, Any]) -> None:
        """Settle a journalled call."""
        with self._changed:
            begun = self._open.pop(row["call"])
            if row["status"] == ANSWERED:
                self._answer(begun, row)
            else:
                self.faults[row["status"]] += 1
                if row["status"] not in UNPAID:
                    self.uncertain_in += begun["most_in"]
                    self.uncertain_out += begun["most_out"]
            self._changed.notify_all()

    def cost(self) -> float:
        """Dollars, what may have been charged included."""
        return self._dollars(self.tokens_in + self.uncertain_in, self.tokens_out + self.uncertain_out)

    def summary(self) -> dict[str, Any]:
        """The account as ``annotate.json`` stores it."""
        priced = bool(self.settings.price_in or self.settings.price_out)
        return {
            "calls": self.calls,
            "paid_calls": self.answered,
            "faults": dict(sorted(self.faults.items())),
            "asked_again_unparsed": self.again,
            "tokens": {"in": self.tokens_in, "out": self.tokens_out},
            "tokens_maybe_charged": {"in": self.uncertain_in, "out": self.uncertain_out},
            "answers_without_token_counts": self.unmetered,
            "cost_usd": round(self.cost(), 6) if priced else None,
        }

    def _rate(self) -> float:
        """Tokens a byte to reserve: one until an answer tells (a token is seldom less), then the highest with a margin.

        More than one only where the server has charged more than one.
        """
        highest = self._per_byte or 1.0
        return min(_MARGIN * highest, max(highest, 1.0))

    def _answer(self, begun: dict[str, Any], row: dict[str, Any]) -> None:
        self.answered += 1
        self.again += begun["attempt"] > 0
        told = isinstance(row["tokens_in"], int) and isinstance(row["tokens_out"], int)
        self.unmetered += not told
        self.tokens_in += row["tokens_in"] if told else begun["most_in"]
        self.tokens_out += row["tokens_out"] if told else begun["most_out"]
        if told and begun["bytes"]:
            self._per_byte = max(self._per_byte, row["tokens_in"] / begun["bytes"])

    def _fits(self, new_in: int, new_out: int) -> bool:
        held_in = sum(row["most_in"] for row in self._open.values())
        held_out = sum(row["most_out"] for row in self._open.values())
        all_in = self.tokens_in + self.uncertain_in + held_in + new_in
        all_out = self.tokens_out + self.uncertain_out + held_out + new_out
        limits = self.settings
        tokens = not limits.budget_tokens or all_in + all_out <= limits.budget_tokens
        return tokens and (not limits.budget_usd or self._dollars(all_in, all_out) <= limits.budget_usd)

    def _dollars(self, tokens_in: float, tokens_out: float) -> float:
        return (tokens_in * self.settings.price_in + tokens_out * self.settings.price_out) / 1e6
