"""Stage-1 rows as chats, for other trainers: ``sft_train`` and ``sft_val`` as JSONL, and as Parquet with pyarrow.

veRL's SFT trainer reads ``messages`` (``data.messages_key``) and trains every assistant message in it. In the windowed
layout, the paper's, that is the answer alone; its older trainer reads the columns ``prompt`` and ``response`` of the
same two texts. In the transcript layout the chat holds the episode's own responses too, which such a trainer would
train along, and no single prompt text exists, so those two columns are left out. Where a text holds a control token
(``<|im_end|>`` written by a policy, say), a trainer that does not neutralise it makes other ids of it than ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seedbed.prompts.analyzer import answer_text, continuation, standalone
from seedbed.render import chat_of
from seedbed.skills.sft_data import SftRow, SftSet, trajectory_hashes
from seedbed.track.store import replace_file
from seedbed.types import Message, Trajectory


def analyzer_chat(trajectory: Trajectory, steps: int = 0) -> list[Message]:
    """The messages behind ``analyzer_context``."""
    if trajectory.layout == "windowed" or steps:
        return [Message("user", standalone(trajectory, steps).text)]
    last = len(trajectory.turns_K) - 1
    played = [*chat_of(trajectory, last), Message("assistant", trajectory.turns_K[last].text)]
    return [*played, Message("user", continuation(trajectory).text)]


def save_chats(folder: Path, rows: SftSet, trajectories: Sequence[Trajectory], collect_dir: Path) -> list[str]:
    """Write both splits; returns the names of the files."""
    by_id = {t.id: t for t in trajectories}
    hashes = trajectory_hashes(collect_dir)
    names = []
    for split, part in (("train", rows.train), ("val", rows.validation)):
        lines = [_line(row, by_id[row.trajectory], rows, hashes[row.trajectory]) for row in part]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        names.append(f"sft_{split}.jsonl")
        replace_file(folder / names[-1], lambda path, text=text: path.write_text(text, "utf-8"))
        if lines and find_spec("pyarrow"):
            names.append(f"sft_{split}.parquet")
            _write_parquet(folder / names[-1], lines)
    return names


def _line(row: SftRow, trajectory: Trajectory, rows: SftSet, sha256: str) -> dict[str, Any]:
    skill = rows.skills[row.trajectory]
    chat, answer = analyzer_chat(trajectory, rows.steps), answer_text(skill, rows.steps)
    chat = [Message(m.role, m.content.encode("utf-8", "replace").decode()) for m in chat]  # lone surrogates, as encoded
    messages = [{"role": m.role, "content": m.content} for m in [*chat, Message("assistant", answer)]]
    return {
        "messages": messages,
        **({"prompt": chat[0].content, "response": answer} if len(chat) == 1 else {}),
        "trajectory": row.trajectory,
        "task": row.task,
        "kind": skill.kind,
        "skill_source": skill.source,
        "sha256": sha256,
        "tokens": len(row.ids_T),
    }


def _write_parquet(path: Path, lines: list[dict[str, Any]]) -> None:
    import pyarrow  # noqa: PLC0415 - an extra
    from pyarrow.parquet import write_table  # noqa: PLC0415

    replace_file(path, lambda p: write_table(pyarrow.Table.from_pylist(lines), p))
