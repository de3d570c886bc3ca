"""Fine-tuning runs: resumed to the bit (all weights, bfloat16, LoRA), float32 on disk, the best and the last kept."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from seedbed.config import Config, build, load_config
from seedbed.engines.base import ScoreRow
from seedbed.engines.forward import selected_logits
from seedbed.skills.kinds import text_kind
from seedbed.skills.sft_data import build_rows
from seedbed.track.run import Run
from seedbed.track.store import read_jsonl, read_skills
from seedbed.train import collect, lora, sft
from seedbed.train.interrupt import Stopped
from seedbed.train.model import load_policy
from seedbed.train.rl import Trainer
from seedbed.train.sft_eval import analysis_quality, engine_of, held_out, held_out_loss
from seedbed.train.state import latest_checkpoint
from seedbed.types import UserError


def settings(base: Config, model: dict | None = None, **changes: object) -> Config:
    """Few rows and short analyses, unless a test asks for more."""
    data = base.model_dump()
    few = {
        "epochs": 2,
        "batch_rows": 2,
        "max_tokens": 170,
        "too_long": "drop",
        "validation": 0.5,
        "eval_trajectories": 2,
    }
    data["sft"] |= few | changes
    data["analyzer"]["max_new_tokens"] = 12
    data["model"] |= model or {}
    return build(data, "a test")


def interrupted(run: Run, config: Config, collected: Run) -> None:
    """Ctrl-C during the first epoch, then ``--resume``."""
    with pytest.raises(Stopped, match="after epoch 1 of"):
        sft.fine_tune(run, config, collected, report=lambda row: os.kill(os.getpid(), signal.SIGINT))
    again = Run.open(run.path, "sft")
    sft.fine_tune(again, again.config, collected, resume=True)


@pytest.mark.parametrize("how", ["all weights", "bfloat16", "lora"])
def test_a_resumed_run_equals_one_in_one_go(stage1, tmp_path: Path, how: str) -> None:
    if how == "lora":
        pytest.importorskip("peft")
    base, collected, _ = stage1
    config = settings(
        base,
        {"dtype": "bfloat16"} if how == "bfloat16" else {},
        lora_rank=4 if how == "lora" else 0,
        checkpointing=how != "all weights",
        rehearsal=0.0 if how == "bfloat16" else 1.0,
    )
    straight, stopped = Run.new(tmp_path / "a"), Run.new(tmp_path / "b")
    sft.fine_tune(straight, config, collected)
    interrupted(stopped, config, collected)
    assert straight.history() == stopped.history() and len(straight.history()) == 2
    assert (straight.path / "best.json").read_bytes() == (stopped.path / "best.json").read_bytes()
    files = [
        "policy/model.safetensors",
        "optimizer.safetensors",
        *(["adapter/adapter_model.safetensors"] if how == "lora" else []),
    ]
    for name in files:
        a, b = (load_file(latest_checkpoint(run.checkpoints) / name) for run in (straight, stopped))
        assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a), name
    weights = load_file(latest_checkpoint(straight.checkpoints) / "policy" / "model.safetensors")
    start, _ = load_policy(config.model)
    moved = [k for k, v in start.named_parameters() if not torch.equal(v.float(), weights[k])]
    assert {v.dtype for v in weights.values()} == {torch.float32}
    assert any(not torch.equal(v, v.bfloat16().float()) for v in weights.values())  # and not rounded on the way
    if how == "lora":
        assert moved and all(".self_attn." in k or ".mlp." in k for k in moved)
    else:
        assert len(moved) == len(dict(start.named_parameters()))


def test_stage_2_still_wants_float32(stage1, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="bfloat16 cannot be trained"):
        Trainer(Run.new(tmp_path / "r"), settings(stage1[0], {"dtype": "bfloat16"}))


def test_lora_saves_a_plain_policy_and_a_plain_adapter(stage1, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    base, collected, _ = stage1
    config = settings(base, lora_rank=4, epochs=1)
    run = Run.new(tmp_path / "a")
    sft.fine_tune(run, config, collected)
    checkpoint = latest_checkpoint(run.checkpoints)
    ids = torch.arange(3, 40)[None]
    plain = AutoModelForCausalLM.from_pretrained(checkpoint / "policy").eval()
    assert not any("lora" in name for name, _ in plain.named_parameters())
    start, _ = load_policy(config.model)
    start.set_attn_implementation("sdpa")
    with torch.no_grad():
        before = start(ids).logits
        merged, adapted = plain(ids).logits, peft.PeftModel.from_pretrained(start, checkpoint / "adapter")(ids).logits
    torch.testing.assert_close(merged, adapted, atol=1e-4, rtol=1e-4)
    assert (merged - before).abs().max() > 1e-2


def test_an_adapter_starts_as_no_change_and_the_rest_is_frozen(stage1) -> None:
    pytest.importorskip("peft")
    config, collected, _ = stage1
    model, renderer = load_policy(config.model)
    engine_of(model, renderer, half=False)
    skills = {s.trajectory: s for s, _ in read_skills(collected.skills)}
    row = build_rows(collect.read_collected(collected)[:1], skills, renderer)[0]
    score = [ScoreRow(row.ids_T, row.answer_T)]
    with torch.no_grad():
        before = selected_logits(model, score)[0]
        state = torch.get_rng_state()
        lora.attach(model, 4, 8.0, seed=0)
        assert torch.equal(torch.get_rng_state(), state)
        torch.testing.assert_close(selected_logits(model, score)[0], before)
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    assert names and all(".lora_" in name for name in names)


def test_lora_without_peft_says_what_to_install(stage1, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    run = Run.new(tmp_path / "r")
    with pytest.raises(UserError, match=r"pip install 'seedbed\[lora\]'"):
        sft.fine_tune(run, settings(stage1[0], lora_rank=4), stage1[1])
    assert not run.path.exists()


def test_only_the_best_and_the_last_checkpoint_stay(stage1, tmp_path: Path) -> None:
    base, collected, _ = stage1
    run, seen = Run.new(tmp_path / "a"), []
    sft.fine_tune(
        run,
        settings(base, epochs=4, eval_trajectories=0, checkpointing=False, lr=0.02, warmup=0.0),
        collected,
        report=lambda row: seen.append({p.name for p in run.checkpoints.iterdir()}),
    )
    history = run.history()
    assert {row["parse_rate"] for row in history} == {None} and {row["analysed"] for row in history} == {0}
    losses = [row["validation_loss"] for row in history]
    for done, kept in enumerate(seen, start=1):
        assert kept == {f"u{done:04d}", f"u{1 + min(range(done), key=losses.__getitem__):04d}"}
    best = json.loads((run.path / "best.json").read_text("utf-8"))
    assert best["validation_loss"] == min(losses) and (run.path / best["checkpoint"] / "policy").is_dir()
    assert latest_checkpoint(run.checkpoints).name == "u0004"
    model, renderer = load_policy(base.model.model_copy(update={"path": str(run.path / best["checkpoint"])}))
    engine_of(model, renderer, half=False)
    rows = [r for r in read_jsonl(run.path / "sft_data.jsonl") if r["split"] == "validation"]
    named = {r["trajectory"] for r in rows}
    skills = {s.trajectory: s for s, _ in read_skills(collected.skills)}
    held = [r for r in build_rows(collect.read_collected(collected), skills, renderer) if r.trajectory in named]
    assert held_out_loss(model, held, 10**6, half=False) == pytest.approx(min(losses), abs=1e-5)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([(0.5, 1.0), (0.7, 2.0), (0.7, 1.5), (0.6, 0.1)], 3),  # parse rate first, then loss
        ([(0.5, 1.0), (0.5, 1.0)], 2),  # the later of equals
        ([(None, 3.0), (None, 2.0), (None, 2.5)], 2),
        ([(None, None), (None, None)], 2),  # nothing held out: the last
    ],
)
def test_what_the_best_epoch_is(rows: list[tuple[float | None, float | None]], best: int) -> None:
    history = [{"update": i + 1, "parse_rate": p, "validation_loss": v} for i, (p, v) in enumerate(rows)]
    assert sft.best_epoch(history)["update"] == best


def test_held_out_analysis_is_what_the_saved_policy_writes(stage1) -> None:
    config, collected, tuned = stage1
    trajectories = collect.read_collected(collected)
    rows = [r for r in read_jsonl(tuned.path / "sft_data.jsonl") if r["split"] == "validation"]
    model, renderer = load_policy(config.model.model_copy(update={"path": str(latest_checkpoint(tuned.checkpoints))}))
    skills = {s.trajectory: s for s, _ in read_skills(collected.skills)}
    held = [r for r in build_rows(trajectories, skills, renderer) if r.trajectory in {x["trajectory"] for x in rows}]
    asked = held_out(trajectories, held, 100)
    assert {t.task.id for t in asked} == {r.task for r in held} and len(asked) == len(held)
    assert [t.id for t in held_out(trajectories, held, 2)] == [asked[0].id, asked[len(asked) // 2].id]
    found = analysis_quality(engine_of(model, renderer, half=False), renderer, asked, config.analyzer)
    last = tuned.history()[-1]
    assert {k: found[k] for k in ("analysed", "parse_rate", "kind_agreement")} == {
        k: last[k] for k in ("analysed", "parse_rate", "kind_agreement")
    }
    assert analysis_quality(engine_of(model, renderer, half=False), renderer, [], config.analyzer)["parse_rate"] is None


def test_rows_over_the_limit_are_refused_or_counted_never_cut(stage1, tmp_path: Path) -> None:
    base, collected, tuned = stage1
    lengths = sorted(row["tokens"] for row in read_jsonl(tuned.path / "sft_data.jsonl"))
    limit = lengths[len(lengths) // 2]
    over = sum(n > limit for n in lengths)
    with pytest.raises(UserError, match=rf"{over} of 24 Stage-1 rows are over sft.max_tokens={limit} .*{lengths[-1]}"):
        sft.fine_tune(Run.new(tmp_path / "a"), settings(base, max_tokens=limit, too_long="error"), collected)
    assert not (tmp_path / "a").exists()
    run = Run.new(tmp_path / "b")
    sft.fine_tune(run, settings(base, max_tokens=limit, epochs=1, eval_trajectories=0), collected)
    found = json.loads((run.path / "sft_set.json").read_text("utf-8"))
    assert sorted(d["tokens"] for d in found["dropped_too_long"]) == [n for n in lengths if n > limit]
    assert sorted(r["tokens"] for r in read_jsonl(run.path / "sft_data.jsonl")) == [n for n in lengths if n <= limit]
    assert found["tokens"]["longest"] == limit == found["tokens"]["limit"]
    assert sum(found["rows"].values()) + over == 24


def test_the_defaults_are_the_papers() -> None:
    found = load_config().sft
    assert (found.epochs, found.batch_rows, found.lr, found.max_tokens) == (3, 8, 5e-6, 8192)
    assert (found.weight_decay, found.warmup, found.grad_clip) == (0.01, 0.1, 1.0)
    assert (found.too_long, found.lora_rank, found.rehearsal) == ("error", 0, 0.0)


def test_the_learning_rate_warms_up_and_falls_as_a_cosine(stage1, tmp_path: Path) -> None:
    base, collected, _ = stage1
    run = Run.new(tmp_path / "a")
    config = settings(base, epochs=2, batch_rows=1, eval_trajectories=0, warmup=0.5)
    sft.fine_tune(run, config, collected)
    rows = run.history()
    steps = rows[-1]["steps"]
    assert rows[0]["steps"] == steps / 2 and rows[0]["lr"] == pytest.approx(config.sft.lr)  # the ramp ends at half
    tail = steps - round(0.5 * steps)
    last = 0.5 * (1 + torch.cos(torch.tensor(torch.pi * (tail - 1) / tail)).item())
    assert rows[1]["lr"] == pytest.approx(config.sft.lr * last, rel=1e-4)


def test_every_wording_of_the_rules_is_of_its_kind(stage1) -> None:
    _, collected, _ = stage1
    skills = [s for s, _ in read_skills(collected.skills)]
    assert {s.kind for s in skills} == {"workflow", "avoidance"}
    assert [text_kind(s.text) for s in skills] == [s.kind for s in skills]
