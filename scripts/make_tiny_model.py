"""Makes the shipped tiny model: data, tokenizer, pretraining, and a table of what came out (``measured.json``).

python scripts/make_tiny_model.py --out build/tiny  # the shipped weights: 5.5 minutes of one H200
python scripts/make_tiny_model.py --out build/dry --rows 1000 --tokens 6e4 --batch 8 --panel 12  # dry run, CPU
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from tokenizers import Tokenizer

from seedbed.config import ModelSettings
from seedbed.engines.torch_engine import TorchEngine
from seedbed.envs.alfworld.expert import Mistakes
from seedbed.envs.base import make_environment
from seedbed.prompts.analyzer import continuation
from seedbed.prompts.base import Wording, footer, skill_block
from seedbed.skills import rules
from seedbed.train.model import load_policy, pick_device
from seedbed.types import StopReason, Task, Trajectory
from tiny import episodes, measure, training, vocabulary


def tokenizer_for(wording: Wording) -> Tokenizer:
    """The vocabulary with this environment's fixed sentences and the analyzer's request as whole tokens."""
    whole = f"{wording.role} {footer(wording, think=False)}\nYour task is to:"
    head, tail = skill_block("\0").split("\0")
    phrases = [piece for part in whole.split("<action>") for piece in part.split("</action>") if piece.strip()]
    phrases += [f"\n{head}", f".\n{head}", tail + "\n", episodes.ASK, *analyzer_phrases()]
    texts = [rules.phrase(lesson, v) for kind in rules.KINDS for lesson in rules.lessons(kind) for v in range(2)]
    texts += [rules.summary(lesson) for kind in rules.KINDS for lesson in rules.lessons(kind)]
    texts += [
        "Record: pick, look, clean, heat, cool, two, won, lost, key, shut, wrong, stray.",
        "put some in it and a put hot on put two them under the with examine at in",
        *(f" {k}" for k in rules.KINDS),
    ]
    return vocabulary.build(phrases, texts)


def analyzer_phrases() -> list[str]:
    """The analyzer's request for either outcome: the sentences, and what two of them share, as whole tokens."""
    task = Task("none", "alfworld", "generated_train", "pick")
    won, lost = (
        dict(continuation(Trajectory(task, 0, "", (), stop, 0.0, "transcript", 0, 0)).slots)
        for stop in (StopReason.WON, StopReason.STEP_CAP)
    )
    head = _shared(won["request"], lost["request"]).rpartition(" ")[0]
    tail = _shared(won["request"][::-1], lost["request"][::-1])[::-1]
    middles = [text["request"].removeprefix(head).removesuffix(tail) for text in (won, lost)]
    return [won["outcome"], lost["outcome"], head, *middles, tail]


def _shared(a: str, b: str) -> str:
    """The common beginning of two texts."""
    return a[: next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--tokens", type=float, default=400e6, help="training tokens")
    parser.add_argument("--minutes", type=float, default=600, help="stop pretraining after this long")
    parser.add_argument("--rows", type=int, default=400_000, help="distinct rows of data")
    parser.add_argument("--batch", type=int, default=192, help="rows an optimiser step")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--shape", default="3x128x4x256", help="layers x hidden x heads x inner")
    parser.add_argument("--mistakes", default="", help="rates of the expert, e.g. key=0.5,shut=0.2")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--panel", type=int, default=600, help="held-out tasks a condition")
    parser.add_argument("--rl", type=float, nargs="*", default=(), help="learning rates of GRPO trials after Stage 1")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    device = pick_device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = True
    args.out.mkdir(parents=True, exist_ok=True)
    environment = make_environment("alfworld")
    tokenizer = tokenizer_for(environment.wording)
    vocabulary.save(tokenizer, args.out)
    mistakes = Mistakes(**{k: float(v) for k, v in (item.split("=") for item in args.mistakes.split(",") if item)})

    began = time.time()
    rows = episodes.make(tokenizer, environment.wording, mistakes, args.rows, args.workers, args.seed << 32)
    print(f"data: {len(rows.start) - 1} rows, {len(rows.ids)} tokens, {time.time() - began:.0f} s", flush=True)
    layers, hidden, heads, inner = map(int, args.shape.split("x"))
    torch.manual_seed(args.seed)
    model = training.new_model(
        tokenizer.get_vocab_size(),
        tokenizer.token_to_id("<|end|>"),
        tokenizer.token_to_id("<|pad|>"),
        layers=layers,
        hidden=hidden,
        heads=heads,
        inner=inner,
    ).to(device)
    trained = training.pretrain(
        model, rows, tokens=int(args.tokens), batch=args.batch, lr=args.lr, minutes=args.minutes, seed=args.seed
    )
    del trained["log"][:-1]
    model.save_pretrained(args.out, safe_serialization=True)
    report = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": tokenizer.get_vocab_size(),
        "arguments": {k: v for k, v in vars(args).items() if k not in ("out", "workers", "device")},
        "data_tokens": len(rows.ids),
        "pretraining": trained,
    }
    report |= judge(args.out, device, environment, args.panel, args.rl)
    (args.out / "measured.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"all: {time.time() - began:.0f} s", flush=True)


def judge(folder: Path, device: str, environment: object, panel: int, rl: Sequence[float]) -> dict:
    """Success by condition, parse rate, a Stage 1 trial, and GRPO from its result."""
    model, renderer = load_policy(ModelSettings(path=str(folder), device=device))
    bench = measure.Bench(
        TorchEngine(model, renderer.stop_id, max_batch=1024 if device == "cuda" else 128), renderer, environment
    )
    report: dict = {}

    def note(name: str, value: dict) -> None:
        report[name] = value
        print(name, json.dumps(value), flush=True)

    for condition in ("none", "empty", "right", "wrong", "avoid"):
        note(f"base {condition}", bench.panel(condition, panel))
    note("base none T=0.4", bench.panel("none", panel, 0.4))
    tasks = environment.tasks("generated_train")[:60]
    own = bench.play(tasks, 8, 1.0, 1)
    note("base parse", bench.parse(own))
    held = environment.tasks("generated_valid")[-60:]
    base = copy.deepcopy(model.state_dict())
    for lr in (3e-4, 1e-4):
        model.load_state_dict(base)
        note(f"sft {lr}", measure.sft(bench, own, lr=lr))
        note(f"sft {lr} parse", bench.parse(bench.play(held, 4, 1.0, 2)))
        for condition in ("none", "right", "wrong"):
            note(f"sft {lr} {condition}", bench.panel(condition, panel))
        note(f"sft {lr} none T=0.4", bench.panel("none", panel, 0.4))
    start = copy.deepcopy(model.state_dict())
    for lr in rl:
        model.load_state_dict(start)
        note(f"grpo {lr}", measure.grpo(bench, lr=lr, seed=1))
        note(f"grpo {lr} T=1", bench.panel("none", panel))
        note(f"grpo {lr} T=0.4", bench.panel("none", panel, 0.4))
        note(f"grpo {lr} parse", bench.parse(bench.play(held, 4, 1.0, 2)))
    return report


if __name__ == "__main__":
    main()
