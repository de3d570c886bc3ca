"""The Stage-1 set as chats for other trainers: the same rows, split and texts, as JSONL and Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from seedbed.config import load_config
from seedbed.prompts.analyzer import standalone
from seedbed.render import Renderer
from seedbed.skills import rules
from seedbed.skills.sft_chats import save_chats
from seedbed.skills.sft_data import SftRow, SftSet, build_rows
from seedbed.track.run import Run
from seedbed.track.store import read_jsonl
from seedbed.train import collect
from seedbed.train.model import load_policy
from seedbed.types import Message


def messages(line: dict) -> list[Message]:
    return [Message(m["role"], m["content"]) for m in line["messages"]]


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Renderer, dict[str, SftRow], Path, list]:
    """A windowed collect run of short episodes, its rows, and the folder the chats were written to."""
    config = load_config(
        "tiny", ["rollout.layout=windowed", "rollout.max_turns=2", "collect.tasks=4", "collect.attempts=1"]
    )
    folder = tmp_path_factory.mktemp("windowed")
    run = Run.new(folder / "collect")
    collect.collect(run, config)
    _, renderer = load_policy(config.model)
    trajectories = collect.read_collected(run)
    skills = {t.id: rules.annotate(t) for t in trajectories}
    rows = build_rows(trajectories, skills, renderer)
    save_chats(folder, SftSet(rows[:3], rows[3:], [], skills), trajectories, run.path)
    return renderer, {r.trajectory: r for r in rows}, folder, trajectories


def test_parquet_reads_back_to_the_very_ids_of_the_rows(windowed) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    renderer, rows, folder, trajectories = windowed
    by_id = {t.id: t for t in trajectories}
    seen = []
    for split, count in (("train", 3), ("val", 1)):
        lines = parquet.read_table(folder / f"sft_{split}.parquet").to_pylist()
        assert len(lines) == count and lines == list(read_jsonl(folder / f"sft_{split}.jsonl"))
        for line in lines:
            row, (user, answer) = rows[line["trajectory"]], messages(line)
            encode = renderer.tokenizer.encode
            ids = [*renderer.open([user]).ids_T, *encode(answer.content, add_special_tokens=False), renderer.stop_id]
            assert np.array_equal(row.ids_T, ids) and line["tokens"] == len(ids)
            assert (user.role, answer.role) == ("user", "assistant")
            assert (line["prompt"], line["response"]) == (user.content, answer.content)
            assert line["prompt"] == standalone(by_id[line["trajectory"]]).text
            assert set(json.loads(line["response"])) == {"episode_summary", "episode_skill"}
            assert line["kind"] == ("workflow" if by_id[line["trajectory"]].won else "avoidance")
            seen.append(line["trajectory"])
    assert sorted(seen) == sorted(rows)


def test_an_sft_run_writes_its_split_and_its_transcripts(stage1) -> None:
    config, _, tuned = stage1
    _, renderer = load_policy(config.model)
    stored = {r["trajectory"]: r for r in read_jsonl(tuned.path / "sft_data.jsonl")}
    tasks: dict[str, set[str]] = {}
    count = 0
    for name, split in (("sft_train", "train"), ("sft_val", "validation")):
        for line in read_jsonl(tuned.path / f"{name}.jsonl"):
            lineage = stored[line["trajectory"]]
            assert lineage["split"] == split
            assert {k: line[k] for k in ("sha256", "task", "tokens")} == {
                k: lineage[k] for k in ("sha256", "task", "tokens")
            }
            assert "prompt" not in line  # a transcript is no single text
            roles = [m["role"] for m in line["messages"]]
            assert roles == ["user", "assistant"] * (len(roles) // 2) and len(roles) >= 4
            assert line["messages"][-1]["content"] == lineage["response"]
            tasks.setdefault(split, set()).add(line["task"])
            count += 1
    assert count == len(stored) == 24 and not tasks["train"] & tasks["validation"]
    text = whole_text(renderer, messages(line))
    ids = next(r for r in rows_of(stage1, renderer) if r.trajectory == line["trajectory"]).ids_T
    assert renderer.tokenizer.decode(ids.tolist(), clean_up_tokenization_spaces=False) == text


def rows_of(stage1, renderer: Renderer) -> Sequence[SftRow]:
    trajectories = collect.read_collected(stage1[1])
    return build_rows(trajectories, {t.id: rules.annotate(t) for t in trajectories}, renderer)


def whole_text(renderer: Renderer, chat: list[Message]) -> str:
    """The chat as the template writes it, up to and with the end of the answer's turn."""
    stop = renderer.tokenizer.decode([renderer.stop_id])
    return renderer.open(chat[:-1]).text + chat[-1].content + stop
