"""How does an episode ask a retriever service? With a time limit, retries, few connections and a cache.

A service that does not answer raises ``RetrieverUnavailable``: inside ``Game.step`` that is a fault of the episode,
never a failure of the policy. The policy's query and the service's passages are data on both ways.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from http.client import HTTPException
from threading import BoundedSemaphore, Lock
from typing import Any

from seedbed.envs.search.passages import Passage
from seedbed.envs.search.post import Endpoint
from seedbed.types import UserError

_LARGEST_ANSWER = 1 << 24  #: bytes


class RetrieverUnavailable(ConnectionError):
    """No usable answer from the service."""


class RetrieverClient:
    """See ``passages.Retriever``. One connection a request: nothing to go stale, nothing shared between threads."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 10.0,
        retries: int = 4,
        backoff: float = 0.5,
        connections: int = 16,
        cache: int = 4096,
    ) -> None:
        """``timeout`` is how many seconds a try may take in all; before the n-th retry ``backoff * 2**(n-1)`` seconds
        pass. If nobody was answered since the first of the tries, searches fail at once for as long as those waits were
        together, and then are tried once each until one succeeds: a dead service costs its patience once, not once an
        episode. At most ``connections`` are open at a time; ``cache`` counts the answers kept.

        Raises ``UserError`` for a URL that is not http(s).
        """
        try:
            self._endpoint = Endpoint(url)
        except ValueError as error:
            raise UserError(f"retriever URL {url!r} is not one: {error}") from error
        self.name = self._endpoint.name
        self._timeout, self._retries, self._backoff = timeout, retries, backoff
        self._rest = backoff * (2**retries - 1)
        #: No query takes longer, in seconds, waiting for a free connection included (but not the host's name look-up).
        self.patience_s = (1 + retries) * timeout + self._rest
        self._slots = BoundedSemaphore(connections)
        self._lock = Lock()  # for all below
        self._cache: OrderedDict[tuple[str, int], tuple[Passage, ...]] = OrderedDict()
        self._cache_size = cache
        self._answered = float("-inf")  # when the service last did, on the monotonic clock
        self._down_until: float | None = None  # None while the service answers

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        """One query after the other. Raises ``RetrieverUnavailable``."""
        return [list(self._search(query, topk)) for query in queries]

    def _search(self, query: str, topk: int) -> tuple[Passage, ...]:
        key = (query, topk)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        found = self._ask(query, topk)
        with self._lock:
            self._cache[key] = found
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        return found

    def _ask(self, query: str, topk: int) -> tuple[Passage, ...]:
        start = time.monotonic()
        with self._lock:
            down_until = self._down_until
        if down_until is not None and start < down_until:
            raise RetrieverUnavailable(f"retriever {self.name} did not answer a moment ago")
        # Both formats in one body: SEED's service reads query, Search-R1's queries, and each ignores the other.
        wanted = {"query": query, "queries": [query], "topk": topk, "return_scores": True}
        body = json.dumps(wanted).encode("ascii")  # a lone surrogate in a query is the policy's, not an error
        tries = 1 if down_until is not None else 1 + self._retries
        for number in range(tries):
            if number:
                time.sleep(self._backoff * 2 ** (number - 1))
            try:
                status, content = self._post(body, start + self.patience_s)
                if status < 500 and status != 429:
                    with self._lock:
                        self._answered, self._down_until = time.monotonic(), None
                    return _passages(status, content, self.name)
                cause = f"status {status}"
            except RetrieverUnavailable:  # an answer, and a final one
                raise
            except (OSError, HTTPException) as error:
                cause = f"{type(error).__name__}: {error}"
        with self._lock:
            if self._answered < start:  # else it is this query that the service cannot bear
                self._down_until = time.monotonic() + self._rest
        raise RetrieverUnavailable(f"retriever {self.name} failed {tries} time(s), at last with {cause}")

    def _post(self, body: bytes, end: float) -> tuple[int, bytes]:
        """Status and body of one request, by ``end`` on the monotonic clock."""
        if not self._slots.acquire(timeout=max(0.0, end - time.monotonic())):
            raise RetrieverUnavailable(f"no connection to retriever {self.name} became free in {self.patience_s:g} s")
        try:
            return self._endpoint.post(body, min(end, time.monotonic() + self._timeout), _LARGEST_ANSWER)
        finally:
            self._slots.release()


def _passages(status: int, content: bytes, url: str) -> tuple[Passage, ...]:
    start = content[:200].decode("utf-8", "replace")
    if status != 200:
        raise RetrieverUnavailable(f"retriever {url} refused the request: {status} {start}")
    try:
        (found,) = json.loads(content)["result"]
        return tuple(_passage(entry) for entry in found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RetrieverUnavailable(f"retriever {url} gave an answer of another form: {start}") from error


def _passage(entry: dict[str, Any]) -> Passage:
    document = entry.get("document", entry)
    return Passage(str(document.get("id", "")), str(document["contents"]), float(entry.get("score") or 0.0))
