"""Step 3: what is Stage 2, as records? Actor, analyzer, snapshot, trainable policy and OPD loss of every update."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.track.run import Run
from seedbed.tracks import chain
from seedbed.tracks.again import CLOSE, distance, scores_again, weights_of
from seedbed.tracks.paged import PagedStep, require, table
from seedbed.train.model import folder_hashes
from seedbed.types import Skill
from seedbed.view.rundir import RunDirectory, Scored, is_scored
from seedbed.view.shift import mean_abs_gap

_RUNS = ("collect", "sft", "seed")


class StageTwo(PagedStep):
    name = "stage2"
    title = "Stage 2 drawn from records: actor, analyzer, snapshot, trainable policy, OPD loss"
    done_when = (
        "in every update actor, analyzer and snapshot are one policy version, the snapshot's checkpoint gives the "
        "stored scores again, the OPD loss computed from stored tokens is the logged one, and the next policy differs"
    )
    needs = ("stage1",)
    page = "stage2.md"
    makes = ("seed", "stage2.svg")

    def make(self, folder: Path) -> None:
        chain.reinforce(folder, "seed", self.config(chain.start_of(folder)))
        chain.draw(folder, "stage2.svg", *_RUNS)

    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        chain.drawn(folder, "stage2.svg", *_RUNS)
        run, config = RunDirectory.open(folder / "seed"), Run.open(folder / "seed", "train").config
        before = chain.last_policy(folder / "sft")
        require(run.manifest["model"] == folder_hashes(before), "seed/ did not start from the checkpoint in sft/")
        metrics = {row["update"]: row for row in run.metrics}
        require(run.updates == sorted(metrics) == list(range(1, config.train.updates + 1)), "seed/ lacks an update")
        rows, losses, apart = [], [], 0.0
        for update, logged in sorted(metrics.items()):
            scored, skills = run.trajectories(update), run.skills(update)
            _one_version(update, scored, skills)
            trajectory, values = max(scored, key=lambda pair: mean_abs_gap(pair[1]))
            require(is_scored(values), f"update {update} holds no token scored with a skill")
            apart = max(apart, distance(values, *scores_again(before, config, trajectory, skills[trajectory.id])))
            require(apart < CLOSE, f"the snapshot of update {update} gives other scores (by {apart:.2g} nats)")
            tokens, loss = opd_again(scored, config.algo.coefficient, config.algo.sharpness)
            told = logged["opd_tokens"]
            require(tokens == told, f"update {update} logged {told} OPD tokens, not {tokens}")
            require(
                math.isclose(loss, logged["loss_opd"], rel_tol=0.02, abs_tol=1e-7),
                f"the OPD loss of update {update} is {loss:.3e} from its tokens, {logged['loss_opd']:.3e} in the log",
            )
            require(loss != 0, f"the OPD loss of update {update} is exactly 0")
            after = folder / "seed" / "checkpoints" / f"u{update:04d}" / "policy"
            require(weights_of(after) != weights_of(before), f"update {update} changed no weight")
            rows.append(
                (
                    update,
                    f"v{update - 1} `{_short(before)}`",
                    f"{len(scored)} episodes, {sum(t.won for t, _ in scored)} won",
                    f"{sum(s.valid for s in skills.values())} of {len(skills)} valid",
                    f"{tokens} tokens, mean |gap| {logged['gap_abs']:.3f}",
                    f"{logged['loss_opd']:+.3e}",
                    f"v{update} `{_short(after)}`",
                )
            )
            losses.append(loss)
            before = after
        columns = (
            "update",
            "snapshot",
            "as actor",
            "as analyzer",
            "as scorer",
            "OPD loss",
            "trainable policy after",
        )
        body = "\n\n".join(
            [
                "![who did what, as recorded](stage2.svg)",
                "Each row is one update. The snapshot is one set of weights in three roles: it acts, it reads its own "
                "episodes and writes their skills, and it scores the sampled tokens with and without them. The policy "
                "that is trained on all this is the next row's snapshot.",
                table(columns, rows),
                f"OPD loss is the logged term, coefficient {config.algo.coefficient:g} included: the mean over tokens "
                "of gate times gap, where the policy is still the snapshot. It was computed again here from the stored "
                "log-probs, as one optimiser step is taken an update.",
                "The scores of one episode of each update were computed again from the snapshot's checkpoint.",
            ]
        )
        evidence = {"updates": len(rows), "opd_losses": losses, "rescored_apart": apart, "policy": weights_of(before)}
        return body, evidence


def opd_again(scored: list[Scored], coefficient: float, sharpness: float) -> tuple[int, float]:
    """(OPD tokens, weighted OPD loss) of an update of one optimiser step, from its stored log-probs in float64."""
    gap = np.concatenate([v.skill_T.astype(np.float64) - v.ordinary_T for t, v in scored if not t.faulty])
    gap = gap[np.isfinite(gap)]
    return len(gap), float(coefficient * np.mean(gap / (1 + np.exp(-sharpness * gap)))) if len(gap) else 0.0


def _one_version(update: int, scored: list[Scored], skills: dict[str, Skill]) -> None:
    acted, wrote = {t.version for t, _ in scored}, {s.version for s in skills.values()}
    require(acted == wrote == {update - 1}, f"update {update}: actor {acted} and analyzer {wrote} disagree")
    whole = {t.id for t, _ in scored if not t.faulty and t.turns_K}
    require(whole == skills.keys(), f"update {update}: episodes and skills are not of the same {len(whole)} ids")
    require(all(s.source == "policy" for s in skills.values()), f"update {update}: a skill is not the policy's own")


def _short(policy: Path) -> str:
    return ", ".join(digest[:12] for digest in weights_of(policy).values())
