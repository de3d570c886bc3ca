"""Trajectories, skills and scores on disk: JSON lines to read, safetensors for arrays, nothing that runs code.

A part is two files: ``NAME.jsonl`` (one trajectory a line, texts and facts) and ``NAME.safetensors`` (token ids and
per-token values). Both are written beside their place and renamed, so a part is there whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from seedbed.types import Action, Prompt, Skill, StopReason, Task, Trajectory, Turn, UserError, as_dict


@dataclass(frozen=True, slots=True)
class TokenValues:
    """Per-token values of one trajectory's sampled tokens in turn order, float32, NaN where there is none."""

    ordinary_T: np.ndarray
    skill_T: np.ndarray
    advantage_T: np.ndarray


def write_part(
    folder: Path, name: str, trajectories: Sequence[Trajectory], values: Mapping[str, TokenValues] | None = None
) -> None:
    """Store trajectories (and values by trajectory id); in the transcript layout only what each prompt adds."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces: dict[str, list[np.ndarray]] = {
        "prompt_ids": [],
        "response_ids": [],
        "logprobs": [],
        "ordinary": [],
        "skill": [],
        "advantage": [],
    }
    lines = []
    for trajectory in trajectories:
        lines.append(_line(trajectory))
        sampled = trajectory.sampled_tokens
        none = np.full(sampled, np.nan, np.float32)
        value = (values or {}).get(trajectory.id, TokenValues(none, none, none))
        for key in ("ordinary", "skill", "advantage"):
            pieces[key].append(getattr(value, f"{key}_T"))
        for k, turn in enumerate(trajectory.turns_K):
            pieces["prompt_ids"].append(turn.prompt_ids_T[_known(trajectory, k) :])
            pieces["response_ids"].append(turn.response_ids_T)
            pieces["logprobs"].append(turn.logprobs_T)
    kinds = {"prompt_ids": np.int32, "response_ids": np.int32}
    arrays = {
        key: np.concatenate([np.zeros(0), *parts]).astype(kinds.get(key, np.float32)) for key, parts in pieces.items()
    }
    replace_file(folder / f"{name}.safetensors", lambda path: save_file(arrays, path))
    replace_file(
        folder / f"{name}.jsonl",
        lambda path: path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8"),
    )


def read_part(folder: Path, name: str) -> Iterator[tuple[Trajectory, TokenValues]]:
    """Read a part back without model or tokenizer. Raises ``UserError`` naming a missing or damaged file."""
    lines = list(read_jsonl(folder / f"{name}.jsonl"))
    path = folder / f"{name}.safetensors"
    try:
        arrays = load_file(path)
    except Exception as error:
        raise UserError(f"{path} cannot be read ({error}): it belongs to {name}.jsonl beside it") from error
    at = dict.fromkeys(arrays, 0)

    def take(key: str, count: int) -> np.ndarray:
        at[key] += count
        if at[key] > len(arrays[key]):
            raise UserError(f"{path} holds fewer tokens than {name}.jsonl lists: one of the two was changed")
        return arrays[key][at[key] - count : at[key]]

    def read(line: dict[str, Any]) -> tuple[Trajectory, TokenValues]:
        turns: list[Turn] = []
        for turn in line["turns"]:
            new = take("prompt_ids", turn["prompt_new"])
            before = (
                np.concatenate([turns[-1].prompt_ids_T, turns[-1].response_ids_T])
                if turn["extends"]
                else np.zeros(0, np.int32)
            )
            count = turn["response_tokens"]
            turns.append(
                Turn(
                    prompt=Prompt(tuple((a, b) for a, b in turn["prompt"])),
                    prompt_ids_T=np.concatenate([before, new]).astype(np.int32),
                    response_ids_T=take("response_ids", count),
                    logprobs_T=take("logprobs", count),
                    finish=turn["finish"],
                    text=turn["text"],
                    action=Action(turn["action"], turn["valid"]),
                    observation=turn["observation"],
                    reward=turn["reward"],
                    prefix_break=turn["prefix_break"],
                    shortened=turn["shortened"],
                )
            )
        trajectory = Trajectory(
            Task(**line["task"]),
            line["attempt"],
            line["goal"],
            tuple(turns),
            StopReason(line["stop"]),
            line["reward"],
            line["layout"],
            line["version"],
            line["seed"],
            line["cause"],
        )
        if "token_sha256" in line and token_hash(trajectory) != line["token_sha256"]:
            raise UserError(
                f"the tokens of {trajectory.id!r} in {path} are not those that {name}.jsonl was written with"
            )
        n = trajectory.sampled_tokens
        return trajectory, TokenValues(take("ordinary", n), take("skill", n), take("advantage", n))

    for number, line in enumerate(lines, 1):
        try:
            yield read(line)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{folder / name}.jsonl line {number} is not a trajectory of this version of seedbed ({error!r})"
            ) from error


def parts(folder: Path) -> list[str]:
    """Names of the parts in a folder, in order."""
    return sorted(p.stem for p in folder.glob("*.jsonl"))


def skill_hash(skill: Skill) -> str:
    """sha256 of everything a stored skill says: text, kind, raw answer, repairs, author."""
    return sha256(json.dumps(skill_line(skill), sort_keys=True).encode()).hexdigest()


def token_hash(trajectory: Trajectory) -> str:
    """sha256 of what an episode saw and drew, turn by turn: ids and log-probs."""
    digest = sha256()
    for turn in trajectory.turns_K:
        for ids_T in (turn.prompt_ids_T, turn.response_ids_T):
            digest.update(len(ids_T).to_bytes(8, "little") + ids_T.astype("<i4").tobytes())
        digest.update(turn.logprobs_T.astype("<f4").tobytes())
    return digest.hexdigest()


def skill_line(skill: Skill, **extra: Any) -> dict[str, Any]:
    """One line of ``skills.jsonl``; ``steps`` only where there are step skills."""
    line = {**extra, **as_dict(skill), "repairs": list(skill.repairs)}
    if not line.pop("steps"):
        return line
    return {**line, "steps": [list(step) for step in skill.steps]}


def read_skills(path: Path) -> list[tuple[Skill, dict[str, Any]]]:
    """Skills of a ``skills.jsonl`` with the other keys of their lines."""
    names = set(Skill.__dataclass_fields__)
    out = []
    for line in read_jsonl(path):
        known = {k: tuple(v) if k == "repairs" else v for k, v in line.items() if k in names}
        if "steps" in known:
            known["steps"] = tuple((int(turn), str(text)) for turn, text in known["steps"])
        if not {"trajectory", "kind", "status"} <= known.keys():
            raise UserError(f"{path} holds a line that is no skill: it lacks trajectory, kind or status")
        out.append((Skill(**known), {k: v for k, v in line.items() if k not in names}))
    return out


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a JSONL file, less an unfinished last one (a killed writer). Raises ``UserError`` for anything else."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise UserError(f"{path} line {number} is not JSON: {getattr(error, 'msg', error)}") from error


def append_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append lines, after dropping an unfinished last one (a killed writer): no record is glued to a torn one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as out:
        end = out.seek(0, os.SEEK_END)
        while end:
            begin = max(end - 65536, 0)
            out.seek(begin)
            whole = out.read(end - begin).rfind(b"\n") + 1
            end = begin + whole
            if whole or not begin:
                break
        out.truncate(end)
        out.write("".join(json.dumps(row) + "\n" for row in rows).encode())


def replace_file(path: Path, write: Any) -> None:
    """Let ``write(temporary path)`` make the file, then put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    write(temporary)
    os.replace(temporary, path)


def _known(trajectory: Trajectory, k: int) -> int:
    """How many of turn ``k``'s prompt ids are the previous prompt plus response."""
    if k == 0 or trajectory.layout == "windowed" or trajectory.turns_K[k].prefix_break:
        return 0
    before = trajectory.turns_K[k - 1]
    return len(before.prompt_ids_T) + len(before.response_ids_T)


def _line(trajectory: Trajectory) -> dict[str, Any]:
    turns = [
        {
            "prompt": turn.prompt.slots,
            "text": turn.text,
            "action": turn.action.text,
            "valid": turn.action.valid,
            "observation": turn.observation,
            "reward": turn.reward,
            "finish": turn.finish,
            "prefix_break": turn.prefix_break,
            "shortened": turn.shortened,
            "extends": _known(trajectory, k) > 0,
            "prompt_new": len(turn.prompt_ids_T) - _known(trajectory, k),
            "response_tokens": len(turn.response_ids_T),
        }
        for k, turn in enumerate(trajectory.turns_K)
    ]
    return {
        "id": trajectory.id,
        "task": as_dict(trajectory.task),
        "attempt": trajectory.attempt,
        "goal": trajectory.goal,
        "stop": trajectory.stop.value,
        "reward": trajectory.reward,
        "layout": trajectory.layout,
        "version": trajectory.version,
        "seed": trajectory.seed,
        "cause": trajectory.cause,
        "token_sha256": token_hash(trajectory),
        "turns": turns,
    }
