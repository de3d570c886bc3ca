"""How does an external model annotate trajectories? (Stage 1; any OpenAI-compatible endpoint, GLM-5.2 in the paper)

One answer per distinct prompt, asked by several threads; what the journal holds is not asked again. A call that fails
is repeated after a while, an answer that does not parse is asked for anew; both are counted. What no repetition would
mend (key, address, model, a dead server) stops everything at once, and what is in flight then is still waited for.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seedbed.config import AnnotateSettings
from seedbed.prompts.analyzer import answer_schema, kind_of, standalone
from seedbed.skills.annotator.client import FORMATS, REFUSED, Client, Fault
from seedbed.skills.annotator.journal import Answer, Journal, request_hash
from seedbed.skills.annotator.ledger import Ledger
from seedbed.skills.annotator.secret import no_key_in_logs, read_key
from seedbed.skills.parse import parse_analysis, turn_skills
from seedbed.types import Skill, Trajectory, UserError

_log = logging.getLogger(__name__)
_LONGEST_BACKOFF_S = 60.0
_LONGEST_WAIT_S = 600.0  # asked for by the server
_GIVE_UP_AFTER = 10  # trajectories in a row that fail for good
_BAD_REQUESTS = 3  # refused before anything was ever answered: then it is the request, not the trajectory


class OpenAIAnnotator:
    """Asks for what ``journal`` does not hold yet, with at most ``steps`` critical-step skills beside each skill.

    ``failed`` counts trajectories without an answer by cause, ``out_of_budget`` tells why the end came early.
    """

    def __init__(self, settings: AnnotateSettings, journal: Journal, steps: int = 0) -> None:
        if not settings.base_url:
            raise UserError(
                "annotate.by=openai needs annotate.base_url or OPENAI_BASE_URL: episodes are sent nowhere that was not "
                "named (without a server: --by rules or --by policy)"
            )
        self.settings, self.journal, self.steps = settings, journal, steps
        self.secret = read_key(settings.api_key_env)
        self.client = Client(settings, self.secret)
        self.ledger = Ledger(settings, journal.rows)
        self.failed: Counter[str] = Counter()
        self.out_of_budget = False
        self.details: set[str] = set()  # why single requests were refused
        self._halt = threading.Event()
        self._failed_in_a_row, self._open_at = 0, 0.0
        self._formats = (_with_steps(steps), *FORMATS[1:]) if steps else FORMATS
        self._format = 0  # of these
        self._lock = threading.Lock()

    def annotate(self, trajectories: Sequence[Trajectory], stop: Callable[[], bool] = lambda: False) -> Iterator[Skill]:
        """Yield one skill per trajectory as it is settled; trajectories with the same prompt share one answer.

        Once ``stop()`` is true, no call is begun, and those in flight are waited for. Raises ``UserError`` for what
        the user must mend; what was in flight is yielded first.
        """
        by_prompt: dict[str, list[Trajectory]] = {}
        for trajectory in trajectories:
            by_prompt.setdefault(standalone(trajectory, self.steps).text, []).append(trajectory)
        jobs, results = deque(by_prompt.values()), queue.SimpleQueue[Any]()
        threads = [  # daemons: a second Ctrl-C need not wait for them
            threading.Thread(target=self._work, args=(jobs, results), daemon=True)
            for _ in range(min(self.settings.concurrency, len(jobs)))
        ]
        problem: BaseException | None = None
        with no_key_in_logs(self.secret):
            try:
                for thread in threads:
                    thread.start()
                running = len(threads)
                while running:
                    if stop():
                        self._halt.set()
                    try:
                        item = results.get(timeout=0.1)
                    except queue.Empty:
                        continue
                    if item is None:
                        running -= 1
                    elif isinstance(item, BaseException):
                        problem = problem or item
                    else:
                        yield from item
            finally:  # also when the caller stops early
                self._halt.set()
        if problem:
            raise problem

    def _work(self, jobs: deque[list[Trajectory]], results: queue.SimpleQueue[Any]) -> None:
        try:
            while not self._halt.is_set():
                try:
                    same = jobs.popleft()
                except IndexError:
                    break
                results.put(self._settle(same))
        except _Halted:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that waits
            self._halt.set()
            results.put(error)
        finally:
            results.put(None)

    def _settle(self, same: list[Trajectory]) -> list[Skill]:
        """The skills of trajectories with one prompt; none if the call failed for good."""
        prompt = standalone(same[0], self.steps)
        messages = [{"role": "user", "content": prompt.text}]
        sampling = {"temperature": self.settings.temperature, "max_tokens": self.settings.max_new_tokens}
        skills: list[Skill] = []
        for attempt in range(self.settings.parse_attempts):
            request = request_hash(self.settings.model, messages, attempt, **sampling)
            answer = self.journal.answers.get(request)
            if answer is None:
                facts = {"request": request, "trajectory": same[0].id, "attempt": attempt}
                try:
                    answer = self._ask(messages, facts)
                except Fault as fault:
                    self._note_failure(fault, same)
                    return []
            skills = [self._skill(trajectory, answer, dict(prompt.slots)["request"]) for trajectory in same]
            if skills[0].valid:
                break
        return skills

    def _skill(self, trajectory: Trajectory, answer: Answer, request: str) -> Skill:
        parsed = parse_analysis(answer.text, answer.finish, prompt_text=request)
        withheld = answer.finish == REFUSED and not parsed.ok
        return Skill(
            trajectory=trajectory.id,
            kind=kind_of(trajectory),
            status="refused" if withheld else parsed.status.value,
            text=parsed.skill,
            summary=parsed.summary,
            raw=answer.text,
            repairs=parsed.repairs,
            source=self.settings.model,
            version=trajectory.version,
            steps=turn_skills(answer.text, len(trajectory.turns_K), self.steps, request),
        )

    def _ask(self, messages: list[dict[str, str]], facts: dict[str, Any]) -> Answer:
        """An answer, by as many calls as it takes. Raises ``Fault`` when the retries are used up."""
        import tenacity  # noqa: PLC0415 - an extra

        backoff = tenacity.wait_random_exponential(multiplier=0.5, max=_LONGEST_BACKOFF_S)

        def wait(state: tenacity.RetryCallState) -> float:
            fault: Any = state.outcome.exception() if state.outcome else None
            return backoff(state) if fault.wait is None else min(fault.wait, _LONGEST_WAIT_S)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda e: isinstance(e, Fault) and e.cause != "bad_request"),
            stop=tenacity.stop_after_attempt(self.settings.retries + 1),
            wait=wait,
            sleep=tenacity.sleep_using_event(self._halt),
            reraise=True,
        )
        return retrying(self._try, messages, facts)

    def _try(self, messages: list[dict[str, str]], facts: dict[str, Any]) -> Answer:
        """One call, or one per output format that the server refuses."""
        for number in range(self._format, len(self._formats)):
            try:
                answer = self._call(messages, facts, number)
            except Fault as fault:
                if fault.cause == "bad_request" and number + 1 < len(self._formats):
                    continue
                raise
            # only now: a request that is bad in itself says nothing about the format
            self._format = max(self._format, number)
            return answer
        raise AssertionError("the last format is none at all")

    def _call(self, messages: list[dict[str, str]], facts: dict[str, Any], number: int) -> Answer:
        while not self._halt.is_set() and time.monotonic() < self._open_at:
            self._halt.wait(self._open_at - time.monotonic())
        size = len(messages[0]["content"].encode("utf-8", "replace"))
        begun = self.ledger.admit(
            size,
            self._halt.is_set,
            lambda most_in, most_out: self.journal.begin(**facts, bytes=size, most_in=most_in, most_out=most_out),
        )
        if begun is None:
            if not self._halt.is_set():
                self.out_of_budget = True
                self._halt.set()
            raise _Halted
        answer, status = None, "unknown"
        try:
            answer = self.client.call(messages, self._formats[number])
            status = "answered"
        except Fault as fault:
            status = fault.cause
            if fault.cause == "rate_limit" and fault.wait:  # the limit is the account's: the other threads wait too
                self._open_at = max(self._open_at, time.monotonic() + min(fault.wait, _LONGEST_WAIT_S))
            raise
        except UserError:
            status = "refused"
            raise
        finally:
            self.ledger.ended(self.journal.end(begun, status, answer))
        self._failed_in_a_row = 0
        return answer

    def _note_failure(self, fault: Fault, same: list[Trajectory]) -> None:
        _log.warning("annotation of %s failed: %s", same[0].id, fault.cause)
        with self._lock:
            self.failed[fault.cause] += len(same)
            self.details |= {fault.detail} - {""}
            self._failed_in_a_row += 1
            refused = self.failed["bad_request"] >= _BAD_REQUESTS and not self.ledger.answered
            dead = self._failed_in_a_row >= _GIVE_UP_AFTER
        if refused:
            raise UserError(f"the server refuses the requests ({fault.detail}): see annotate.model and max_new_tokens")
        if dead:
            raise UserError(
                f"{_GIVE_UP_AFTER} trajectories in a row got no answer (the last one: {fault.cause}): see whether "
                f"{self.settings.base_url} works, then run the same command again"
            )


def _with_steps(steps: int) -> dict[str, Any]:
    """The strictest format with step skills; OpenAI's strict mode takes no object of free keys."""
    schema = {"name": "hindsight_skill", "strict": False, "schema": answer_schema(steps)}
    return {"type": "json_schema", "json_schema": schema}


class _Halted(Exception):
    """No further call is wanted: a stop, a problem elsewhere, or the end of the budget."""
