"""Tests use what is public: no private name of operator/berth, but for the places that are listed here.

A test of a private name breaks when the code is rearranged and behaves as before. Where a test has to know more than
that, a constructor argument, a property or `statistics()` says it.

What is found: `thing._name` where operator/berth has such a name, an argument that is such a name (as in `setattr`),
imports of private names, and what a test's class uses or replaces of a class of operator/berth that it derives from.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
CODE = ROOT / "operator" / "berth"
OF_NAMED_TUPLES = ("_replace", "_asdict", "_fields")  # public, in spite of their names

ALLOWED: Mapping[str, Mapping[str, str]] = {
    "cluster/test_runtime.py": {"_clock": "moves the time of reports by hand, while the rest of the runtime goes on"},
    "devices/test_search.py": dict.fromkeys(
        ("_has_candidates", "_signature"), "leaves out the two short cuts of the search, to compare answers"
    ),
    "engine/test_equivalence.py": dict.fromkeys(
        ("_answers", "_grouped", "_levels", "_of", "_ranking"),
        "compares all cached totals with fresh ones; a decision shows only the best of them",
    ),
    "mutated/test_mutated_objects.py": {"_watching": "kopf's: its registry has no public way to be read"},
    "process/test_handlers.py": dict.fromkeys(("_changing", "_watching"), "kopf's: as above"),
    "scheduler/virtual_clock.py": {"_ready": "asyncio's: the clock moves on when the loop has nothing left to do"},
    "simulation/overseer.py": dict.fromkeys(
        ("_end", "_enter", "_leave", "_log", "_preempt", "_reject", "_start_over"),
        "checks invariants at each transition, also at those inside of a public call",
    ),
    "simulation/recording.py": dict.fromkeys(
        ("_put", "_drop"), "the two ways into the store that everything goes, and no way for its users"
    ),
}
"""By file: the private names that it may use, and why there is no public way."""

PLANTED_BUGS = "simulation/mutations.py"
"""Replaces whatever a bug could be in; `make mutations` fails if what it replaces is not there."""


def is_private(name: str) -> bool:
    return name.startswith("_") and name.strip("_").isidentifier() and not name.startswith("__")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def private_names() -> frozenset[str]:
    """Every private name that operator/berth defines: methods, functions, classes, attributes, slots and modules."""
    return frozenset(name for path in CODE.rglob("*.py") for name in _defined(parsed(path)) if is_private(name))


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.attr if isinstance(node, ast.Attribute) else node.id


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The private names of operator/berth that a test uses, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "berth":
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.Call) and len(node.args) > 1:  # not `text.endswith("_created")`
            yield from ((word.lineno, _text(word).rpartition(".")[2]) for word in node.args)
        elif isinstance(node, ast.ClassDef):
            yield from _inherited(node, tree)


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _inherited(kind: ast.ClassDef, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What a class that derives from one of operator/berth uses or replaces of it."""
    ours = {
        name.asname or name.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "berth"
        for name in node.names
    }
    bases = [base for base in kind.bases if _called(base) in ours]
    if not bases:
        return
    theirs = _names_of({_called(base) for base in bases})
    for node in ast.walk(kind):
        if isinstance(node, ast.Attribute) and _is_own(node.value) and node.attr in theirs:
            yield node.lineno, node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in theirs:
            yield node.lineno, node.name


@cache
def _classes() -> Mapping[str, ast.ClassDef]:
    return {
        node.name: node
        for path in CODE.rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    }


def _names_of(kinds: set[str]) -> set[str]:
    """The private names that these classes define, and those that they derive from."""
    found: set[str] = set()
    for name in kinds & _classes().keys():
        kind = _classes()[name]
        found |= {defined for defined in _defined(kind) if is_private(defined)}
        found |= _names_of({_called(base) for base in kind.bases})
    return found


def found(tree: ast.Module) -> dict[str, list[int]]:
    """The lines of each private name that is used."""
    lines: dict[str, list[int]] = {}
    for line, name in uses(tree):
        if name in private_names() and name not in OF_NAMED_TUPLES:
            lines.setdefault(name, []).append(line)
    return lines


FILES = sorted({str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py")} - {PLANTED_BUGS})


@pytest.mark.parametrize("file", FILES)
def test_a_test_uses_what_is_public(file: str) -> None:
    allowed = ALLOWED.get(file, {})
    used = found(parsed(TESTS / file))
    assert {name: lines for name, lines in used.items() if name not in allowed} == {}
    assert [name for name in allowed if name not in used] == [], "listed, and used no more"


@pytest.mark.parametrize(
    "line",
    [
        "cache._pods",
        "runtime.components.cache._pods.assumed",
        "monkeypatch.setattr(cache, '_pods', {})",
        "monkeypatch.setattr('berth.scheduler.cache.cache.Cache._pods', {})",
        "from berth.scheduler.queue.unschedulable import _MarkIndex",
        "from berth.scheduler.cache import Cache\nclass Test(Cache):\n    def look(self): return self._pods",
        "from berth.sim.store import Store\nclass Test(Store):\n    def _put(self): pass",
    ],
)
def test_each_way_to_a_private_name_is_found(line: str) -> None:
    assert len(found(ast.parse(line))) == 1


@pytest.mark.parametrize("line", ["self._pods", "named._replace(x=1)", "SUFFIXES = ('_sum', '_count')", "x.__len__()"])
def test_what_is_no_private_name_of_the_code_is_left_alone(line: str) -> None:
    assert found(ast.parse(line)) == {}
