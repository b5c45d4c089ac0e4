"""Keys that an expression reads without asking whether they are there: it fails on objects that lack them.

    node.labels['zone'] == 'a'                                  fails on nodes without the label
    'zone' in node.labels && node.labels['zone'] == 'a'         does not
    node.labels[?'zone'].orValue('') == 'a'                     nor does this

A key is guarded where the answer of a test decides whether the key is read. In CEL the order of the operands of && and
|| does not matter: an error on one side counts only if the other side does not decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from berth.policy.expressions.fields import FIELDS, VARIABLES, FieldKind
from berth.policy.expressions.syntax import Call, Constant, Expr, Ident, Select, children

Key = tuple[str, str]
"""A field, and a key of it."""

Facts = frozenset[Key]
"""Keys that are known to be there."""

# What kubelets and the API server write on every node.
ALWAYS_THERE: Final[Mapping[str, tuple[str, ...]]] = {
    "node.labels": ("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"),
    "node.conditions": ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"),
}
_NOTHING: Final[Facts] = frozenset()
_LACKS: Final[Mapping[str, str]] = {
    "node.labels": "on nodes without the label {}",
    "node.annotations": "on nodes without the annotation {}",
    "node.conditions": "on nodes without the condition {}",
    "pod.labels": "for pods without the label {}",
    "pod.nodeSelector": "for pods without {} in their nodeSelector",
    "pod.controller": "for pods without a controller",
}


@dataclass(frozen=True, slots=True)
class Unguarded:
    """A look-up that fails where the key is missing; its text says where that is, and the way out."""

    expr: Expr
    field: str
    key: str

    def __str__(self) -> str:
        escaped = self.key.replace("\\", r"\\").replace("'", r"\'")
        where = _LACKS[self.field].format(self.key)
        return (
            f"fails {where}; write {self.field}[?'{escaped}'].orValue(''), or test '{escaped}' in {self.field} before"
        )


def find_unguarded(root: Expr) -> list[Unguarded]:
    """Returns the look-ups that nothing guards, in the order of the expression, each key once."""
    found = {(look_up.field, look_up.key): look_up for look_up in reversed(list(_walk(root, _NOTHING)))}
    return list(reversed(found.values()))


def _walk(expr: Expr, known: Facts) -> Iterator[Unguarded]:
    match expr:
        case Call(function="_&&_", args=(one, other)):
            yield from _walk(one, known | _if_true(other))
            yield from _walk(other, known | _if_true(one))
            return
        case Call(function="_||_", args=(one, other)):
            yield from _walk(one, known | _if_false(other))
            yield from _walk(other, known | _if_false(one))
            return
        case Call(function="_?_:_", args=(condition, then, otherwise)):
            yield from _walk(condition, known)
            yield from _walk(then, known | _if_true(condition))
            yield from _walk(otherwise, known | _if_false(condition))
            return
    key = _look_up(expr)
    if key is not None and key not in known and key[1] not in ALWAYS_THERE.get(key[0], ()):
        yield Unguarded(expr, *key)
    for child in children(expr):
        yield from _walk(child, known)


def _look_up(expr: Expr) -> Key | None:
    """Returns what is read by `node.labels['zone']` or `node.labels.zone`."""
    match expr:
        case Call(function="_[_]", args=(target, Constant(value=str() as key))):
            return _key(target, key)
        case Select(operand=operand, field=key, asks=False):
            return _key(operand, key)
    return None


def _key(target: Expr, key: str) -> Key | None:
    """Amounts are left out: a resource that a node does not have reads as 0."""
    match target:
        case Select(operand=Ident(name=variable), field=name) if variable in VARIABLES:
            field = f"{variable}.{name}"
            return (field, key) if field in FIELDS and FIELDS[field].kind is FieldKind.TEXTS else None
    return None


def _if_true(expr: Expr) -> Facts:
    """Returns the keys that are there if the expression is true."""
    match expr:
        case Call(function="@in", args=(Constant(value=str() as key), target)):
            return _fact(_key(target, key))
        case Select(operand=operand, field=key, asks=True):
            return _fact(_key(operand, key))
        case Call(function="hasValue", args=(Call(function="_[?_]", args=(target, Constant(value=str() as key))),)):
            return _fact(_key(target, key))
        case Call(function="_&&_", args=(one, other)):
            return _if_true(one) | _if_true(other)
        case Call(function="_||_", args=(one, other)):
            return _if_true(one) & _if_true(other)
        case Call(function="!_", args=(inner,)):
            return _if_false(inner)
    return _NOTHING


def _if_false(expr: Expr) -> Facts:
    """Returns the keys that are there if the expression is false."""
    match expr:
        case Call(function="_||_", args=(one, other)):
            return _if_false(one) | _if_false(other)
        case Call(function="_&&_", args=(one, other)):
            return _if_false(one) & _if_false(other)
        case Call(function="!_", args=(inner,)):
            return _if_true(inner)
    return _NOTHING


def _fact(key: Key | None) -> Facts:
    return _NOTHING if key is None else frozenset((key,))
