"""Step 4: do GRPO and SEED run side by side, and is distillation there and calm, before anything is claimed?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.samples import build_samples
from seedbed.track.metrics import PARSE_ALARM, SAMPLER_DIFF_ALARM
from seedbed.track.run import Run
from seedbed.tracks import chain
from seedbed.tracks.again import engine_of
from seedbed.tracks.paged import PagedStep, number, require, table
from seedbed.tracks.smoke_pin import as_pinned
from seedbed.train.model import folder_hashes
from seedbed.types import Origin
from seedbed.view.rundir import RunDirectory
from seedbed.view.shift import pick, token_shifts
from seedbed.view.verdict import verdict

ARMS = {"grpo": "GRPO", "seed": "SEED"}
STEADY = 10.0  #: no update's OPD loss is larger than this many times the median of all
LABEL = (
    "These scores are not comparable with the paper: a tiny model on generated games, a few updates, one training seed."
)
_LISTED = 5


class Arms(PagedStep):
    name = "arms"
    title = "GRPO against SEED from one start: return, length, OPD loss, masks, the score shift of the same actions"
    done_when = (
        "both arms start from the same checkpoint with the pinned settings, their masks hold exactly the sampled "
        "tokens, and the OPD loss is non-zero, finite and steady in every update; only then is a comparison printed"
    )
    needs = ("pin", "stage1")
    page = "compare.md"
    makes = tuple(ARMS)

    def make(self, folder: Path) -> None:
        for name in ARMS:
            chain.reinforce(folder, name, self.config(chain.start_of(folder), f"algo={name}"))

    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        runs = {name: RunDirectory.open(folder / name) for name in ARMS}
        start = folder_hashes(chain.last_policy(folder / "sft"))
        masks = {}
        for name, run in runs.items():
            config = Run.open(run.path, "train").config
            as_pinned(folder, config, f"{name}/")
            require(config.algo.name == name, f"{name}/ was trained with {config.algo.name}")
            require(run.manifest["model"] == start, f"{name}/ did not start from the checkpoint in sft/")
            require(run.updates == list(range(1, config.train.updates + 1)), f"{name}/ lacks trajectories of an update")
            require([row["update"] for row in run.metrics] == run.updates, f"{name}/metrics.jsonl lacks an update")
            _finite(name, run.metrics)
            masks[name] = _masks(name, run)
        opd = [row["loss_opd"] for row in runs["seed"].metrics]
        _calm(runs["seed"].metrics, opd)
        evals = {name: run.evaluations for name, run in runs.items()}
        require(all(evals.values()), "an arm holds no evaluation of the panel")
        entropy = {name: found[0]["summary"]["entropy"] for name, found in evals.items()}
        sentences = verdict(evals["grpo"], evals["seed"], entropy)
        body = "\n\n".join(
            [
                f"**{LABEL}**",
                _curves(runs),
                "## Valid-token masks\n\nRows rebuilt from the stored episodes. Trained: what the policy sampled, "
                "nothing of the prompt, nothing that the template put in.",
                _mask_table(masks),
                "## The same sampled actions, scored twice",
                _shift(runs["seed"]),
                "## Before any claim",
                f"The OPD loss is not 0 and finite in each of {len(opd)} updates, {min(opd):+.2e} to {max(opd):+.2e}. "
                f"None is larger than {STEADY:g} times the median, no OPD token was dropped, sampler and scorer agree "
                f"within {SAMPLER_DIFF_ALARM:g} nats and at least {PARSE_ALARM:.0%} of the analyses parse.",
                "## What may be said\n\n" + "\n".join(f"- {sentence}" for sentence in [*sentences, LABEL]),
            ]
        )
        success = {name: found[0]["summary"]["micro"]["value"] for name, found in evals.items()}
        return body, {"opd_losses": opd, "masks": masks, "success": success, "comparable_with_paper": False}


def _finite(name: str, metrics: list[dict[str, Any]]) -> None:
    for row in metrics:
        bad = [key for key, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
        require(not bad, f"update {row['update']} of {name}/ logged a {bad[:1]} that is not finite")
        require(row["update"] > 0 and row["optimizer_steps"] > 0, f"update {row['update']} of {name}/ took no step")


def _calm(metrics: list[dict[str, Any]], opd: list[float]) -> None:
    """Raises ``Broken`` unless distillation was there and steady in every update."""
    middle = float(np.median(np.abs(opd)))
    for row, loss in zip(metrics, opd, strict=True):
        where = f"update {row['update']} of seed/"
        require(loss != 0, f"the OPD loss of {where} is exactly 0")
        require(abs(loss) <= STEADY * middle, f"the OPD loss of {where} is over {STEADY:g} times the median")
        require(row["opd_dropped"] == 0, f"{where} dropped {row['opd_dropped']} OPD tokens")
        require(row["sampler_diff_max"] < SAMPLER_DIFF_ALARM, f"sampler and scorer differ in {where}")
        require(
            row["skill_parse_rate"] >= PARSE_ALARM, f"only {row['skill_parse_rate']:.0%} of analyses parse in {where}"
        )


def _masks(name: str, run: RunDirectory) -> dict[str, int]:
    """Tokens of all rows by origin, and those that distil; each must be what the update logged."""
    stop_id = engine_of(chain.last_policy(run.path))[1].stop_id
    total = dict.fromkeys(("prompt", "sampled", "forced", "distilled"), 0)
    for row in run.metrics:
        scored = run.trajectories(row["update"])
        origins = [s.origin_T for t, _ in scored for s in build_samples(t, stop_id)]
        count = {o: sum(int((origin == o).sum()) for origin in origins) for o in Origin}
        drawn = sum(t.sampled_tokens for t, _ in scored if not t.faulty)
        distilled = sum(int(np.isfinite(v.skill_T).sum()) for _, v in scored)
        where = f"update {row['update']} of {name}/"
        require(count[Origin.SAMPLED] == drawn, f"the mask of {where} holds {count[Origin.SAMPLED]} of {drawn} tokens")
        require(
            drawn == row["tokens_trained"], f"{where} trained {row['tokens_trained']} tokens, its episodes have {drawn}"
        )
        require(
            distilled == row.get("opd_tokens", 0),
            f"{where} logged {row.get('opd_tokens', 0)} OPD tokens, not {distilled}",
        )
        total["prompt"] += count[Origin.PROMPT]
        total["sampled"] += drawn
        total["forced"] += count[Origin.FORCED]
        total["distilled"] += distilled
    require((total["distilled"] > 0) == (name == "seed"), f"{name}/ distilled {total['distilled']} tokens")
    return total


def _curves(runs: dict[str, RunDirectory]) -> str:
    rows = [
        (
            row["update"],
            ARMS[name],
            number(row["return"]),
            f"{row['success']:.1%}",
            f"{row['episode_length']:.1f}",
            f"{row['loss_opd']:+.3e}" if "loss_opd" in row and name == "seed" else "-",
            f"{row['opd_active']:.0%}" if "opd_active" in row else "-",
            number(row["entropy"]),
        )
        for update in runs["seed"].updates
        for name, run in runs.items()
        for row in [run.metrics[update - 1]]
    ]
    return table(
        ("update", "arm", "return", "success", "episode length", "OPD loss", "tokens that distil", "entropy"), rows
    )


def _mask_table(masks: dict[str, dict[str, int]]) -> str:
    rows = [
        (ARMS[name], *(f"{m[key]:,}" for key in ("prompt", "forced", "sampled", "distilled")))
        for name, m in masks.items()
    ]
    return table(("arm", "prompt tokens", "put in by the template", "sampled = trained", "distilled"), rows)


def _shift(run: RunDirectory) -> str:
    update = run.updates[-1]
    scored = run.trajectories(update)
    trajectory, values = pick(scored)
    skill = run.skills(update)[trajectory.id]
    tokens = token_shifts(trajectory, values, float(run.setting("algo.sharpness", 5.0)), run.token_texts())
    ordered = sorted((t for t in tokens if math.isfinite(t.gap)), key=lambda t: t.gap)
    require(bool(ordered) and ordered[0].gap < ordered[-1].gap, f"no token of {trajectory.id} was shifted by its skill")
    turns = [turn.action.text for turn in trajectory.turns_K]
    shown = [*ordered[::-1][:_LISTED], *ordered[:_LISTED][::-1]]
    rows = [
        (t.turn, turns[t.turn], repr(t.text), number(t.ordinary), number(t.skill), number(t.gap, "+"), number(t.gate))
        for t in shown
    ]
    columns = ("turn", "action", "token", "log p", "log p with skill", "gap", "gate")
    return (
        f"Episode `{trajectory.id}` of the last SEED update ({trajectory.stop.value}); its own skill, by the policy "
        f"({skill.kind}), moves these of its {len(ordered)} tokens most, up and down:\n\n{table(columns, rows)}"
    )
