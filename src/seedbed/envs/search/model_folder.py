"""Would loading this sentence-transformers model run code of its own? Then it is refused before anything is imported.

The library imports the classes that a folder's configuration names, in some versions from files of the folder itself.
Only its own classes are let through, and only modules that lie in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seedbed.types import UserError

_OWN = "sentence_transformers."
_CLASS_KEYS = ("type", "types", "activation_function", "activation_fn", "tokenizer_class", "module_class")


def check_model_folder(folder: Path) -> None:
    """Raises ``UserError`` with the file if there is no model, weights are pickled, or a foreign class is named."""
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise UserError(f"{folder} holds no sentence-transformers model: there is no modules.json or config.json")
    pickles = sorted(folder.rglob("pytorch_model*.bin"))
    if unsafe := [path for path in pickles if not any(path.parent.glob("*.safetensors"))]:
        raise UserError(f"{unsafe[0]} is not safe to load: save the model again, as model.safetensors")
    for path in sorted(folder.rglob("modules.json")):
        _check_modules(path, folder)
    for path in sorted(folder.rglob("*config*.json")):
        _check_config(path, folder)


def _check_modules(path: Path, folder: Path) -> None:
    modules = _read(path)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise UserError(f"{path} is no list of modules: save the model again with sentence-transformers")
    for module in modules:
        kind = module.get("type")
        if not isinstance(kind, str) or not kind.startswith(_OWN):
            raise _foreign(path, f"module class {kind!r}")
        _check_place(path, module.get("path"), folder)


def _check_config(path: Path, folder: Path) -> None:
    """Also of a router, whose ``types`` go from the folders of its modules to their classes."""
    for key, value in _entries(_read(path)):
        if key in ("auto_map", "trust_remote_code") and value:
            raise _foreign(path, f"{key} {value!r}")
        if key not in _CLASS_KEYS:
            continue
        for kind in value.values() if isinstance(value, dict) else [value]:
            if isinstance(kind, str) and "." in kind and not kind.startswith((_OWN, "torch.nn.")):
                raise _foreign(path, f"{key} {kind!r}")
        if key == "types" and isinstance(value, dict):
            for place in value:
                _check_place(path, place, folder)


def _check_place(path: Path, place: Any, folder: Path) -> None:
    try:
        inside = not Path(place).is_absolute() and ".." not in Path(place).parts
        inside = inside and (path.parent / place).resolve().is_relative_to(folder.resolve())
    except (TypeError, ValueError, OSError, RuntimeError):  # no text, a zero byte, a link to itself
        inside = False
    if not inside:
        raise UserError(
            f"{path} is not safe to load: its module path {place!r} leaves the folder, so use another model"
        )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as JSON ({type(error).__name__}): save the model again") from error


def _entries(data: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if isinstance(data, dict):
            yield key, value
        yield from _entries(value)


def _foreign(path: Path, what: str) -> UserError:
    return UserError(
        f"{path} is not safe to load: it names code that is not sentence-transformers' own ({what[:200]}), so use a "
        "model without code of its own"
    )
