"""Step 4: what is left at deployment? The exported policy plays in a process of its own, and every prompt is kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.evaluate.run import summarise, transcripts_hash
from seedbed.prompts.analyzer import continuation, standalone
from seedbed.prompts.base import SKILL_HEADING, STEP_HEADING
from seedbed.render import chat_of
from seedbed.track.store import parts, read_part
from seedbed.tracks import chain
from seedbed.tracks.again import engine_of
from seedbed.tracks.paged import PagedStep, quoted, require, say, table
from seedbed.train.model import folder_hashes
from seedbed.types import Trajectory, UserError
from seedbed.view.rundir import read_json

ABSENT = ("seedbed.skills", "seedbed.prompts.analyzer", "seedbed.scoring")  #: modules that deployment never loads


class Boundary(PagedStep):
    name = "boundary"
    title = "The inference boundary: the exported policy plays without analyzer, skills and skill prompts"
    done_when = (
        "the exported files are the last checkpoint's, no prompt that the policy received holds a skill or a request "
        "to analyse, and the process that played never loaded the code of either"
    )
    needs = ("stage2",)
    page = "inference_boundary.md"
    makes = ("exported", "eval")

    def make(self, folder: Path) -> None:
        shutil.copytree(chain.last_policy(folder / "seed"), folder / "exported")
        say("boundary", "the exported policy plays its panel, in a process of its own")
        words = ["exported", "seed/config.resolved.yaml", "eval"]
        command = [sys.executable, "-m", "seedbed.tracks.deployed", *(str(folder / word) for word in words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise UserError(f"the exported policy could not be played: {said}")

    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        policy, result = chain.last_policy(folder / "seed"), read_json(folder / "eval" / "result.json")
        exported = folder_hashes(folder / "exported")
        require(exported == folder_hashes(policy), f"exported/ is not the policy of seed/{policy.parent.name}")
        require(result["model"] == exported, "eval/result.json is of other weights than exported/")
        kept = folder / "eval" / "trajectories"
        played = [t for name in parts(kept) for t, _ in read_part(kept, name)]
        require(bool(played) and transcripts_hash(played) == result["transcripts_hash"], "eval/ kept other episodes")
        of_result = [(e["task"], e["attempt"], e["won"], e["turns"]) for e in result["episodes"]]
        require(of_result == [(t.task.id, t.attempt, t.won, len(t.turns_K)) for t in played], "eval/ counts otherwise")
        summary = summarise(result["episodes"])
        require(summary.items() <= result["summary"].items(), "eval/result.json sums its episodes up wrongly")
        prompts, tokens = _prompts_hold_nothing(folder, played)
        loaded = read_json(folder / "eval" / "modules.json")["loaded"]
        require("seedbed.evaluate.run" in loaded, "eval/modules.json is not of a process that evaluated")
        taught = [name for name in loaded if name.startswith(ABSENT)]
        require(not taught, f"the process that played had loaded {', '.join(taught)}")
        micro, example = summary["micro"], min(played, key=lambda t: (not t.won, len(t.turns_K)))
        body = "\n\n".join(
            [
                table(
                    ("what was looked at", "found"),
                    [
                        ("exported files, all equal to the last checkpoint's", len(exported)),
                        ("prompts the policy received, as token ids", f"{prompts}, {tokens} tokens"),
                        ("... with a filled skill slot", 0),
                        ("... with the heading of a skill", 0),
                        ("... with a request to analyse", 0),
                        ("modules of seedbed loaded by the process that played", len(loaded)),
                        ("... of skills, analyzer or paired scoring", 0),
                    ],
                ),
                f"Success on `{result['panel']}` at temperature {result['temperature']:g}: {micro['value']:.1%} "
                f"(95 % interval {micro['low']:.1%} to {micro['high']:.1%}, {summary['n_tasks']} tasks). A tiny model "
                "on generated games: not comparable with the paper.",
                f"The last prompt of `{example.id}` ({example.stop.value}), everything that the policy was given:",
                quoted(engine_of(folder / "exported")[1].tokenizer.decode(example.turns_K[-1].prompt_ids_T.tolist())),
            ]
        )
        evidence = {
            "prompts": prompts,
            "prompt_tokens": tokens,
            "modules_loaded": len(loaded),
            "success": micro["value"],
            "panel": result["panel"],
            "transcripts": result["transcripts_hash"],
        }
        return body, evidence


def _prompts_hold_nothing(folder: Path, played: list[Trajectory]) -> tuple[int, int]:
    """(prompts, tokens) of an evaluation. Raises ``Broken`` at a prompt with anything of skills or the analyzer.

    Token ids are decoded, and must be the rendering of the stored slots and nothing more. A prompt whose ids the next
    one begins with is read there.
    """
    renderer, prompts, tokens = engine_of(folder / "exported")[1], 0, 0
    for trajectory in played:
        asked = [dict(make(trajectory).slots)["request"] for make in (continuation, standalone)]
        later = np.zeros(0, np.int32)
        for k, turn in reversed(list(enumerate(trajectory.turns_K))):
            where, ids = f"prompt {k} of {trajectory.id}", turn.prompt_ids_T
            slots = dict(turn.prompt.slots)
            require(not slots.get("skill") and "step_skill" not in slots, f"{where} has a skill in its slot")
            if not np.array_equal(later[: len(ids)], ids):
                text = renderer.tokenizer.decode(ids.tolist(), skip_special_tokens=False)
                require(
                    text == renderer.open(chat_of(trajectory, k)).text, f"{where} is not the rendering of its slots"
                )
                found = [words for words in (SKILL_HEADING, STEP_HEADING, *asked) if words in text]
                require(not found, f"{where} holds {found[:1]}")
            later, prompts, tokens = ids, prompts + 1, tokens + len(ids)
    return prompts, tokens
