"""Records that do not hold are refused even if every hash on the page agrees with them: the page was made again too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small import Made

from seedbed.tracks.base import Finding
from seedbed.tracks.paged import PagedStep
from seedbed.train.model import resolve

Spoil = Callable[[Path], object]


def forged(made: Made, tmp_path: Path, name: str, spoil: Spoil) -> Finding:
    """The judgement of step ``name`` after ``spoil``, with a page whose hashes were brought up to date."""
    folder, step = tmp_path / "forged", made.step(name)
    shutil.copytree(made.folder, folder)
    spoil(folder)
    page, _, _ = (folder / step.page).read_text("utf-8").partition("## Records")
    body = page.partition(f"Done when: {step.done_when}")[2]
    (folder / step.page).write_text(step.text(folder, body), "utf-8")
    return step.check(folder)


def lines(name: str, change: Callable[[dict[str, Any]], None], first: bool = True) -> Spoil:
    """Change the first line (or all lines) of a JSONL file."""

    def spoil(folder: Path) -> None:
        rows = [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
        for row in rows[:1] if first else rows:
            change(row)
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    return spoil


def whole(name: str, change: Callable[[Any], None]) -> Spoil:
    def spoil(folder: Path) -> None:
        content = json.loads((folder / name).read_text("utf-8"))
        change(content)
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", "utf-8")

    return spoil


def arrays(name: str, key: str, change: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    def spoil(folder: Path) -> None:
        held = load_file(folder / name)
        save_file({**held, key: change(held[key])}, folder / name)

    return spoil


def every_other_token(values: np.ndarray) -> np.ndarray:
    out = values.copy()
    out[::2] += 1
    return out


def a_skill(line: dict[str, Any]) -> None:
    for turn in line["turns"]:
        turn["prompt"] = [[slot, "always win" if slot == "skill" else text] for slot, text in turn["prompt"]]


def other_kind(line: dict[str, Any]) -> None:
    line["kind"] = {"workflow": "avoidance", "avoidance": "workflow"}[line["kind"]]


def other_weights(folder: Path) -> None:
    path = folder / "exported" / "model.safetensors"
    held = load_file(path)
    save_file({name: value + np.float32(0.01) for name, value in held.items()}, path, {"format": "pt"})


MECHANISM = {
    "advantages that differ within an episode": (
        "gap",
        arrays("gap/trajectories/u0000.safetensors", "advantage", every_other_token),
    ),
    "scores that no policy gives": ("gap", arrays("gap/trajectories/u0000.safetensors", "skill", lambda v: v - 0.01)),
    "a skill against the outcome": ("stage1", lines("collect/skills.jsonl", other_kind)),
    "a base policy's weights as the checkpoint": (
        "stage1",
        lambda folder: shutil.copytree(resolve("tiny"), folder / "sft/checkpoints/u0001/policy", dirs_exist_ok=True),
    ),
    "an OPD loss that its tokens do not give": (
        "stage2",
        lines("seed/metrics.jsonl", lambda r: r.update(loss_opd=1e-3)),
    ),
    "an analyzer of another version": ("stage2", lines("seed/skills.jsonl", lambda r: r.update(version=7))),
    "scores that the snapshot does not give": (
        "stage2",
        arrays("seed/trajectories/u0001.safetensors", "ordinary", lambda v: v + 0.01),
    ),
    "a skill in a prompt at deployment": ("boundary", lines("eval/trajectories/e0000.jsonl", a_skill)),
    "the analyzer in the process that played": (
        "boundary",
        whole("eval/modules.json", lambda m: m["loaded"].append("seedbed.skills.analyze")),
    ),
    "exported weights that are not the policy's": ("boundary", other_weights),
    "a better score than was played": (
        "boundary",
        whole("eval/result.json", lambda r: [e.update(won=True) for e in r["episodes"]]),
    ),
}
SMOKE = {
    "another panel than there is": ("pin", whole("pinned.json", lambda p: p["panel"].update(sha256="0" * 64))),
    "an action that was not taken": (
        "vanilla",
        lines("collect/trajectories/c0000.jsonl", lambda t: t["turns"][0].update(action="dance"), first=False),
    ),
    "a return that its turns do not sum to": (
        "vanilla",
        lines("collect/trajectories/c0000.jsonl", lambda t: t.update(reward=3.0)),
    ),
    "a skill against the outcome": ("stage1", lines("collect/skills.jsonl", other_kind)),
    "no OPD loss": ("arms", lines("seed/metrics.jsonl", lambda r: r.update(loss_opd=0.0))),
    "a loss that is not finite": ("arms", lines("grpo/metrics.jsonl", lambda r: r.update(loss_policy=float("nan")))),
    "masks that trained other tokens": ("arms", lines("grpo/metrics.jsonl", lambda r: r.update(tokens_trained=5))),
    "GRPO that distilled": (
        "arms",
        arrays("grpo/trajectories/u0001.safetensors", "skill", lambda v: np.zeros_like(v)),
    ),
}


@pytest.mark.parametrize("case", MECHANISM)
def test_mechanism_refuses(mechanism: Made, tmp_path: Path, case: str) -> None:
    name, spoil = MECHANISM[case]
    finding = forged(mechanism, tmp_path, name, spoil)
    assert finding.state == "failed" and "since" not in finding.why and "says other" not in finding.why, finding.why


@pytest.mark.parametrize("case", SMOKE)
def test_smoke_refuses(smoke: Made, tmp_path: Path, case: str) -> None:
    name, spoil = SMOKE[case]
    finding = forged(smoke, tmp_path, name, spoil)
    assert finding.state == "failed" and "since" not in finding.why and "says other" not in finding.why, finding.why


def test_the_forger_alone_breaks_nothing(track: Made, tmp_path: Path) -> None:
    step: PagedStep = track.steps[0]
    assert forged(track, tmp_path, step.name, lambda folder: None).state == "done"


def test_a_page_with_another_number_is_refused_though_its_hashes_hold(mechanism: Made, tmp_path: Path) -> None:
    folder, step = tmp_path / "copy", mechanism.step("gap")
    shutil.copytree(mechanism.folder, folder)
    page = folder / step.page
    text = page.read_text("utf-8")
    number = str(step.check(folder).evidence["tokens"])
    page.write_text(text.replace(f" {number} sampled tokens", " 7 sampled tokens"), "utf-8")
    assert page.read_text("utf-8") != text and "says other than its records" in step.check(folder).why
