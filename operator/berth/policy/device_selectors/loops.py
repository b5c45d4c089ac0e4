"""Macros over the items of a list or map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .collections import sort_by
from .overloads import item_of
from .scope import Compiled, Run, Scope, decide, run_with
from .values import EvaluationError, kind_of

_ITERATION_COST: Final = 3


def _rounds(scope: Scope, over: Run, names: tuple[str, ...]) -> Any:
    """The values of the variables, once for each round."""
    value = over(scope)
    if isinstance(value, list):
        found: Any = enumerate(value) if len(names) > 1 else ((item,) for item in value)
    elif isinstance(value, dict):
        found = value.items() if len(names) > 1 else ((key,) for key in value)
    else:
        raise EvaluationError(f"got '{kind_of(value)}', expected iterable type")
    for values in list(found):
        scope.spend(_ITERATION_COST)
        yield values


def _quantifier(deciding: bool) -> Callable[..., Compiled]:
    def make(over: Run, names: tuple[str, ...], args: list[Compiled], kind: str) -> Compiled:
        [test] = args

        def run(scope: Scope) -> bool:
            rounds = _rounds(scope, over, names)
            return decide((lambda v=v: run_with(scope, names, v, test.run) for v in rounds), deciding)

        return Compiled(run, "bool")

    return make


def _exists_one(over: Run, names: tuple[str, ...], args: list[Compiled], kind: str) -> Compiled:
    [test] = args

    def run(scope: Scope) -> bool:
        return sum(_true(run_with(scope, names, v, test.run)) for v in _rounds(scope, over, names)) == 1

    return Compiled(run, "bool")


def _true(value: Any) -> bool:
    if type(value) is bool:
        return bool(value)
    raise EvaluationError("no such overload")


def _mapped(over: Run, names: tuple[str, ...], args: list[Compiled], kind: str) -> Compiled:
    """map and transformList, with a condition before the value or without one."""
    *tests, made = args

    def run(scope: Scope) -> list[Any]:
        return [
            run_with(scope, names, v, made.run)
            for v in _rounds(scope, over, names)
            if all(_true(run_with(scope, names, v, test.run)) for test in tests)
        ]

    return Compiled(run, f"list({made.kind})")


def _filtered(over: Run, names: tuple[str, ...], args: list[Compiled], kind: str) -> Compiled:
    [test] = args

    def run(scope: Scope) -> list[Any]:
        return [v[0] for v in _rounds(scope, over, names) if _true(run_with(scope, names, v, test.run))]

    return Compiled(run, f"list({item_of(kind)})")


def _mapped_entries(over: Run, names: tuple[str, ...], args: list[Compiled], kind: str) -> Compiled:
    """transformMap: the keys stay."""
    *tests, made = args

    def run(scope: Scope) -> dict[Any, Any]:
        return {
            v[0]: run_with(scope, names, v, made.run)
            for v in _rounds(scope, over, names)
            if all(_true(run_with(scope, names, v, test.run)) for test in tests)
        }

    key = item_of(kind) if kind.startswith("map") else "int"
    return Compiled(run, f"map({key}, {made.kind})")


def _made_entries(over: Run, names: tuple[str, ...], args: list[Compiled], kind: str) -> Compiled:
    """transformMapEntry: each round gives a map, and the result has the entries of all."""
    *tests, made = args

    def run(scope: Scope) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for v in _rounds(scope, over, names):
            if not all(_true(run_with(scope, names, v, test.run)) for test in tests):
                continue
            for key, value in run_with(scope, names, v, made.run).items():
                if key in result:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                result[key] = value
        return result

    return Compiled(run, made.kind)


def _sorted_by(over: Run, names: tuple[str, ...], args: list[Compiled], kind: str) -> Compiled:
    [key] = args

    def run(scope: Scope) -> list[Any]:
        rounds = list(_rounds(scope, over, names))
        return sort_by([v[0] for v in rounds], [run_with(scope, names, v, key.run) for v in rounds])

    return Compiled(run, kind)


LOOPS: Final[Mapping[str, Callable[..., Compiled]]] = {
    "all": _quantifier(False),
    "exists": _quantifier(True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "map": _mapped,
    "filter": _filtered,
    "transformList": _mapped,
    "transformMap": _mapped_entries,
    "transformMapEntry": _made_entries,
    "sortBy": _sorted_by,
}
