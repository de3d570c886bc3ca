"""How a task becomes a trajectory. The only place that loops over turns.

All attempts of all tasks advance together, one turn at a time: the engine answers all, then a crew of threads plays the
games. A game that raises or hangs ends its own episode as a fault and nothing else. Sampling depends on (seed, task,
attempt, turn) alone and tokens are touched by one thread, so neither order, batch size nor workers change an episode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from seedbed.config import RolloutSettings, TrainSettings
from seedbed.engines.base import Completion, Engine, Request, Sampling
from seedbed.envs.base import Environment, Game
from seedbed.envs.crew import Crew, crew_for
from seedbed.envs.project import normalise, offered
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
    goal: str = ""
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
    only: Collection[tuple[str, int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Group]:
    """Play ``attempts`` episodes of each task with the engine's current weights; groups in task order.

    ``only`` leaves out all but these (task id, attempt): what an interrupted collection still lacks. They are the
    episodes that they would have been among the others.

    ``skills`` (one text per task) puts a skill into the acting prompt: for measurements of a base model only; training
    and evaluation never pass it. ``progress`` is called with (finished, all) after every turn. Raises ``UserError`` if
    the first prompt of a task is longer than ``settings.max_prompt_tokens``.
    """
    episodes = [
        _Episode(task, attempt, episode_seed(seed, task.id, attempt), slot=p * attempts + attempt)
        for p, task in enumerate(tasks_P)
        for attempt in range(attempts)
        if only is None or (task.id, attempt) in only
    ]
    blocks = {
        task.id: skill_block(text) if text else ""
        for task, text in zip(tasks_P, skills or [""] * len(tasks_P), strict=True)
    }
    environment.prepare(tasks_P)
    with crew_for(environment) as crew:
        calls = [partial(_open, environment, e.task) for e in episodes]
        opened = crew.run(calls[:1]) + crew.run(calls[1:])  # what the first one loads is there for the others
        for episode, outcome in zip(episodes, opened, strict=True):
            _start(episode, outcome, environment, renderer, settings, blocks[episode.task.id])
        for _ in range(settings.max_turns):
            live = [e for e in episodes if e.stop is None]
            if not live:
                break
            requests = [Request(e.context.ids_T, turn_seed(e.seed, len(e.turns)), e.slot) for e in live]
            completions = engine.generate(requests, Sampling(settings.temperature, settings.max_new_tokens))
            for episode, completion in zip(live, completions, strict=True):
                _read(episode, completion, environment, renderer, settings)
            _play([e for e in live if e.stop is None], crew)
            for episode, completion in zip(live, completions, strict=True):
                if episode.stop is None:
                    _go_on(episode, completion, environment, renderer, settings)
            if progress:
                progress(sum(e.stop is not None for e in episodes), len(episodes))
    done = [_finish(e, settings, engine.version) for e in episodes]
    of_task: dict[str, list[Trajectory]] = {task.id: [] for task in tasks_P}
    for trajectory in done:
        of_task[trajectory.task.id].append(trajectory)
    return [Group(task, tuple(of_task[task.id])) for task in tasks_P]


def check_faults(trajectories: Sequence[Trajectory], settings: TrainSettings) -> None:
    """Raises ``UserError`` with the first cause if too many games broke: then they are not what was to be played."""
    causes = [t.cause for t in trajectories if t.faulty]
    if len(causes) > settings.max_fault_share * len(trajectories):
        raise UserError(
            f"{len(causes)} of {len(trajectories)} episodes broke (first cause: {causes[0]}), over "
            f"train.max_fault_share={settings.max_fault_share}: the environment needs mending, not the policy"
        )


def episode_seed(seed: int, task_id: str, attempt: int) -> int:
    """64-bit seed of one episode: a pure function, the same for every arm of a study (common random numbers)."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{task_id}/{attempt}".encode(), digest_size=8).digest(), "big")


def turn_seed(episode_seed_: int, turn: int) -> int:
    """128-bit key for the sampler of one turn."""
    return (episode_seed_ << 32) + turn


def _open(environment: Environment, task: Task) -> tuple[Game, str, Observation]:
    """In a worker: a started game, its goal and what it shows first."""
    game = environment.open(task)
    seen = _seen(game.start())
    return game, game.goal, seen


def _step(game: Game, action: str) -> Observation:
    """In a worker."""
    return _seen(game.step(action))


def _seen(answer: object) -> Observation:
    if not isinstance(answer, Observation):
        raise TypeError(f"the game answered with {type(answer).__name__}, not with an Observation")
    return answer


def _start(
    episode: _Episode,
    outcome: tuple[Game, str, Observation] | BaseException,
    environment: Environment,
    renderer: Renderer,
    settings: RolloutSettings,
    block: str,
) -> None:
    if isinstance(outcome, UserError):
        raise outcome
    if isinstance(outcome, BaseException):
        _break(episode, outcome)
        return
    episode.game, episode.goal, episode.seen = outcome
    if episode.seen.image is not None and not episode.seen.text:
        raise UserError(
            f"environment {environment.name!r} shows images only, and this engine reads text: set "
            "env.options.observation=text"
        )
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
            goal=episode.goal,
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
            goal=episode.goal,
            observation=episode.seen.text,
            admissible=listed,
            think=settings.think,
        )
    return transcript_next(observation=episode.seen.text, admissible=listed)


def _break(episode: _Episode, error: BaseException) -> None:
    episode.stop, episode.cause = StopReason.FAULT, f"{type(error).__name__}: {error}"


def _read(
    episode: _Episode, completion: Completion, environment: Environment, renderer: Renderer, settings: RolloutSettings
) -> None:
    """One response as a turn that is not played yet, or the end of the episode if it was cut or cannot be read."""
    text = renderer.content(completion.ids_T)
    action = Action("", False)
    try:
        required = settings.think and not episode.context.reasoned
        action = environment.project(episode.context.lead + text, required)
        legal = episode.seen.admissible
        if settings.admissible_only and not offered(normalise(action.text, legal), legal):
            action = replace(action, valid=False)
        if completion.finish != "stop":  # never guess what a cut response meant
            episode.stop = StopReason.TRUNCATED_TURN
    except Exception as error:  # noqa: BLE001 - like an exception out of a game
        _break(episode, error)
    turn = Turn(
        prompt=episode.prompt,
        prompt_ids_T=episode.context.ids_T,
        response_ids_T=completion.ids_T,
        logprobs_T=completion.logprobs_T,
        finish=completion.finish,
        text=text,
        action=action,
        prefix_break=episode.context.prefix_break,
        shortened=episode.shortened,
    )
    episode.turns.append(turn)


def _play(episodes: Sequence[_Episode], crew: Crew) -> None:
    """The newest turn of each, all at once; a fault where the game broke or did not answer."""
    steps = [partial(_step, e.game, normalise(e.turns[-1].action.text, e.seen.admissible)) for e in episodes]
    for episode, outcome in zip(episodes, crew.run(steps), strict=True):
        if isinstance(outcome, BaseException):
            _break(episode, outcome)
            continue
        episode.seen = outcome
        episode.turns[-1] = replace(episode.turns[-1], observation=outcome.text, reward=outcome.reward)


def _go_on(
    episode: _Episode, completion: Completion, environment: Environment, renderer: Renderer, settings: RolloutSettings
) -> None:
    """The end of the episode that the game or the turn limit gave, or the next prompt."""
    if episode.seen.won:
        episode.stop = StopReason.WON
    elif episode.seen.done:
        episode.stop = StopReason.LOST
    elif len(episode.turns) == settings.max_turns:
        episode.stop = StopReason.STEP_CAP
    else:
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
        goal=episode.goal,
        turns_K=tuple(episode.turns),
        stop=episode.stop,
        reward=sum(t.reward for t in episode.turns),
        layout=settings.layout,
        version=version,
        seed=episode.seed,
        cause=episode.cause,
    )
