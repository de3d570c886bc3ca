"""The stages that both CPU tracks make, as ordinary runs, with a line of progress each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seedbed.config import Config
from seedbed.track.run import Run
from seedbed.track.store import replace_file
from seedbed.track.topology import topology
from seedbed.tracks.paged import Broken, require, say
from seedbed.train import annotate, collect, sft
from seedbed.train.rl import Trainer
from seedbed.train.state import latest_checkpoint
from seedbed.types import Trajectory
from seedbed.view.topology_svg import svg_file
from seedbed.view.trace import Lineage, check_traces


def play(folder: Path, config: Config) -> None:
    """``collect/``: the base policy plays."""

    def report(done: int, total: int, success: float | None) -> None:
        if success is not None:
            say("collect", f"{done}/{total} episodes, success {success:.0%}")

    say("collect", f"{config.collect.tasks} tasks, {config.collect.attempts} attempts each")
    collect.collect(Run.new(folder / "collect"), config, report)


def teach(folder: Path, config: Config) -> None:
    """Skills of ``collect/`` by rules, then ``sft/``."""
    collected = Run.open(folder / "collect", "collect")
    written = annotate.annotate(collected, config, "rules")
    say("annotate", f"{written['annotated']} skills by rules")

    def report(row: dict[str, Any]) -> None:
        parsed = "-" if row["parse_rate"] is None else f"{row['parse_rate']:.0%}"
        say("sft", f"epoch {row['update']}/{config.sft.epochs}, loss {row['loss']:.3f}, its analyses parse {parsed}")

    sft.fine_tune(Run.new(folder / "sft"), config, collected, report=report)


def reinforce(folder: Path, name: str, config: Config) -> None:
    """``NAME/``: reinforcement learning with ``config.algo`` from ``config.model``."""

    def report(row: dict[str, Any]) -> None:
        words = f"update {row['update']}/{config.train.updates}, success {row['success']:.0%}"
        if "opd_active" in row:
            words += f", OPD loss {row['loss_opd']:+.2e}, analyses parse {row['skill_parse_rate']:.0%}"
        say(name, words)

    say(name, f"{config.train.updates} updates of {config.train.tasks} tasks x {config.train.attempts} attempts")
    Trainer(Run.new(folder / name), config).train(report)


def start_of(folder: Path) -> str:
    """``model.path=...`` of the policy that Stage 1 left, for the arms."""
    return f"model.path={json.dumps(str(last_policy(folder / 'sft').parent))}"


def last_policy(run: Path) -> Path:
    """The weights of a run's newest checkpoint. Raises ``Broken``."""
    newest = latest_checkpoint(run / "checkpoints")
    if newest is None:
        raise Broken(f"{run.name}/ holds no checkpoint")
    return newest / "policy"


def complete(trajectory: Trajectory) -> None:
    """Raises ``Broken`` unless the record has observation, action, reward and outcome, and they agree."""
    where = f"the record of {trajectory.id}"
    require(bool(trajectory.turns_K) or trajectory.faulty, f"{where} holds no turn")
    for k, turn in enumerate(trajectory.turns_K):
        last = k + 1 == len(trajectory.turns_K)
        require(bool(dict(turn.prompt.slots).get("observation")), f"turn {k} of {where} shows no observation")
        require(len(turn.response_ids_T) > 0, f"turn {k} of {where} holds no sampled token")
        require(bool(turn.action.text) or not turn.action.valid, f"turn {k} of {where} has a valid action without text")
        cut = last and (trajectory.stop == "truncated_turn" or trajectory.faulty)
        require(bool(turn.observation) or cut, f"turn {k} of {where} has no answer of the game")
    total = sum(turn.reward for turn in trajectory.turns_K)
    require(trajectory.reward == total, f"{where} has return {trajectory.reward:g}, its turns sum to {total:g}")


def drawing(folder: Path, *runs: str) -> str:
    """Who did what in some runs, from their records alone, as SVG."""
    return svg_file(topology([folder / run for run in runs]))


def draw(folder: Path, name: str, *runs: str) -> None:
    """The file ``name`` with ``drawing``."""
    text = drawing(folder, *runs)
    replace_file(folder / name, lambda path: path.write_text(text, "utf-8"))


def drawn(folder: Path, name: str, *runs: str) -> None:
    """Raises ``Broken`` unless the file ``name`` is what the runs give."""
    require((folder / name).read_text("utf-8") == drawing(folder, *runs), f"{name} is not the graph of its runs")


def traced(folder: Path, count: int) -> Lineage:
    """The lineage of ``sft/``, ``count`` of its rows followed to their task. Raises ``UserError`` at a broken link."""
    check_traces(folder / "sft", count)
    return Lineage(folder / "sft")
