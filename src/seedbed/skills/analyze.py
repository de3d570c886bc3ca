"""How a trajectory becomes a skill: the policy that played it now reads it (paper 1.1, ``s = A_theta_old(x_tau)``).

Transcript layout: the request is one more user message of the same chat, so the episode's cache is reused. Windowed
layout: the paper's stand-alone prompt with every observation and response. A failure to analyse is a status, never an
exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from seedbed.config import AnalyzerSettings
from seedbed.engines.base import Engine, Request, Sampling
from seedbed.prompts.analyzer import continuation, kind_of, standalone
from seedbed.render import Context, Renderer, chat_of
from seedbed.rollout import turn_seed
from seedbed.skills.parse import parse_analysis, turn_skills
from seedbed.types import Message, Skill, Trajectory

TOO_LONG = "prompt_too_long"


def analyzer_context(trajectory: Trajectory, renderer: Renderer, steps: int = 0) -> Context:
    """The prompt that asks about ``trajectory``; its ids extend the episode's own in the transcript layout.

    With ``steps``, also for at most so many critical-step skills; raises ``UserError`` for a transcript.
    """
    if trajectory.layout == "windowed" or steps:
        return renderer.open([Message("user", standalone(trajectory, steps).text)])
    turn = trajectory.turns_K[-1]
    chat = chat_of(trajectory, len(trajectory.turns_K) - 1)
    played = Context(renderer.open(chat).text, turn.prompt_ids_T)
    chat += [Message("assistant", turn.text), Message("user", continuation(trajectory).text)]
    return renderer.extend(played, turn.response_ids_T, chat)


def analyze(
    engine: Engine,
    renderer: Renderer,
    trajectories: Sequence[Trajectory],
    settings: AnalyzerSettings,
    slots: Sequence[int] | None = None,
) -> dict[str, Skill]:
    """One skill per analysable trajectory, by trajectory id, written by the engine's current weights.

    ``slots`` are the cache slots the episodes were played in (default: their order). Faults and episodes without a turn
    are left out; the loop's invariant that actor and analyzer are one version is asserted here.
    """
    wanted, requests, leads = [], [], []
    skills: dict[str, Skill] = {}
    for slot, trajectory in zip(slots or range(len(trajectories)), trajectories, strict=True):
        if trajectory.faulty or not trajectory.turns_K:
            continue
        if trajectory.version != engine.version:
            raise AssertionError(
                f"{trajectory.id} was played by version {trajectory.version}, the analyzer is {engine.version}"
            )
        context = analyzer_context(trajectory, renderer, settings.steps)
        if len(context.ids_T) > settings.max_prompt_tokens:
            skills[trajectory.id] = Skill(trajectory.id, kind_of(trajectory), TOO_LONG, version=engine.version)
            continue
        wanted.append(trajectory)
        leads.append(context.lead)
        requests.append(Request(context.ids_T, turn_seed(trajectory.seed, 1 << 20), slot))
    completions = engine.generate(requests, Sampling(settings.temperature, settings.max_new_tokens)) if requests else []
    for trajectory, lead, completion in zip(wanted, leads, completions, strict=True):
        raw = lead + renderer.content(completion.ids_T)
        skills[trajectory.id] = to_skill(trajectory, raw, completion.finish, "policy", engine.version, settings.steps)
    return skills


def to_skill(trajectory: Trajectory, raw: str, finish: str, source: str, version: int, steps: int = 0) -> Skill:
    """Parse an analyzer's answer about ``trajectory``; without a valid episode skill there are no step skills."""
    asked = standalone(trajectory, steps) if trajectory.layout == "windowed" else continuation(trajectory)
    request = dict(asked.slots)["request"]
    parsed = parse_analysis(raw, finish, prompt_text=request)
    return Skill(
        trajectory.id,
        kind_of(trajectory),
        str(parsed.status),
        parsed.skill,
        parsed.summary,
        raw,
        parsed.repairs,
        source,
        version,
        turn_skills(raw, len(trajectory.turns_K), steps, request),
    )


def coverage(skills: Mapping[str, Skill], trajectories: Iterable[Trajectory]) -> dict[str, float | dict[str, int]]:
    """Parse rate over analysable trajectories and a count per status."""
    analysable = [t for t in trajectories if not t.faulty and t.turns_K]
    valid = sum(t.id in skills and skills[t.id].valid for t in analysable)
    return {
        "parse_rate": valid / len(analysable) if analysable else 0.0,
        "statuses": dict(Counter(s.status for s in skills.values())),
    }
