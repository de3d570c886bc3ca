"""Stage 1, second step: a skill for every collected trajectory, from rules, the policy or an external analyzer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seedbed.config import Config
from seedbed.skills import rules
from seedbed.skills.analyze import analyze, coverage
from seedbed.skills.annotator.journal import Journal, only_one
from seedbed.track.run import Run
from seedbed.track.store import append_jsonl, read_skills, skill_line
from seedbed.train.collect import read_collected
from seedbed.train.interrupt import Interrupt, Stopped
from seedbed.train.model import folder_hashes, load_engine, resolve, same_tokens
from seedbed.types import Skill, Trajectory, UserError

_BATCH = 64
Report = Callable[[int, int, int], None]


def annotate(run: Run, config: Config, by: str, report: Report = lambda done, total, valid: None) -> dict[str, Any]:
    """Append one line per trajectory to ``skills.jsonl``; trajectories that have a skill there are not asked again.

    ``by``: "rules", "policy" (the model that collected) or "openai" (``config.annotate``). ``report(done, total,
    valid)`` counts trajectories. Returns what ``annotate.json`` of the run then holds, whatever the end: how many
    skills of each status, and for "openai" calls, faults, tokens and cost since the run was collected.
    """
    with only_one(run.path / "annotate.lock"):
        todo = {t.id: t for t in read_collected(run) if not t.faulty and t.turns_K}
        have = {s.trajectory: s for s, _ in read_skills(run.skills)} if run.skills.exists() else {}
        author = config.annotate.model if by == "openai" else by
        others = {s.source for s in have.values()} - {author}
        if others:
            raise UserError(f"{run.skills} holds skills by {', '.join(others)}: move it away to annotate by {author}")
        missing = [t for key, t in todo.items() if key not in have]
        work = _External(run, config) if by == "openai" else _Own(run, config, by)
        try:
            with Interrupt() as interrupt:
                for skill in work.skills(missing, lambda: interrupt.requested):
                    append_jsonl(run.skills, [skill_line(skill, update=0)])
                    have[skill.trajectory] = skill
                    report(len(have), len(todo), sum(s.valid for s in have.values()))
                if interrupt.requested and len(have) < len(todo):
                    raise Stopped(
                        f"stopped after {len(have)} of {len(todo)} skills; run the same command again to go on"
                    )
            work.check(len(have), len(todo))
        finally:
            summary = {"by": by, "author": author, "trajectories": len(todo), "annotated": len(have)}
            summary |= {**coverage(have, todo.values()), **work.account()}
            if by == "policy":
                summary["model"] = folder_hashes(resolve(config.model.path))
            run.write_json("annotate.json", summary)
            work.close()
    return summary


def settings_from_environment() -> dict[str, str]:
    """Model and address as clients of such servers are usually told; what a command is told goes before them."""
    found = {"model": os.environ.get("OPENAI_MODEL"), "base_url": os.environ.get("OPENAI_BASE_URL")}
    return {name: value for name, value in found.items() if value}


class _Own:
    """Rules and policy: nothing is paid and nothing fails."""

    def __init__(self, run: Run, config: Config, by: str) -> None:
        self.run, self.config, self.by = run, config, by

    def skills(self, trajectories: Sequence[Trajectory], stop: Callable[[], bool]) -> Iterator[Skill]:
        by = {"rules": _by_rules, "policy": _by_policy}[self.by]
        for skill in by(self.run, trajectories, self.config):
            yield skill
            if stop():
                return

    def check(self, done: int, total: int) -> None:
        pass

    def account(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


class _External:
    """An external analyzer: calls are journalled, paid, and may fail."""

    def __init__(self, run: Run, config: Config) -> None:
        from seedbed.skills.openai_annotator import OpenAIAnnotator  # noqa: PLC0415 - an extra

        self.journal = Journal(run.path / "annotations.jsonl")
        self.annotator = OpenAIAnnotator(config.annotate, self.journal, config.analyzer.steps)
        self.settings = config.annotate

    def skills(self, trajectories: Sequence[Trajectory], stop: Callable[[], bool]) -> Iterator[Skill]:
        yield from self.annotator.annotate(trajectories, stop)

    def check(self, done: int, total: int) -> None:
        failed: Counter[str] = self.annotator.failed
        if self.annotator.out_of_budget:
            raise Stopped(
                f"the budget has no room for another call: {done} of {total} trajectories are annotated, "
                f"{spent(self.account())}; raise annotate.budget_tokens or annotate.budget_usd and run the same "
                "command again to go on"
            )
        if failed:
            causes = ", ".join(f"{count} {cause}" for cause, count in failed.most_common())
            said = "".join(f"; a refusal: {detail}" for detail in sorted(self.annotator.details)[:1])
            raise UserError(
                f"{failed.total()} of {total} trajectories got no answer ({causes}{said}); what was answered is kept: "
                "run the same command again to ask for the rest"
            )

    def account(self) -> dict[str, Any]:
        return {"base_url": self.settings.base_url, **self.annotator.ledger.summary()}

    def close(self) -> None:
        self.journal.close()


def spent(account: dict[str, Any]) -> str:
    """The account of an external analyzer in words."""
    again, tokens, lost = (account[name] for name in ("asked_again_unparsed", "tokens", "tokens_maybe_charged"))
    words = f"{account['calls']} calls, {account['paid_calls']} answered"
    if again:
        words += f" ({again} asked again because they did not parse)"
    if account["faults"]:
        words += ", without an answer: " + ", ".join(f"{n} {cause}" for cause, n in account["faults"].items())
    words += f"; {tokens['in']:,} tokens in and {tokens['out']:,} out"
    if sum(lost.values()):
        words += f", at most {sum(lost.values()):,} more for lost answers"
    return words + (f"; at most ${account['cost_usd']:.4f}" if account["cost_usd"] is not None else "")


def _by_rules(run: Run, trajectories: Sequence[Trajectory], config: Config) -> Iterator[Skill]:
    for trajectory in trajectories:
        try:
            yield rules.annotate(trajectory)
        except ValueError as error:
            raise UserError(f"the rules know household tasks only ({error}): annotate --by policy or openai") from error


def _by_policy(run: Run, trajectories: Sequence[Trajectory], config: Config) -> Iterator[Skill]:
    if not trajectories:
        return
    engine, renderer = load_engine(config.model)
    same_tokens(run, config.model, renderer)
    for start in range(0, len(trajectories), _BATCH):
        part = trajectories[start : start + _BATCH]
        yield from analyze(engine, renderer, part, config.analyzer).values()
        engine.release()
