"""The source tree as data: modules, and who imports whom. Nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "seedbed"


@cache
def sources() -> dict[str, Path]:
    """Python files of the library by module name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imports(module: str, *, deferred: bool) -> frozenset[str]:
    """Modules that ``module`` imports when it is loaded, with ``deferred`` also those it imports inside functions.

    Imports for type checking alone do not count. ``from a import b`` counts as ``a.b`` where that is a module of ours.
    """
    found = set()
    for node in _statements(tree(sources()[module]).body, deferred):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in sources() else str(node.module))
    return frozenset(found)


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """One cycle of a directed graph as a list of nodes, empty if there is none."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for after in sorted(edges[node]):
            if found := visit(after, [*path, node]):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(edges) if (found := visit(node, []))), [])


def _statements(body: list[ast.stmt], deferred: bool) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _statements(node.orelse, deferred)
        elif deferred or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, field, []), deferred)
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body, deferred)
