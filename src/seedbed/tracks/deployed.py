"""A process that has nothing but a policy: plays a panel, keeps every prompt, and writes down which modules it loaded.

    python -m seedbed.tracks.deployed POLICY CONFIG OUT

What it imports is what deployment needs: neither skills nor the analyzer nor paired scoring.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import yaml

from seedbed.config import build
from seedbed.envs.base import environment_from
from seedbed.envs.panels import load_panel
from seedbed.evaluate.run import evaluate, keeper
from seedbed.track.store import replace_file
from seedbed.train.model import load_engine, model_facts


def main(policy: str, settings: str, out: str) -> None:
    torch.set_num_threads(1)
    config = build(yaml.safe_load(Path(settings).read_text("utf-8")), settings)
    model = config.model.model_copy(update={"path": policy})
    engine, renderer = load_engine(model)
    result = evaluate(
        engine,
        environment_from(config.env),
        renderer,
        config.rollout,
        load_panel(config.env.panel),
        attempts=config.eval.attempts,
        temperature=config.eval.temperature,
        seed=config.seed,
        keep=keeper(Path(out) / "trajectories"),
    )
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "seedbed")
    for name, content in (("result", result | model_facts(model, renderer)), ("modules", {"loaded": loaded})):
        text = json.dumps(content, indent=1) + "\n"
        replace_file(Path(out) / f"{name}.json", lambda path, text=text: path.write_text(text, "utf-8"))


if __name__ == "__main__":
    main(*sys.argv[1:])
