"""What an expression reads of a node, a pod and the policy's parameters, found in its tree.

A key of a map that is written out (`node.labels['zone']`, `node.labels.zone`, has(), `in`, `[?'zone']`), or is itself a
parameter of the policy, is read alone; used in any other way the entire map is read. Nothing else is given to the
expression, so two nodes that are equal in all that is found here get the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from berth.policy.expressions.fields import FIELDS, VARIABLES, FieldKind
from berth.policy.expressions.syntax import Call, Comprehension, Constant, Expr, Ident, Select, children

PARAMETERS: Final = "policy.parameters"
_LOOK_UPS: Final = ("_[_]", "_[?_]", "_?._")


class Complaint(Exception):
    """A part of an expression is invalid, and the problem has been noted; the other parts can still be checked."""


Complain = Callable[[Expr, str], NoReturn]
"""Notes a problem of a node of the tree, and raises Complaint."""


@dataclass(slots=True)
class ExpressionReads:
    """`whole` are fields read as they are, `keys` those of the others; `asked` (field, key) may not be there."""

    whole: set[str] = field(default_factory=set)
    keys: dict[str, set[str]] = field(default_factory=dict)
    asked: set[tuple[str, str]] = field(default_factory=set)

    @property
    def fields(self) -> set[str]:
        return self.whole | self.keys.keys()

    def of(self, variable: str) -> list[str]:
        """The fields of node, pod or policy that are read, in a fixed order."""
        return sorted(name for name in self.fields if name.startswith(f"{variable}."))

    def named(self, name: str) -> tuple[str, ...] | None:
        """The keys that are read of a map; None where it is read whole."""
        return None if name in self.whole else tuple(sorted(self.keys[name]))


def find_reads(root: Expr, parameters: Mapping[str, Any], complain: Complain) -> ExpressionReads:
    """What it reads; not all of it where `complain` was called, of each operand that is wrong once."""
    return _Finder(parameters, complain).find(root)


class _Finder:
    def __init__(self, parameters: Mapping[str, Any], complain: Complain) -> None:
        self._parameters, self._complain = parameters, complain
        self._reads = ExpressionReads()

    def find(self, root: Expr) -> ExpressionReads:
        with suppress(Complaint):
            self._walk(root, {})
        for name in self._reads.whole:
            self._reads.keys.pop(name, None)
        return self._reads

    def _walk(self, expr: Expr, scope: Mapping[str, str]) -> None:
        """`scope` has the variables that stand for one item of a field, with the field."""
        match expr:
            case Ident(name=name) if name in VARIABLES:
                self._complain(expr, f"name a field of {name}: {name}.{', '.join(_fields_of(name))}")
            case Ident(name=name) if name.startswith("."):
                self._complain(expr, f"write {name[1:]} without the dot before it")
            case Select(operand=Ident(name=name), asks=True) if name in VARIABLES:
                self._complain(expr, f"{self._field(expr)} is always there; has() asks for a key in it")
            case Select():
                self._walk_select(expr, scope)
            case Call(function=function, args=(target, key)) if function in _LOOK_UPS:
                self._look_up(target, key, scope, asks=function != "_[_]")
            case Call(function="@in", args=(key, target)):
                self._look_up(target, key, scope, asks=True)
            case Comprehension():
                self._walk_comprehension(expr, scope)
            case _:
                for child in children(expr):
                    with suppress(Complaint):
                        self._walk(child, scope)

    def _walk_select(self, expr: Select, scope: Mapping[str, str]) -> None:
        whole = self._field(expr)
        if whole is not None:
            self._reads.whole.add(whole)
            return
        self._check_record(expr, scope)
        self.parameter(expr)
        self._look_up(expr.operand, Constant(expr.id, expr.field), scope, asks=expr.asks)

    def _look_up(self, target: Expr, key: Expr, scope: Mapping[str, str], asks: bool) -> None:
        name = self._field(target)
        wanted = self.parameter(key) if not isinstance(key, Constant) else key.value
        if name is not None and FIELDS[name].kind.has_keys and isinstance(wanted, str):
            known = FIELDS[name].keys
            if known and wanted not in known:
                self._complain(key, f"{name} has no {wanted!r}{suggestion(wanted, known)}")
            self._reads.keys.setdefault(name, set()).add(wanted)
            if asks:
                self._reads.asked.add((name, wanted))
        else:
            self._walk(target, scope)
        self._walk(key, scope)

    def _walk_comprehension(self, expr: Comprehension, scope: Mapping[str, str]) -> None:
        for variable in (expr.variable, expr.total):
            if variable in VARIABLES:
                self._complain(expr, f"{variable} has a meaning already; give the variable another name")
        self._walk(expr.over, scope)
        self._walk(expr.start, scope)
        over, bound = self._field(expr.over), self._record(expr.start, scope)
        inner = {name: of for name, of in scope.items() if name not in (expr.variable, expr.total)}
        if over is not None and FIELDS[over].kind is FieldKind.RECORDS:
            inner[expr.variable] = over
        if bound is not None:
            inner[expr.total] = bound
        for part in (expr.goes_on, expr.step, expr.result):
            self._walk(part, inner)

    def _field(self, expr: Expr) -> str | None:
        """node.labels and its like, by name."""
        match expr:
            case Select(operand=Ident(name=variable), field=wanted) if variable in VARIABLES:
                if f"{variable}.{wanted}" not in FIELDS:
                    known = _fields_of(variable)
                    self._complain(expr, f"{variable} has no field {wanted!r}{suggestion(wanted, known)}")
                return f"{variable}.{wanted}"
        return None

    def _record(self, expr: Expr, scope: Mapping[str, str]) -> str | None:
        """The field of which the expression is one item, where that is plain."""
        match expr:
            case Ident(name=name):
                return scope.get(name)
            case Call(function="_[_]", args=(target, _)):
                of = self._field(target)
                return of if of is not None and FIELDS[of].kind is FieldKind.RECORDS else None
        return None

    def _check_record(self, expr: Select, scope: Mapping[str, str]) -> None:
        of = self._record(expr.operand, scope)
        if of is not None and expr.field not in FIELDS[of].keys:
            self._complain(expr, f"an entry of {of} has no {expr.field!r}{suggestion(expr.field, FIELDS[of].keys)}")

    def parameter(self, expr: Expr) -> Any:
        """What a look-up in policy.parameters gives, where it is written out; None for all else."""
        match expr:
            case Select(operand=operand, field=key, asks=False):
                if self._field(expr) == PARAMETERS:
                    return self._parameters
                within = self.parameter(operand)
            case Call(function="_[_]", args=(operand, Constant(value=str() as key))):
                within = self.parameter(operand)
            case _:
                return None
        if not isinstance(within, Mapping):
            return None
        if key not in within:
            self._complain(expr, f"there is no parameter {key!r}{suggestion(key, tuple(map(str, within)))}")
        return within[key]


def suggestion(wanted: str, known: tuple[str, ...]) -> str:
    """The known name that was probably meant, or all of them."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(wanted.lower(), by_lower, 1, 0.6)
    if close:
        return f"; did you mean {by_lower[close[0]]!r}?"
    return f"; known are {', '.join(sorted(known)[:20])}" if known else "; there are none"


def _fields_of(variable: str) -> tuple[str, ...]:
    return tuple(name.partition(".")[2] for name in FIELDS if name.startswith(f"{variable}."))
