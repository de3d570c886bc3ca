"""Step 1: what does one outcome say of each token, and what does hindsight say? One group, played and scored twice."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.algo import make_algorithm
from seedbed.algo.advantages import advantage_streams
from seedbed.config import Config
from seedbed.envs.base import environment_from
from seedbed.rollout import collect_groups
from seedbed.samples import build_samples
from seedbed.scoring import score_pairs
from seedbed.skills import rules
from seedbed.track.run import Run
from seedbed.track.store import TokenValues, append_jsonl, skill_line, write_part
from seedbed.tracks.again import CLOSE, distance, engine_of, scores_again
from seedbed.tracks.paged import PagedStep, number, quoted, require, say, table
from seedbed.train.collect import draw_balanced
from seedbed.train.model import model_facts
from seedbed.types import Batch, Group, Trajectory
from seedbed.view.rundir import RunDirectory, Scored, is_scored
from seedbed.view.shift import WIDE, mean_abs_gap, summarise, token_shifts

_TASKS = 3
_CLOSE = 1e-5
_LISTED = 6  #: tokens shown from either end


class SupervisionGap(PagedStep):
    name = "gap"
    title = "The supervision gap: one outcome for all tokens of an episode, one number for each from hindsight"
    done_when = (
        "of one episode, every sampled token has the same advantage, the gaps of its tokens differ, and the tiny model "
        "gives the stored log-probs of both contexts again"
    )
    page = "supervision_gap.md"
    makes = ("gap",)

    def make(self, folder: Path) -> None:
        config, run = self.config(), Run.new(folder / "gap")
        engine, renderer = engine_of(config.model.path)
        environment = environment_from(config.env)
        tasks = draw_balanced(environment.tasks(config.env.train_split), _TASKS, config.seed)
        run.begin(config, "scores", **model_facts(config.model, renderer), env_facts=environment.facts(tasks[0]))
        engine.advance(0)
        groups = collect_groups(
            engine, environment, renderer, config.rollout, tasks, config.train.attempts, seed=config.seed
        )
        batch = Batch(groups)
        batch.skills = {t.id: rules.annotate(t) for t in batch.trajectories if not t.faulty}
        batch.samples = [s for t in batch.trajectories for s in build_samples(t, renderer.stop_id)]
        batch.scores = score_pairs(
            engine,
            renderer,
            batch.samples,
            batch.skills,
            temperature=config.rollout.temperature,
            max_prompt_tokens=config.rollout.max_prompt_tokens,
        )
        engine.release()
        batch.streams, _ = make_algorithm(config.algo).streams(batch)
        write_part(run.trajectories, "u0000", batch.trajectories, _values(batch))
        append_jsonl(run.skills, [skill_line(s, update=0) for s in batch.skills.values()])
        say("gap", f"{len(batch.trajectories)} episodes of the base policy, scored without and with their skills")

    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        run = RunDirectory.open(folder / "gap")
        scored = run.trajectories(0)
        trajectory, values = _example(scored)
        skill = run.skills(0)[trajectory.id]
        advantage = sorted({float(a) for a in values.advantage_T})
        tokens = token_shifts(trajectory, values, float(run.setting("algo.sharpness", 5.0)), run.token_texts())
        require(len(advantage) == 1, f"the tokens of {trajectory.id} have {len(advantage)} advantages, not one")
        group = [t for t, _ in scored if t.task == trajectory.task]
        given = _advantage(group, trajectory, self.config())
        require(np.allclose(values.advantage_T, given, atol=_CLOSE), f"the outcomes give {trajectory.id} another one")
        whole = summarise([(trajectory, values)])
        require(whole.tokens == len(tokens) > 1, f"not every token of {trajectory.id} is scored in both contexts")
        distinct = len({round(t.gap, 6) for t in tokens})
        require(distinct > 1, f"all tokens of {trajectory.id} have the same gap: hindsight told none from another")
        apart = distance(values, *scores_again("tiny", self.config(), trajectory, skill))
        require(apart < CLOSE, f"the tiny model gives {trajectory.id} other scores (by {apart:.2g} nats)")
        ordered = sorted(tokens, key=lambda t: t.gap)
        listed = [*ordered[::-1][:_LISTED], *ordered[:_LISTED][::-1]]
        body = "\n\n".join(
            [
                f"Episode `{trajectory.id}`, {len(trajectory.turns_K)} turns, {len(tokens)} sampled tokens.",
                quoted(f"task: {trajectory.goal}\nskill ({skill.kind}, by {skill.source}): {skill.text}"),
                table(
                    ("signal", "numbers for this episode", "values"),
                    [
                        ("outcome", 1, f"{trajectory.stop.value}, return {trajectory.reward:g}"),
                        (
                            f"advantage among the {len(group)} attempts ({sum(t.won for t in group)} won)",
                            1,
                            f"{advantage[0]:+.3f}, the same for all {len(tokens)} tokens",
                        ),
                        (
                            "gap, log p with the skill less log p without",
                            distinct,
                            f"{ordered[0].gap:+.3f} to {ordered[-1].gap:+.3f}, mean |gap| {whole.mean_abs:.3f}",
                        ),
                    ],
                ),
                f"The outcome cannot tell these tokens apart. The gap does: {whole.share_wide:.0%} of them are further "
                f"than {WIDE} from 0, {sum(t.gap > WIDE for t in tokens)} upward and "
                f"{sum(t.gap < -WIDE for t in tokens)} downward. The tokens that the skill supports most and least:",
                table(
                    ("turn", "token", "advantage", "log p", "log p with skill", "gap", "gate"),
                    [
                        (
                            t.turn,
                            repr(t.text),
                            number(t.advantage, "+"),
                            number(t.ordinary),
                            number(t.skill),
                            number(t.gap, "+"),
                            number(t.gate),
                        )
                        for t in listed
                    ],
                ),
                "Nothing was sampled again: both columns score the tokens above. All of them: `seedbed shift` on this "
                "track's folder `gap`. The skill was written by rules here; in Stage 2 the policy writes it itself.",
            ]
        )
        evidence = {
            "episode": trajectory.id,
            "return": trajectory.reward,
            "advantage": advantage[0],
            "tokens": len(tokens),
            "distinct_gaps": distinct,
            "mean_abs_gap": whole.mean_abs,
            "rescored_apart": apart,
        }
        return body, evidence


def _example(scored: list[Scored]) -> Scored:
    """The episode that its skill changes most, of a group whose outcomes differ if there is one."""
    usable = [pair for pair in scored if is_scored(pair[1]) and not pair[0].invalid_turns]  # no penalty of single turns
    require(bool(usable), "gap/ holds no episode of valid actions that was scored in both contexts")
    told_apart = [pair for pair in usable if pair[1].advantage_T.any()]
    return max(told_apart or usable, key=lambda pair: mean_abs_gap(pair[1]))


def _advantage(group: list[Trajectory], trajectory: Trajectory, config: Config) -> np.ndarray:
    """What the outcomes of the attempts give each token of ``trajectory``."""
    samples = build_samples(trajectory, engine_of(config.model.path)[1].stop_id)
    streams, _ = advantage_streams(Batch([Group(trajectory.task, tuple(group))], samples=samples), config.algo)
    return np.concatenate([row.advantage_T[s.sampled_T] for row, s in zip(streams, samples, strict=True)])


def _values(batch: Batch) -> dict[str, TokenValues]:
    """Per-token values by episode, as the store keeps them."""
    rows: dict[str, list[tuple[np.ndarray, ...]]] = defaultdict(list)
    for sample, score, stream in zip(batch.samples, batch.scores, batch.streams, strict=True):
        skill = np.full(len(sample.ids_T), np.nan, np.float32) if score.skill_T is None else score.skill_T
        columns = (score.ordinary_T, skill, stream.advantage_T)
        rows[sample.trajectory.id].append(tuple(column[sample.sampled_T] for column in columns))
    return {key: TokenValues(*map(np.concatenate, zip(*parts, strict=True))) for key, parts in rows.items()}
