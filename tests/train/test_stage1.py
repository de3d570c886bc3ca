"""Stage 1 from games to a checkpoint on the shipped tiny model, and what Stage 2 takes over from it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from seedbed.config import load_config
from seedbed.skills.analyze import analyze
from seedbed.skills.sft_data import build_rows, load_rows
from seedbed.track.run import Run
from seedbed.track.store import append_jsonl, read_jsonl, read_skills
from seedbed.train import annotate, collect, sft
from seedbed.train.interrupt import Stopped
from seedbed.train.model import load_engine
from seedbed.train.rl import Trainer
from seedbed.train.state import latest_checkpoint
from seedbed.types import UserError
from seedbed.view.trace import print_trace


def test_rows_train_the_answer_and_the_own_actions_and_nothing_else(stage1) -> None:
    config, collected, tuned = stage1
    _, renderer = load_engine(config.model)
    skills = {s.trajectory: s for s, _ in read_skills(collected.skills)}
    trajectories = collect.read_collected(collected)
    rows = build_rows(trajectories, skills, renderer)
    assert len(rows) == len(trajectories) == 24
    for row, trajectory in zip(rows, trajectories, strict=True):
        answer = renderer.tokenizer.decode(row.ids_T[row.answer_T].tolist())
        assert json.loads(answer.removesuffix("<|end|>")) == {
            "episode_summary": skills[row.trajectory].summary,
            "episode_skill": skills[row.trajectory].text,
        }
        assert answer.endswith("<|end|>") and row.answer_T[-1] and not (row.answer_T & row.action_T).any()
        own = np.concatenate([turn.response_ids_T for turn in trajectory.turns_K])
        assert np.array_equal(row.ids_T[row.action_T], own)
    stored = {r.trajectory: r for r in load_rows(tuned.path)}
    for row in rows:
        if row.trajectory in stored:
            assert np.array_equal(stored[row.trajectory].ids_T, row.ids_T)
            assert np.array_equal(stored[row.trajectory].answer_T, row.answer_T)
    held = {line["task"] for line in read_jsonl(tuned.path / "sft_data.jsonl") if line["split"] == "validation"}
    assert held and not held & {r.task for r in stored.values()}  # split by task, never by sample


def test_it_learns_and_every_sample_can_be_traced(stage1) -> None:
    _, _, tuned = stage1
    first, last = tuned.history()
    assert last["validation_loss"] < first["validation_loss"] < 1  # the base model starts near 2
    console = Console(record=True, width=200, file=open(os.devnull, "w"))  # noqa: SIM115
    print_trace(console, tuned.path, 0)
    line = next(read_jsonl(tuned.path / "sft_data.jsonl"))
    assert line["task"] in console.export_text()


def test_an_analysis_is_greedy(stage1) -> None:
    config, collected, tuned = stage1
    engine, renderer = load_engine(config.model.model_copy(update={"path": str(latest_checkpoint(tuned.checkpoints))}))
    trajectories = collect.read_collected(collected)[:6]
    other = [type(t)(*(getattr(t, f) if f != "seed" else 7 for f in t.__dataclass_fields__)) for t in trajectories]
    raw = [[s.raw for s in analyze(engine, renderer, ts, config.analyzer).values()] for ts in (trajectories, other)]
    assert raw[0] == raw[1]


def test_annotation_survives_a_torn_line_and_refuses_a_second_author(stage1, tmp_path: Path) -> None:
    import shutil

    config, collected, _ = stage1
    shutil.copytree(collected.path, tmp_path / "c")
    run = Run.open(tmp_path / "c")
    whole = run.skills.read_bytes()
    run.skills.write_bytes(whole[: len(whole) // 2])
    annotate.annotate(run, config, "rules")
    assert {s.trajectory for s, _ in read_skills(run.skills)} == {t.id for t in collect.read_collected(run)}
    assert len(read_skills(run.skills)) == 24
    with pytest.raises(UserError, match="holds skills by rules"):
        annotate.annotate(run, config, "policy")


def test_appending_never_glues_to_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for torn in (b"", b'{"a": 1}\n', b'{"a": 1}\n{"b', b'{"b', b'{"a": 1}\n' + b'{"long": "' + b"x" * 200_000):
        path.write_bytes(torn)
        append_jsonl(path, [{"c": 3}])
        assert list(read_jsonl(path)) == ([{"a": 1}] if b"\n" in torn else []) + [{"c": 3}]


def test_stage_2_resumes_to_the_bit_with_warm_up_rehearsal_and_temperature(stage1, tmp_path: Path) -> None:
    _, _, tuned = stage1
    settings = load_config("tiny", [
        f"model.path={latest_checkpoint(tuned.checkpoints)}", "train.updates=3", "train.tasks=3", "train.attempts=3",
        "train.minibatch_rows=20", "train.rehearsal_rows=3", "train.warmup=7", "train.checkpoint_every=2",
        "rollout.temperature=0.7", "rollout.max_turns=5", "algo.coefficient=0.5",
    ])  # fmt: skip
    straight = Trainer(Run.new(tmp_path / "a"), settings)
    reference = {k: v.clone() for k, v in straight.reference.model.state_dict().items()}
    straight.train()
    assert all(torch.equal(v, reference[k]) for k, v in straight.reference.model.state_dict().items())
    history = Run.open(tmp_path / "a").history()
    assert history[0]["kl"] < history[-1]["kl"] and history[-1]["loss_rehearsal"] > 0
    assert history[0]["sampler_diff_max"] < 1e-4  # sampler and scorer share the temperature

    first = Trainer(Run.new(tmp_path / "b"), settings)

    def interrupt(row: dict) -> None:
        if row["update"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped, match="after update 2 of 3|after update 1 of 3"):
        first.train(interrupt)
    second = Trainer(Run.open(tmp_path / "b"), Run.open(tmp_path / "b").config)
    second.resume()
    assert second.done in (1, 2) and second.steps > 0
    second.train()
    a, b = (load_file(latest_checkpoint(tmp_path / n / "checkpoints") / "policy" / "model.safetensors") for n in "ab")
    assert all(torch.equal(a[k], b[k]) for k in a)
    rows = [[{k: v for k, v in r.items() if k != "seconds"} for r in Run.open(tmp_path / n).history()] for n in "ab"]
    assert rows[0] == rows[1]


def test_a_run_stopped_before_its_first_checkpoint_begins_again(stage1, tmp_path: Path) -> None:
    _, _, tuned = stage1
    settings = load_config("tiny", ["train.updates=1", "train.tasks=2", "train.attempts=2", "rollout.max_turns=3"])
    settings = settings.model_copy(update={"model": settings.model.model_copy(
        update={"path": str(latest_checkpoint(tuned.checkpoints))})})  # fmt: skip
    Run.new(tmp_path / "r").begin(settings, "train")
    trainer = Trainer(Run.open(tmp_path / "r"), settings)
    trainer.resume()
    trainer.train()
    assert latest_checkpoint(tmp_path / "r" / "checkpoints").name == "u0001"


def test_another_tokenizer_is_refused(stage1, tmp_path: Path) -> None:
    import shutil

    from seedbed.train.model import resolve

    _, collected, _ = stage1
    shutil.copytree(resolve("tiny"), tmp_path / "other")
    path = tmp_path / "other" / "chat_template.jinja"
    path.write_text(path.read_text().replace("{{", "{{ '' + ", 1))
    changed = load_config("tiny", [f"model.path={tmp_path / 'other'}"])
    with pytest.raises(UserError, match="another tokenizer or chat template"):
        sft.fine_tune(Run.new(tmp_path / "sft"), changed, collected)
