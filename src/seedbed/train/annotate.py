"""Stage 1, second step: a skill for every collected trajectory, from rules, the policy or an external analyzer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from seedbed.config import Config
from seedbed.skills import rules
from seedbed.skills.analyze import analyze
from seedbed.track.run import Run
from seedbed.track.store import append_jsonl, read_skills, skill_line
from seedbed.train.collect import read_collected
from seedbed.train.interrupt import Interrupt, Stopped
from seedbed.train.model import load_engine, same_tokens
from seedbed.types import Skill, Trajectory, UserError

_BATCH = 64


def annotate(
    run: Run,
    config: Config,
    source: str,
    report: Callable[[int, int, int], None] = lambda done, total, valid: None,
    **external: object,
) -> None:
    """Append one line per trajectory to ``skills.jsonl``; trajectories that have a skill there are not asked again.

    ``source``: "rules", "policy" (the model that collected) or "openai" (``external``: model, base_url, ...).
    ``report(done, total, valid)`` counts trajectories.
    """
    todo = [t for t in read_collected(run) if not t.faulty and t.turns_K]
    total = len(todo)
    have = {s.trajectory: s for s, _ in read_skills(run.skills)} if run.skills.exists() else {}
    have = {key: s for key, s in have.items() if s.status != "api_error"}  # a call that failed is made again
    author = external["model"] if source == "openai" else source
    others = {s.source for s in have.values()} - {author}
    if others:
        raise UserError(f"{run.skills} holds skills by {', '.join(others)}: move it away to annotate by {author}")
    valid, failed, done = sum(s.valid for s in have.values()), 0, len(have)
    with Interrupt() as interrupt:
        for skill in _skills(run, [t for t in todo if t.id not in have], config, source, external):
            append_jsonl(run.skills, [skill_line(skill, update=0)])
            done, valid = done + 1, valid + skill.valid
            failed += skill.status == "api_error"
            report(done, total, valid)
            if interrupt.requested and done < total:
                raise Stopped(f"stopped after {done} of {total} skills; run the same command again to go on")
    if failed:
        raise UserError(
            f"{failed} of {total} calls failed for good (causes are in {run.skills}); what was answered is kept: "
            "run the same command again to ask for the rest"
        )


def _skills(
    run: Run, trajectories: Sequence[Trajectory], config: Config, source: str, external: dict[str, object]
) -> Iterable[Skill]:
    if source == "rules":
        return (_by_rules(t) for t in trajectories)
    if source == "policy":
        return _by_policy(run, trajectories, config)
    if source == "openai":
        from seedbed.skills.openai_annotator import OpenAIAnnotator  # noqa: PLC0415 - an extra

        return OpenAIAnnotator(**external).annotate(trajectories)
    raise UserError(f"annotator {source!r} is unknown: use rules, policy or openai")


def _by_rules(trajectory: Trajectory) -> Skill:
    try:
        return rules.annotate(trajectory)
    except ValueError as error:
        raise UserError(f"the rules know household tasks only ({error}): annotate --by policy or openai") from error


def _by_policy(run: Run, trajectories: Sequence[Trajectory], config: Config) -> Iterator[Skill]:
    engine, renderer = load_engine(config.model)
    same_tokens(run, config.model, renderer)
    for start in range(0, len(trajectories), _BATCH):
        part = trajectories[start : start + _BATCH]
        yield from analyze(engine, renderer, part, config.analyzer).values()
        engine.release()
