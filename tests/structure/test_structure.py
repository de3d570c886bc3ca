"""The promises a reader relies on: short reading path, imports one way, no unsafe loading, no dead setting."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import modules
import pytest
from modules import PACKAGE, ROOT, cycle, imports, sources, tree

from seedbed.config import Config, flat

READING_PATH = (
    "types.py",
    "envs/base.py",
    "rollout.py",
    "skills/analyze.py",
    "samples.py",
    "scoring.py",
    "algo/seed.py",
    "loss.py",
    "train/rl.py",
)
FOLDERS = ("src", "scripts", "docs", "tests", "requirements", ".ci")
READABLE = {".py", ".md", ".yaml", ".toml", ".txt", ".j2", ".html", ".css", ".js", ""}
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
UNSAFE_CALLS = {"eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load"}
MODULES = sorted(sources())


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def texts() -> list[Path]:
    """Every text file that a reader of the repository sees."""
    top = [path for path in ROOT.iterdir() if path.name != ".git"]
    paths = [*top, *(path for name in FOLDERS for path in (ROOT / name).rglob("*"))]
    return [path for path in paths if path.is_file() and path.suffix in READABLE and "__pycache__" not in path.parts]


def test_the_reading_path_is_nine_files_of_at_most_2500_lines() -> None:
    assert sum(lines(PACKAGE / name) for name in READING_PATH) <= 2500
    assert lines(PACKAGE / "train/rl.py") <= 300


def test_readme_lists_the_reading_path_in_order(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    places = [readme.find(f"[`{name}`](src/seedbed/{name})") for name in READING_PATH]
    assert -1 not in places and places == sorted(places)


def test_no_file_is_longer_than_500_lines() -> None:
    paths = [*sources().values(), *(ROOT / "scripts").rglob("*.py")]
    assert {str(path.relative_to(ROOT)): n for path in paths if (n := lines(path)) > 500} == {}


def test_a_training_method_is_one_idea_of_at_most_80_lines() -> None:
    methods = [path for path in (PACKAGE / "algo").glob("*.py") if path.stem not in {"__init__", "base", "advantages"}]
    assert {path.name: n for path in methods if (n := lines(path)) > 80} == {} and len(methods) >= 2


@pytest.mark.parametrize("deferred", [False, True], ids=["when loaded", "ever"])
def test_modules_do_not_import_each_other_in_a_circle(deferred: bool) -> None:
    assert cycle({module: set(imports(module, deferred=deferred)) & set(MODULES) for module in MODULES}) == []


def test_the_cycle_finder_finds_a_cycle() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def outside(module: str, allowed: set[str]) -> set[str]:
    """Imports of a module beyond the standard library and the modules ``allowed`` with all below them."""
    return {
        name
        for name in imports(module, deferred=True)
        if not any(f"{name}.".startswith(f"{known}.") for known in sys.stdlib_module_names | allowed)
    }


def test_imports_point_one_way() -> None:
    assert outside("seedbed.types", {"numpy"}) == set()
    assert outside("seedbed.loss", {"torch"}) == set()
    for module in MODULES:
        if module.startswith("seedbed.algo"):
            assert outside(module, {"seedbed.types", "seedbed.algo", "pydantic", "torch", "numpy"}) == set(), module
        if not module.startswith(("seedbed.cli", "seedbed.commands", "seedbed.__main__")):
            above = {n for n in imports(module, deferred=True) if n.startswith(("seedbed.cli", "seedbed.commands"))}
            assert above == set(), f"{module} imports {above}"


def test_settings_and_their_comparison_load_without_torch() -> None:
    code = "import sys, seedbed.config, seedbed.repro.paper_diff; sys.exit('torch' in sys.modules)"
    env = {"PYTHONPATH": str(PACKAGE.parent)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == 0


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_unpickled_or_evaluated(module: str) -> None:
    assert not imports(module, deferred=True) & UNSAFE_MODULES
    for node in ast.walk(tree(sources()[module])):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in UNSAFE_CALLS, f"line {node.lineno}"
        assert not (isinstance(node, ast.keyword) and node.arg == "allow_pickle"), f"line {node.value.lineno}"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_says_what_it_answers(module: str) -> None:
    body = tree(sources()[module]).body
    assert not body or ast.get_docstring(tree(sources()[module])), "no module docstring"


def test_no_path_of_one_machine() -> None:
    place = re.compile(r"(?<![\w./~$}-])/(work|root|home|farm|Users|mnt|opt)/\w")
    found = {
        f"{path.relative_to(ROOT)}:{n}"
        for path in texts()
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if place.search(line)
    }
    assert found == set()


def test_every_setting_is_read_somewhere() -> None:
    """A setting is read where a module other than config.py has ``.name`` and knows the section or its class."""
    readers = [path for module, path in sources().items() if module != "seedbed.config"]
    read = {path: {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)} for path in readers}
    known = {path: {node.id for node in ast.walk(tree(path)) if isinstance(node, ast.Name)} for path in readers}
    orphans = []
    for key, _ in flat(Config()):
        section, _, name = key.rpartition(".")
        classes = {c.__name__ for c in type(getattr(Config(), section)).__mro__[:-2]} if section else {"Config"}
        if not any(name in read[p] and (section in read[p] or classes & known[p]) for p in readers):
            orphans.append(key)
    assert orphans == []


def test_sources_are_found() -> None:
    assert {"seedbed", "seedbed.types", "seedbed.algo", "seedbed.envs.base"} <= set(modules.sources())
