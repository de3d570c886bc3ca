"""How a task becomes a trajectory. The only place that loops over turns.

All attempts of all tasks advance together, one turn at a time. An exception out of a game ends that episode as a fault
and nothing else. Sampling depends on (seed, task, attempt, turn) alone, so neither order nor batch size changes an
episode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from seedbed.config import RolloutSettings
from seedbed.engines.base import Completion, Engine, Request, Sampling
from seedbed.envs.base import Environment, Game
from seedbed.envs.project import normalise
from seedbed.prompts.base import skill_block, transcript_first, transcript_next, windowed
from seedbed.render import Context, Renderer
from seedbed.types import Action, Group, Message, Observation, Prompt, StopReason, Task, Trajectory, Turn, UserError


@dataclass(slots=True)
class _Episode:
    """An episode while it is played."""

    task: Task
    attempt: int
    seed: int
    slot: int
    game: Game | None = None
    seen: Observation = field(default_factory=lambda: Observation(""))
    prompt: Prompt = field(default_factory=lambda: Prompt(()))
    context: Context | None = None
    shortened: bool = False
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    stop: StopReason | None = None
    cause: str = ""


def collect_groups(
    engine: Engine,
    environment: Environment,
    renderer: Renderer,
    settings: RolloutSettings,
    tasks_P: Sequence[Task],
    attempts: int,
    *,
    seed: int,
    skills: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Group]:
    """Play ``attempts`` episodes of each task with the engine's current weights; groups in task order.

    ``skills`` (one text per task) puts a skill into the acting prompt: for measurements of a base model only; training
    and evaluation never pass it. ``progress`` is called with (finished, all) after every turn. Raises ``UserError`` if
    the first prompt of a task is longer than ``settings.max_prompt_tokens``.
    """
    episodes = [
        _Episode(task, attempt, episode_seed(seed, task.id, attempt), slot=p * attempts + attempt)
        for p, task in enumerate(tasks_P)
        for attempt in range(attempts)
    ]
    blocks = {
        task.id: skill_block(text) if text else ""
        for task, text in zip(tasks_P, skills or [""] * len(tasks_P), strict=True)
    }
    for episode in episodes:
        _start(episode, environment, renderer, settings, blocks[episode.task.id])
    for _ in range(settings.max_turns):
        live = [e for e in episodes if e.stop is None]
        if not live:
            break
        requests = [Request(e.context.ids_T, turn_seed(e.seed, len(e.turns)), e.slot) for e in live]
        completions = engine.generate(requests, Sampling(settings.temperature, settings.max_new_tokens))
        for episode, completion in zip(live, completions, strict=True):
            _advance(episode, completion, environment, renderer, settings)
        if progress:
            progress(sum(e.stop is not None for e in episodes), len(episodes))
    done = [_finish(e, settings, engine.version) for e in episodes]
    return [Group(task, tuple(done[p * attempts : (p + 1) * attempts])) for p, task in enumerate(tasks_P)]


def episode_seed(seed: int, task_id: str, attempt: int) -> int:
    """64-bit seed of one episode: a pure function, the same for every arm of a study (common random numbers)."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{task_id}/{attempt}".encode(), digest_size=8).digest(), "big")


def turn_seed(episode_seed_: int, turn: int) -> int:
    """128-bit key for the sampler of one turn."""
    return (episode_seed_ << 32) + turn


def _start(
    episode: _Episode, environment: Environment, renderer: Renderer, settings: RolloutSettings, block: str
) -> None:
    try:
        episode.game = environment.open(episode.task)
        episode.seen = episode.game.start()
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a game raises is a fault of this episode only
        episode.stop, episode.cause = StopReason.FAULT, f"{type(error).__name__}: {error}"
        return
    episode.prompt = _prompt(episode, environment, settings, keep=settings.history)
    if block:
        episode.prompt = episode.prompt.with_skill(block)
    episode.messages = [Message("user", episode.prompt.text)]
    episode.context = renderer.open(episode.messages)
    if len(episode.context.ids_T) > settings.max_prompt_tokens:
        raise UserError(
            f"the first prompt of task {episode.task.id!r} has {len(episode.context.ids_T)} tokens, over "
            f"rollout.max_prompt_tokens={settings.max_prompt_tokens}: raise that limit"
        )


def _prompt(episode: _Episode, environment: Environment, settings: RolloutSettings, keep: int) -> Prompt:
    listed = episode.seen.admissible if settings.list_admissible else ()
    if settings.layout == "windowed":
        history = [(dict(t.prompt.slots)["observation"], t.action.text) for t in episode.turns]
        return windowed(
            environment.wording,
            goal=episode.game.goal,
            observation=episode.seen.text,
            admissible=listed,
            think=settings.think,
            history=history,
            turn=len(episode.turns),
            keep=keep,
        )
    if not episode.turns:
        return transcript_first(
            environment.wording,
            goal=episode.game.goal,
            observation=episode.seen.text,
            admissible=listed,
            think=settings.think,
        )
    return transcript_next(observation=episode.seen.text, admissible=listed)


def _advance(
    episode: _Episode, completion: Completion, environment: Environment, renderer: Renderer, settings: RolloutSettings
) -> None:
    """One response: read it, play it, prepare the next prompt or end the episode."""
    text = renderer.content(completion.ids_T)
    action, seen, cause = Action("", False), None, ""
    try:
        action = environment.project(episode.context.lead + text, settings.think)
        if completion.finish == "stop":  # never guess what a cut response meant
            seen = episode.game.step(normalise(action.text, episode.seen.admissible))
    except Exception as error:  # noqa: BLE001 - see _start
        cause = f"{type(error).__name__}: {error}"
    turn = Turn(
        prompt=episode.prompt,
        prompt_ids_T=episode.context.ids_T,
        response_ids_T=completion.ids_T,
        logprobs_T=completion.logprobs_T,
        finish=completion.finish,
        text=text,
        action=action,
        observation=seen.text if seen else "",
        reward=seen.reward if seen else 0.0,
        prefix_break=episode.context.prefix_break,
        shortened=episode.shortened,
    )
    episode.turns.append(turn)
    if cause:
        episode.stop, episode.cause = StopReason.FAULT, cause
    elif seen is None:
        episode.stop = StopReason.TRUNCATED_TURN
    elif seen.won:
        episode.stop = StopReason.WON
    elif seen.done:
        episode.stop = StopReason.LOST
    elif len(episode.turns) == settings.max_turns:
        episode.stop = StopReason.STEP_CAP
    else:
        episode.seen = seen
        _next_prompt(episode, completion, environment, renderer, settings)


def _next_prompt(
    episode: _Episode, completion: Completion, environment: Environment, renderer: Renderer, settings: RolloutSettings
) -> None:
    """The next context, history shortened as far as needed (windowed); ends the episode if nothing fits."""
    for keep in range(settings.history, -1, -1):
        episode.prompt = _prompt(episode, environment, settings, keep)
        if settings.layout == "windowed":
            episode.context = renderer.open([Message("user", episode.prompt.text)])
        else:
            episode.messages += [Message("assistant", episode.turns[-1].text), Message("user", episode.prompt.text)]
            episode.context = renderer.extend(episode.context, completion.ids_T, episode.messages)
        if len(episode.context.ids_T) <= settings.max_prompt_tokens:
            episode.shortened = keep < min(settings.history, len(episode.turns))
            return
        if settings.layout == "transcript":
            break
    episode.stop = StopReason.CONTEXT_EXHAUSTED


def _finish(episode: _Episode, settings: RolloutSettings, version: int) -> Trajectory:
    return Trajectory(
        task=episode.task,
        attempt=episode.attempt,
        goal=episode.game.goal if episode.game else "",
        turns_K=tuple(episode.turns),
        stop=episode.stop,
        reward=sum(t.reward for t in episode.turns),
        layout=settings.layout,
        version=version,
        seed=episode.seed,
        cause=episode.cause,
    )
