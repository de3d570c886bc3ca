"""A folder whose model would run code of its own is refused before the library is imported (no extra needed here)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seedbed.envs.search.encoder import SentenceEncoder
from seedbed.envs.search.model_folder import check_model_folder
from seedbed.types import UserError

OWN = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """What a plain model looks like, beside code that leaves a mark when it is run."""
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Module: pass\n")
    put(folder / "modules.json", OWN)
    put(folder / "config.json", {"model_type": "bert", "rope_scaling": {"type": "linear"}})
    put(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32})
    put(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})
    return folder


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def module(path: object = "2", kind: object = "sentence_transformers.models.Dense") -> list[dict[str, object]]:
    return [*OWN, {"idx": 2, "name": "2", "path": path, "type": kind}]


DENSE = {"in_features": 4, "out_features": 4, "activation_function": "torch.nn.modules.activation.Tanh"}
ROUTER = {"types": {"query_0_Dense": "sentence_transformers.models.Dense"}, "structure": {"query": ["query_0_Dense"]}}


def test_a_plain_model_and_the_librarys_own_modules_are_let_through(model: Path) -> None:
    check_model_folder(model)
    put(model / "modules.json", module())
    put(model / "2" / "config.json", DENSE)
    put(model / "3" / "router_config.json", ROUTER)
    check_model_folder(model)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("modules.json", module(kind="evil.Module"), "not sentence-transformers' own .module class 'evil.Module'"),
        ("modules.json", module(kind="sentence_transformers_evil.Module"), "module class"),
        ("modules.json", module(kind=None), "module class None"),
        ("2/modules.json", module(kind="evil.Module"), "module class 'evil.Module'"),
        ("modules.json", module("/tmp"), "module path '/tmp' leaves the folder"),
        ("modules.json", module("../other"), "module path '../other' leaves the folder"),
        ("modules.json", module("1_Pooling/../.."), "leaves the folder"),
        ("modules.json", module("\0"), "leaves the folder"),
        ("modules.json", module(7), "module path 7 leaves the folder"),
        ("modules.json", module("link"), "module path 'link' leaves the folder"),
        ("modules.json", {"type": "evil.Module"}, "list of modules"),
        ("config.json", {"auto_map": {"AutoModel": "evil.Module"}}, "auto_map"),
        ("1_Pooling/config.json", {"auto_map": {"AutoModel": "evil.Module"}}, "auto_map"),
        ("config_sentence_transformers.json", {"module_class": "evil.Module"}, "module_class 'evil.Module'"),
        ("2/config.json", {**DENSE, "activation_function": "evil.Module"}, "activation_function 'evil.Module'"),
        ("2/router_config.json", {**ROUTER, "types": {"q": "evil.Module"}}, "types 'evil.Module'"),
        ("2/config.json", {**ROUTER, "types": {"../../q": "sentence_transformers.models.Dense"}}, "leaves the folder"),
        ("sentence_bert_config.json", {"model_args": {"trust_remote_code": True}}, "trust_remote_code"),
    ],
)
def test_foreign_code_is_refused_by_the_name_of_its_file(model: Path, file: str, content: Any, words: str) -> None:
    (model / "link").symlink_to(model.parent)
    put(model / file, content)
    with pytest.raises(UserError, match=rf"{file} is n.*{words}") as refusal:
        SentenceEncoder(model)
    assert str(refusal.value).count(". ") == 0, "one sentence"
    assert not (model.parent / "ran").exists()


def test_a_file_that_is_no_json_is_named(model: Path) -> None:
    (model / "modules.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"modules.json cannot be read as JSON"):
        SentenceEncoder(model)


def test_the_refusal_comes_before_the_library_is_imported(model: Path) -> None:
    put(model / "modules.json", module("", "evil.Module"))
    code = (
        "import sys; from pathlib import Path\n"
        "from seedbed.envs.search.encoder import SentenceEncoder\n"
        f"try: SentenceEncoder(Path({str(model)!r}))\n"
        "except Exception as error: print(type(error).__name__, 'evil.Module' in str(error))\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('sentence_transformers', 'evil')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("UserError True\n[]\n", "")
