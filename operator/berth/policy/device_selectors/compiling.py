"""From a tree to a function: checked as far as types are known, then closures that call each other.

Types are known of literals, of what functions give and of the device's own fields; attributes can be of any type, so
what is done with them is checked when it is done. Every step costs, and an evaluation that costs too much ends with an
error: the API server estimates the same before it accepts an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from .access import has_field, optionally, read_field, read_item
from .collections import add_collections
from .kubernetes import add_kubernetes
from .loops import LOOPS
from .overloads import (
    ANY,
    CONSTANT_PATTERN,
    DYN,
    OPEN,
    Library,
    Overload,
    dispatch,
    fits,
    item_of,
    joined,
    parameters,
    value_of,
)
from .regular import pattern_problem
from .scope import Compiled, Run, Scope, decide, run_with
from .standard import TYPES, add_standard
from .strings import add_strings, format_problem
from .syntax import (
    Bind,
    Call,
    CompileError,
    Constant,
    Has,
    Ident,
    Index,
    InstantiationError,
    ListLiteral,
    Loop,
    MapLiteral,
    Node,
    Select,
)
from .values import NONE, EvaluationError, Optional, TypeName, Uint, kind_of

_CHARACTERS_A_UNIT: Final = 10
DEVICE: Final = "device"
DEVICE_FIELDS: Final[Mapping[str, str]] = {
    "driver": "string",
    "allowMultipleAllocations": "bool",
    "attributes": "map(string, map(string, any))",
    "capacity": "map(string, map(string, kubernetes.Quantity))",
}


@cache
def library() -> Library:
    """All functions of Kubernetes 1.36."""
    made = Library({})
    for add in (add_standard, add_strings, add_collections, add_kubernetes):
        add(made)
    return made


@cache
def _namespaces() -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in library().functions if "." in name)


class Compiler:
    """Compiles the tree of one expression; `kinds` are the types of the variables in scope."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {DEVICE: DEVICE}
        self._functions = library().functions

    def compile(self, node: Node) -> Compiled:
        match node:
            case Constant(value=value):
                return Compiled(lambda scope: value, kind_of(value))
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Has():
                return self._has(node)
            case Index():
                return self._index(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Loop():
                return self._loop(node)
            case Bind():
                return self._bind(node)

    # --- names and fields

    def _ident(self, node: Ident) -> Compiled:
        name = node.name
        if name in self._kinds:

            def run(scope: Scope) -> Any:
                scope.spend(1)
                return scope.variables[name]

            return Compiled(run, self._kinds[name])
        if name in TYPES:
            return Compiled(lambda scope: TypeName(name), "type")
        raise CompileError(f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Select) -> Compiled:
        operand, field = self.compile(node.operand), node.field
        if node.optional:
            return Compiled(optionally(operand.run, lambda value, scope: read_field(value, field)), "optional_type")
        kind = self._field_kind(operand.kind, field)
        inner = operand.run

        def run(scope: Scope) -> Any:
            scope.spend(1)
            return read_field(inner(scope), field)

        return Compiled(run, kind)

    def _field_kind(self, kind: str, field: str) -> str:
        if kind == DEVICE:
            if field not in DEVICE_FIELDS:
                raise CompileError(f"undefined field '{field}'")
            return DEVICE_FIELDS[field]
        base, _ = parameters(kind)
        if base == "map":
            return value_of(kind)
        if base in OPEN or base == "optional_type":
            return DYN if base != "optional_type" else "optional_type"
        raise CompileError(f"type '{kind}' does not support field selection")

    def _has(self, node: Has) -> Compiled:
        operand, field = self.compile(node.operand), node.field
        self._field_kind(operand.kind, field)
        inner = operand.run

        def run(scope: Scope) -> bool:
            return has_field(inner(scope), field)

        return Compiled(run, "bool")

    def _index(self, node: Index) -> Compiled:
        operand, key = self.compile(node.operand), self.compile(node.key)
        base, inner_kinds = parameters(operand.kind)
        if base not in ("list", "map", "optional_type", *OPEN):
            raise CompileError(_no_overload("_[_]", (operand.kind, key.kind)))
        if base == "map" and inner_kinds and not fits(inner_kinds[0], key.kind):
            raise CompileError(_no_overload("_[_]", (operand.kind, key.kind)))
        if base == "list" and key.kind not in ("int", *OPEN):
            raise CompileError(_no_overload("_[_]", (operand.kind, key.kind)))
        if node.optional:
            run_key = key.run
            return Compiled(
                optionally(operand.run, lambda value, scope: read_item(value, run_key(scope))), "optional_type"
            )
        whole, at = operand.run, key.run

        def run(scope: Scope) -> Any:
            scope.spend(1)
            return read_item(whole(scope), at(scope))

        return Compiled(run, value_of(operand.kind) if base in ("list", "map") else DYN)

    # --- calls

    def _call(self, node: Call) -> Compiled:
        special = {"_&&_": self._logic, "_||_": self._logic, "_?_:_": self._conditional}.get(node.function)
        if special is not None:
            return special(node)
        if node.target is not None and node.function in ("or", "orValue"):
            return self._or(node)
        name, args = self._resolved(node)
        compiled = [self._argument(name, arg) for arg in args]
        kinds = tuple(arg.kind for arg in compiled)
        is_method = node.target is not None and len(args) > len(node.args)
        chosen = self._overloads(name, kinds, is_method)
        self._check_constants(name, args)
        result = joined([overload.result for overload in chosen])
        function, runs = dispatch(_called(name, args), chosen), [arg.run for arg in compiled]
        return Compiled(_calling(function, runs), self._result_kind(name, result, kinds))

    def _argument(self, name: str, arg: Node) -> Compiled:
        """The values of a format may be of different types, unlike the items of other lists."""
        return self._list(arg, mixed=True) if name == "format" and isinstance(arg, ListLiteral) else self.compile(arg)

    def _resolved(self, node: Call) -> tuple[str, tuple[Node, ...]]:
        """The name of the function with its namespace, and its arguments: a target that is no namespace is one."""
        match node.target:
            case None:
                return node.function, node.args
            case Ident(name=space) if space in _namespaces() and space not in self._kinds:
                return f"{space}.{node.function}", node.args
            case target:
                return node.function, (target, *node.args)

    def _overloads(self, name: str, kinds: tuple[str, ...], is_method: bool) -> list[Overload]:
        known = self._functions.get(name)
        if known is None:
            raise CompileError(f"undeclared reference to '{name}' (in container '')")
        fitting = [
            overload
            for overload in known
            if overload.is_method == is_method
            and len(overload.args) == len(kinds)
            and all(map(fits, overload.args, kinds))
        ]
        comparing = name in ("_==_", "_!=_") and not fits(kinds[0], kinds[1])
        searching = name == "@in" and not fits(item_of(kinds[1]), kinds[0])
        if not fitting or comparing or searching:
            shown = f"'{kinds[0]}.({', '.join(kinds[1:])})'" if is_method else f"'({', '.join(kinds)})'"
            raise CompileError(f"found no matching overload for '{name}' applied to {shown}")
        return fitting

    def _result_kind(self, name: str, result: str, kinds: tuple[str, ...]) -> str:
        """Lists keep the type of their items."""
        if result == "list" and kinds and name not in ("flatten", "optional.unwrap", "unwrapOpt"):
            return kinds[0] if kinds[0].startswith("list") else "list(dyn)"
        if name in ("min", "max", "sum") and kinds[0].startswith("list("):
            return item_of(kinds[0])
        return result

    def _check_constants(self, name: str, args: tuple[Node, ...]) -> None:
        """What is written out has to be right: patterns, formats, and the text of numbers and times."""
        match name, args:
            case "matches" | "find" | "findAll", (_, Constant(value=str() as pattern), *_):
                problem = pattern_problem(pattern)
                if problem is not None:
                    raise CompileError(f"invalid {name} argument: error parsing regexp: {problem}")
            case "duration" | "timestamp", (Constant(value=value),):
                if _conversion_problem(name, value) is not None:
                    raise CompileError(f"invalid {name} argument")
            case "int" | "uint" | "double" | "bool", (Constant(value=value),):
                problem = _conversion_problem(name, value)
                if problem is not None:
                    raise InstantiationError(f"program instantiation failed: {problem}")
            case "format", (Constant(value=str() as template), ListLiteral(items=items)):
                problem = format_problem(template, [self.compile(item).kind for _, item in items])
                if problem is not None:
                    raise CompileError(problem)

    def _logic(self, node: Call) -> Compiled:
        parts = [self.compile(arg) for arg in node.args]
        for part in parts:
            if not fits("bool", part.kind):
                raise CompileError(_no_overload(node.function, tuple(each.kind for each in parts)))
        deciding = node.function == "_||_"
        runs = [part.run for part in parts]

        def run(scope: Scope) -> bool:
            return decide((lambda each=each: each(scope) for each in runs), deciding)

        return Compiled(run, "bool")

    def _conditional(self, node: Call) -> Compiled:
        condition, chosen, other = (self.compile(arg) for arg in node.args)
        if not fits("bool", condition.kind) or not (fits(chosen.kind, other.kind)):
            raise CompileError(_no_overload("_?_:_", (condition.kind, chosen.kind, other.kind)))
        decide, yes, no = condition.run, chosen.run, other.run

        def run(scope: Scope) -> Any:
            scope.spend(1)
            decision = decide(scope)
            if decision is True:
                return yes(scope)
            if decision is False:
                return no(scope)
            raise EvaluationError("no such overload")

        return Compiled(run, joined([chosen.kind, other.kind]) if ANY not in (chosen.kind, other.kind) else ANY)

    def _or(self, node: Call) -> Compiled:
        """optional.or(optional) and optional.orValue(value): the argument counts only if there is no value."""
        assert node.target is not None
        target, [other] = self.compile(node.target), [self.compile(arg) for arg in node.args]
        first, second, unwrap = target.run, other.run, node.function == "orValue"

        def run(scope: Scope) -> Any:
            scope.spend(1)
            optional = first(scope)
            if not isinstance(optional, Optional):
                raise EvaluationError("no such overload")
            if optional.there:
                return optional.value if unwrap else optional
            return second(scope)

        return Compiled(run, other.kind if unwrap and other.kind not in OPEN else DYN if unwrap else "optional_type")

    # --- literals

    def _list(self, node: ListLiteral, *, mixed: bool = False) -> Compiled:
        items = [(optional, self.compile(item)) for optional, item in node.items]
        kinds = [item.kind for optional, item in items if not optional]
        if not mixed:
            _check_alike(kinds)
        runs = [(optional, item.run) for optional, item in items]

        def run(scope: Scope) -> list[Any]:
            scope.spend(10)
            made: list[Any] = []
            for optional, item in runs:
                value = item(scope)
                if not optional:
                    made.append(value)
                elif value.there:
                    made.append(value.value)
            return made

        return Compiled(run, f"list({joined(kinds)})")

    def _map(self, node: MapLiteral) -> Compiled:
        entries = [(optional, self.compile(key), self.compile(value)) for optional, key, value in node.entries]
        keys = [key.kind for _, key, _ in entries]
        values = [value.kind for optional, _, value in entries if not optional]
        _check_alike(keys)
        _check_alike(values)
        runs = [(optional, key.run, value.run) for optional, key, value in entries]

        def run(scope: Scope) -> dict[Any, Any]:
            scope.spend(30)
            made: dict[Any, Any] = {}
            for optional, key, value in runs:
                made_key, made_value = key(scope), value(scope)
                if type(made_key) not in (str, int, bool, Uint):
                    raise EvaluationError("unsupported key type")
                if not optional:
                    made[made_key] = made_value
                elif made_value.there:
                    made[made_key] = made_value.value
            return made

        return Compiled(run, f"map({joined(keys)}, {joined(values)})")

    # --- macros

    def _bind(self, node: Bind) -> Compiled:
        value = self.compile(node.value)
        body = self._within({node.variable: value.kind}, node.body)
        give, inner, name = value.run, body.run, node.variable

        def run(scope: Scope) -> Any:
            scope.spend(10)
            return run_with(scope, (name,), (give(scope),), inner)

        return Compiled(run, body.kind)

    def _within(self, kinds: Mapping[str, str], node: Node) -> Compiled:
        before = self._kinds
        self._kinds = {**before, **kinds}
        try:
            return self.compile(node)
        finally:
            self._kinds = before

    def _loop(self, node: Loop) -> Compiled:
        over = self.compile(node.over)
        if node.macro in ("optMap", "optFlatMap"):
            return self._optional_map(node, over)
        base, _ = parameters(over.kind)
        if base not in ("list", "map", DYN):
            # An attribute could be a list one day; today the checker refuses to loop over one.
            raise CompileError(
                f"expression of type '{over.kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
            )
        kinds = self._variable_kinds(node, over.kind)
        args = [self._within(kinds, arg) for arg in node.args]
        return LOOPS[node.macro](over.run, node.variables, args, over.kind)

    def _variable_kinds(self, node: Loop, kind: str) -> dict[str, str]:
        if len(node.variables) == 1:
            return {node.variables[0]: item_of(kind)}
        is_list = kind.startswith("list")
        first = "int" if is_list else item_of(kind)
        return {node.variables[0]: first, node.variables[1]: value_of(kind)}

    def _optional_map(self, node: Loop, over: Compiled) -> Compiled:
        body = self._within({node.variables[0]: DYN}, node.args[0])
        give, inner, flat = over.run, body.run, node.macro == "optFlatMap"

        def run(scope: Scope) -> Any:
            scope.spend(1)
            optional = give(scope)
            if not isinstance(optional, Optional):
                raise EvaluationError("no such overload")
            if not optional.there:
                return NONE
            result = run_with(scope, node.variables, (optional.value,), inner)
            return result if flat else Optional(True, result)

        return Compiled(run, "optional_type")


# --- calls


def _called(name: str, args: tuple[Node, ...]) -> str:
    """The name that errors have."""
    has_pattern = name in ("matches", "find", "findAll") and isinstance(args[1], Constant)
    return CONSTANT_PATTERN if has_pattern else name


def _conversion_problem(name: str, value: Any) -> str | None:
    try:
        dispatch(name, library().functions[name])(value)
    except EvaluationError as error:
        return str(error)
    return None


def _calling(function: Callable[..., Any], runs: list[Run]) -> Run:
    def run(scope: Scope) -> Any:
        args = [each(scope) for each in runs]
        scope.spend(1 + sum(len(arg) for arg in args if isinstance(arg, (str, list))) // _CHARACTERS_A_UNIT)
        return function(*args)

    return run


def _no_overload(name: str, kinds: tuple[str, ...]) -> str:
    return f"found no matching overload for '{name}' applied to '({', '.join(kinds)})'"


def _check_alike(kinds: list[str]) -> None:
    known = {kind for kind in kinds if kind not in OPEN}
    if len(known) > 1 and not all(fits(kinds[0], kind) for kind in kinds):
        first, other = kinds[0], next(kind for kind in kinds if not fits(kinds[0], kind))
        raise CompileError(f"expected type '{first}' but found '{other}'")
