"""Fixtures for all tests. Test files need different names: pytest puts every folder of tests on the import path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seedbed.render import Renderer

ROOT = Path(__file__).resolve().parents[1]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder that holds ``alfworld/``, ``webshop/``, ...: ``SEEDBED_DATA``. Skips without it."""
    folder = os.environ.get("SEEDBED_DATA", "")
    if not Path(folder, "alfworld").is_dir():
        pytest.skip("SEEDBED_DATA does not name a folder with alfworld/ in it")
    return Path(folder)


@pytest.fixture(scope="session")
def renderer() -> Renderer:
    """A renderer with one token a byte and the ChatML template: no file, no download, no merges to think about."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<|im_start|>", "<|im_end|>")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
    fast.chat_template = CHATML
    return Renderer(fast)
