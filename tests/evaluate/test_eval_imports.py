"""At deployment there is only the policy: evaluation cannot reach skills, analyzer, algorithms, scoring or trainer."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
FORBIDDEN = (
    "seedbed.skills",
    "seedbed.prompts.analyzer",
    "seedbed.algo",
    "seedbed.scoring",
    "seedbed.train",
    "seedbed.loss",
)

#: the configuration names the settings of every method; it runs none of them
SETTINGS_ONLY = {("seedbed.config", "seedbed.algo")}


def file_of(module: str) -> Path | None:
    base = SOURCE / Path(*module.split("."))
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


def imports(module: str) -> set[str]:
    """Modules of ours that ``module`` imports anywhere in its code, by statement or by name, unless for types only."""
    tree = ast.parse(file_of(module).read_text("utf-8"))
    checking = {
        id(n)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for n in ast.walk(branch)
    }
    names = set()
    for node in ast.walk(tree):
        if id(node) in checking:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return {n for n in names if n.startswith("seedbed") and file_of(n)}


def reachable(start: str) -> set[str]:
    found, queue = set(), [start]
    while queue:
        module = queue.pop()
        if module not in found:
            found.add(module)
            queue += [m for m in imports(module) if not any(module == a and m.startswith(b) for a, b in SETTINGS_ONLY)]
    return found


def test_evaluation_reaches_the_policy_and_nothing_that_teaches_it():
    found = reachable("seedbed.evaluate.run")
    assert {"seedbed.rollout", "seedbed.render", "seedbed.prompts.base"} <= found  # the walk works
    assert not [m for m in found if m.startswith(FORBIDDEN)]


def test_the_walk_would_see_a_forbidden_import():
    assert [m for m in reachable("seedbed.scoring") if m.startswith(FORBIDDEN)]
    assert "seedbed.skills.parse" in reachable("seedbed.skills.analyze")
