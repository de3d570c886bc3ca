"""Makes the shipped tiny model: data, tokenizer, pretraining, and a table of what came out (``measured.json``).

python scripts/make_tiny_model.py  # the shipped weights: 5.5 minutes of one H200, about 9 hours of a CPU core
python scripts/make_tiny_model.py --out build/dry --rows 1000 --tokens 6e4 --batch 8  # dry run, CPU
python scripts/make_tiny_model.py --out src/seedbed/presets/tiny --measure  # only measure: 2 minutes of a CPU
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from tokenizers import Tokenizer

from seedbed.envs.alfworld.expert import Mistakes
from seedbed.envs.base import make_environment
from seedbed.prompts.analyzer import continuation
from seedbed.prompts.base import Wording, footer, skill_block
from seedbed.skills import rules
from seedbed.train.model import pick_device
from seedbed.types import StopReason, Task, Trajectory
from tiny import episodes, training, vocabulary
from tiny.measure import measure


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
    parser.add_argument("--out", type=Path, default=Path("build/tiny"))
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--tokens", type=float, default=400e6, help="training tokens")
    parser.add_argument("--minutes", type=float, default=600, help="stop pretraining after this long")
    parser.add_argument("--rows", type=int, default=400_000, help="distinct rows of data")
    parser.add_argument("--batch", type=int, default=192, help="rows an optimiser step")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--shape", default="3x128x4x256", help="layers x hidden x heads x inner")
    parser.add_argument("--mistakes", default="", help="rates of the expert, e.g. key=0.5,shut=0.2")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--measure", action="store_true", help="make nothing, measure the model in --out")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    record = args.out / "measured.json"
    if args.measure:
        record.write_text(json.dumps(json.loads(record.read_text()) | {"measured": measure(args.out)}, indent=1) + "\n")
        return
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
        "arguments": {k: v for k, v in vars(args).items() if k not in ("out", "workers", "device", "measure")},
        "data_tokens": len(rows.ids),
        "pretraining": trained,
    }
    report["measured"] = measure(args.out, device)
    record.write_text(json.dumps(report, indent=1) + "\n")
    print(f"all: {time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
