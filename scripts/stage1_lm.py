"""Does Stage 1 teach a real language model to analyse episodes of real ALFWorld games? One number before, one after.

    SEEDBED_DATA=FOLDER python scripts/stage1_lm.py MODEL --out runs/stage1-lm --device cuda [KEY=VALUE]...

MODEL is SmolLM2-135M-Instruct or another ChatML model as a Hugging Face folder (``make smoke-lm`` makes one). Without a
network: plays training games with the model itself and with the scripted household player, which makes its usual
mistakes (a model that cannot act yet gives no success to learn from); annotates by rules; measures parse rate and kind
agreement on 100 held-out episodes; fine-tunes; measures the saved policy on the same episodes. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seedbed.config import Config, load_config
from seedbed.engines.base import Completion, Request, Sampling
from seedbed.envs.alfworld.expert import Expert, Mistakes
from seedbed.envs.base import environment_from
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.skills.sft_data import build_rows, split_rows, within
from seedbed.track.run import Clock, Run
from seedbed.track.store import read_skills, write_part
from seedbed.train import annotate, sft
from seedbed.train.collect import draw_balanced, read_collected
from seedbed.train.model import load_engine, model_facts
from seedbed.train.sft_eval import analysis_quality, held_out
from seedbed.train.state import latest_checkpoint
from seedbed.types import Trajectory, replace

DEFAULTS = [
    "collect.tasks=130",
    "rollout.max_turns=30",
    "rollout.max_prompt_tokens=6000",
    "analyzer.max_prompt_tokens=7000",
    "analyzer.max_new_tokens=128",
    "sft.epochs=3",
    "sft.batch_rows=8",
    "sft.lr=1e-4",
    "sft.max_tokens=8192",
    "sft.micro_tokens=16384",
]
USER, END = "<|im_start|>user\n", "<|im_end|>"


class ExpertEngine:
    """The scripted player as an engine for the transcript layout of a ChatML model; one player per cache slot."""

    version = 0

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.players: dict[int, Expert] = {}

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        return [self._turn(request) for request in requests]

    def _turn(self, request: Request) -> Completion:
        said = self.renderer.tokenizer.decode(request.prompt_ids_T, skip_special_tokens=False).split(USER)[1:]
        seen = said[-1].partition(END)[0]
        if len(said) == 1:
            self.players[request.slot] = Expert(seen, random.Random(request.seed), Mistakes())
            action = self.players[request.slot].first(seen)
        else:
            action = self.players[request.slot].next(seen)
        ids = self.renderer.tokenizer.encode(f"<action>{action}</action>", add_special_tokens=False)
        ids = np.asarray([*ids, self.renderer.stop_id], np.int32)
        return Completion(ids, np.zeros(len(ids), np.float32), "stop")


def play(run: Run, config: Config, expert: int, own: int, clock: Clock) -> dict[str, float]:
    """``expert`` and ``own`` attempts of each task into a collect run; returns the success of both."""
    environment = environment_from(config.env)
    engine, renderer = load_engine(config.model)
    tasks = draw_balanced(environment.tasks(config.env.train_split), config.collect.tasks, config.seed)
    run.begin(config, "collect", **model_facts(config.model, renderer))
    success = {}
    for name, player, attempts, first in (("expert", ExpertEngine(renderer), expert, 0), ("own", engine, own, expert)):
        with clock.phase(f"play_{name}"):
            groups = collect_groups(player, environment, renderer, config.rollout, tasks, attempts, seed=config.seed)
        played = [replace(t, attempt=t.attempt + first) for group in groups for t in group.attempts_G]
        write_part(run.trajectories, f"c{first:04d}", played)
        success[name] = float(np.mean([t.won for t in played])) if played else 0.0
    return success


def held_out_of(run: Run, config: Config, renderer: Renderer) -> list[Trajectory]:
    """The episodes that ``fine_tune`` will hold out and analyse after each epoch."""
    trajectories = read_collected(run)
    rows = build_rows(trajectories, {s.trajectory: s for s, _ in read_skills(run.skills)}, renderer)
    rows, _ = within(rows, config.sft.max_tokens, config.sft.too_long)
    return held_out(trajectories, split_rows(rows, config.sft.validation, config.seed)[1], config.sft.eval_trajectories)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=Path("runs/stage1-lm"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--expert", type=int, default=6, help="attempts a task by the scripted player")
    parser.add_argument("--own", type=int, default=2, help="attempts a task by the model itself")
    args = parser.parse_intermixed_args()
    settings = [*DEFAULTS, f"model.path={args.model}", f"model.device={args.device}", *args.overrides]
    config, clock = load_config("smollm2", settings), Clock()
    shutil.rmtree(args.out, ignore_errors=True)
    collected, tuned = Run.new(args.out / "collect"), Run.new(args.out / "sft")

    success = play(collected, config, args.expert, args.own, clock)
    with clock.phase("annotate"):
        annotate.annotate(collected, config, "rules")
    with clock.phase("before"):
        engine, renderer = load_engine(config.model)
        asked = held_out_of(collected, config, renderer)
        before = analysis_quality(engine, renderer, asked, config.analyzer)
        del engine
    with clock.phase("sft"):
        sft.fine_tune(tuned, config, collected, report=lambda row: print(json.dumps(row), flush=True))
    with clock.phase("after"):
        saved = config.model.model_copy(update={"path": str(latest_checkpoint(tuned.checkpoints))})
        after = analysis_quality(*load_engine(saved), asked, config.analyzer)
    report = {
        "settings": {"dtype": config.model.dtype, "seed": config.seed, **config.sft.model_dump()},
        "success": success,
        "set": json.loads((tuned.path / "sft_set.json").read_text("utf-8")),
        "before": before,
        "epochs": tuned.history(),
        "after": after,
        "seconds": {name: round(value, 1) for name, value in clock.seconds.items()},
        "seconds_in_all": round(sum(clock.seconds.values()), 1),
    }
    (args.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
