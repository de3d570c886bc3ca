"""``seedbed train``: Stage 2."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from seedbed.commands.options import ConfigOption, Overrides, Threads
from seedbed.commands.stage1 import Out, Resume, open_run
from seedbed.repro.paper_diff import diff_lines
from seedbed.train.rl import Trainer
from seedbed.view.report import write_report

_out = Console(highlight=False)


def train(
    overrides: Overrides = None,
    config: ConfigOption = None,
    out: Out = None,
    resume: Resume = None,
    threads: Threads = 1,
) -> None:
    """Train with GRPO or SEED. Ctrl-C saves and stops; go on with --resume.

    Examples:

      seedbed train model.path=runs/sft/checkpoints/u0003 --out runs/seed

      seedbed train model.path=runs/sft/checkpoints/u0003 algo=grpo --out runs/grpo

      seedbed train --resume runs/seed
    """
    run, settings = open_run("train", overrides, config, out, resume, threads)
    trainer = Trainer(run, settings)
    if resume:
        trainer.resume()
    else:
        for different in diff_lines(settings):
            _out.print(f"differs: {different}", style="dim", markup=False)
    trainer.train(lambda row: _out.print(line(row, settings.train.updates), soft_wrap=True))
    _out.print(f"done; report: {write_report(run.path)}")


def line(row: dict[str, Any], updates: int) -> str:
    """One readable line about an update."""
    parts = [
        f"update {row['update']:>3}/{updates}",
        f"success {row['success']:.1%}",
        f"length {row['episode_length']:.1f}",
        f"valid {row['valid_actions']:.0%}",
        f"loss {row['loss_total']:+.4f}",
        f"entropy {row.get('entropy', 0):.3f}",
        f"clip {row.get('clip_share', 0):.1%}",
    ]
    if "kl" in row:
        parts.append(f"kl {row['kl']:.4f}")
    if "skill_parse_rate" in row:
        parts += [
            f"parse {row['skill_parse_rate']:.0%}",
            f"opd {row['opd_active']:.0%}",
            f"|gap| {row.get('gap_abs', 0):.3f}",
            f"gate {row.get('gate_mean', 0):.3f}",
        ]
    parts.append(f"{sum(row['seconds'].values()):.1f} s")
    if "eval" in row:
        e = row["eval"]
        parts.append(
            f"eval T={e['temperature']}: {e['micro']['value']:.1%} [{e['micro']['low']:.1%}, {e['micro']['high']:.1%}]"
        )
    return "  ".join(parts) + "".join(f"\n  [yellow]warning: {w}[/]" for w in row["warnings"])
