"""An upper bound of what one evaluation costs, in units of about a tenth of a microsecond.

The library stops an evaluation after 10,000 iterations of its loops, but counts neither what is done in one of them
nor how long a text grows (`replace` multiplies, `map` copies its list at every step). So the tree is walked once with
the largest sizes that its inputs can have: each part has a shape (how many items, of what shape) and a cost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from berth.policy.expressions.fields import FIELDS, LONGEST_KEY, FieldKind
from berth.policy.expressions.syntax import Call, Comprehension, Constant, Expr, Ident, Literal, Select

BASE: Final = 50  # one evaluation of the simplest expression
_CHARS_PER_UNIT, _COPIED_CHARS_PER_UNIT, _COPIED_ITEMS_PER_UNIT = 16, 512, 4
_REGEX: Final = 10_000  # as much as the largest that the library takes
_REGEX_CHAR: Final = 40
_MOST_DIGITS: Final = 1000  # of a formatted number


@dataclass(frozen=True, slots=True)
class ValueShape:
    """`count` characters, items or entries; 1 of a scalar."""

    count: int
    item: ValueShape | None = None
    key: ValueShape | None = None

    @property
    def weight(self) -> int:
        """Everything in it."""
        inner = (self.item.weight if self.item else 0) + (self.key.weight if self.key else 0)
        return self.count * max(1, inner)


SCALAR: Final = ValueShape(1)
_KEY: Final = ValueShape(LONGEST_KEY)


def shape_of_field(name: str, count: int) -> ValueShape:
    """Of a field with so many entries."""
    field = FIELDS[name]
    text = ValueShape(field.longest)
    match field.kind:
        case FieldKind.TEXT:
            return text
        case FieldKind.LIST:
            return ValueShape(count, text)
        case FieldKind.TEXTS:
            return ValueShape(count, text, _KEY)
        case FieldKind.AMOUNTS:
            return ValueShape(count, SCALAR, _KEY)
        case FieldKind.RECORDS:
            return ValueShape(count, ValueShape(len(field.keys), text, SCALAR))
        case _:
            return SCALAR


def shape_of_value(value: Any) -> ValueShape:
    """Of a parameter."""
    match value:
        case str():
            return ValueShape(len(value))
        case Mapping():
            keys, values = _joined(map(shape_of_value, value)), _joined(map(shape_of_value, value.values()))
            return ValueShape(len(value), values, keys)
        case list() | tuple():
            return ValueShape(len(value), _joined(map(shape_of_value, value)))
    return SCALAR


def cost_of(root: Expr, shapes: Mapping[str, ValueShape]) -> int:
    """`shapes` are those of the fields that the expression reads."""
    given = sum(_entries(shape) + shape.weight // _COPIED_CHARS_PER_UNIT for shape in shapes.values())
    return BASE + 2 * given + _Estimate(shapes).of(root, {})[1]


class _Estimate:
    def __init__(self, fields: Mapping[str, ValueShape]) -> None:
        self._fields = fields

    def of(self, expr: Expr, scope: Mapping[str, ValueShape]) -> tuple[ValueShape, int]:
        match expr:
            case Constant(value=value):
                return ValueShape(len(value)) if isinstance(value, str) else SCALAR, 0
            case Ident(name=name):
                return scope.get(name, SCALAR), 0
            case Select(operand=Ident(name=variable), field=field) if f"{variable}.{field}" in self._fields:
                return self._fields[f"{variable}.{field}"], 0
            case Select():
                shape, cost = self.of(expr.operand, scope)
                return (SCALAR if expr.asks else shape.item or SCALAR), cost + 1
            case Literal():
                return self._literal(expr, scope)
            case Call():
                return self._call(expr, scope)
            case Comprehension():
                return self._loop(expr, scope)

    def _literal(self, expr: Literal, scope: Mapping[str, ValueShape]) -> tuple[ValueShape, int]:
        made = [self.of(item, scope) for item in expr.items]
        shapes, cost = [shape for shape, _ in made], 1 + len(made) + sum(cost for _, cost in made)
        if expr.is_map:
            return ValueShape(len(made) // 2, _joined(shapes[1::2]), _joined(shapes[::2])), cost
        return ValueShape(len(made), _joined(shapes)), cost

    def _loop(self, expr: Comprehension, scope: Mapping[str, ValueShape]) -> tuple[ValueShape, int]:
        over, cost = self.of(expr.over, scope)
        total, start_cost = self.of(expr.start, scope)
        item = over.key or over.item or SCALAR
        inner = {**scope, expr.variable: item, expr.total: total}
        if over.count and over.item is not None:
            once, _ = self.of(expr.step, inner)
            grown = total.count + over.count * max(0, once.count - total.count)
            total = ValueShape(grown, once.item, once.key)
            inner[expr.total] = total
            each = 1 + self.of(expr.goes_on, inner)[1] + self.of(expr.step, inner)[1]
            cost += over.count * each
        result, result_cost = self.of(expr.result, inner)
        return result, cost + start_cost + result_cost + 2

    def _call(self, expr: Call, scope: Mapping[str, ValueShape]) -> tuple[ValueShape, int]:
        made = [self.of(arg, scope) for arg in expr.args]
        shapes, cost = [shape for shape, _ in made], 1 + sum(cost for _, cost in made)
        first, last = (shapes[0], shapes[-1]) if shapes else (SCALAR, SCALAR)
        weight = sum(shape.weight for shape in shapes)
        read = weight // _CHARS_PER_UNIT
        match expr.function:
            case "_[_]" | "_[?_]" | "_?._" | "value" | "orValue" | "optional.of" | "of" if shapes:
                inner = first.item if expr.function.startswith("_") else None
                return _joined([inner or first, *shapes[1:]]) or SCALAR, cost
            case "_?_:_":
                return _joined(shapes[1:]) or SCALAR, cost
            case "_&&_" | "_||_" | "!_" | "@not_strictly_false":
                return SCALAR, cost
            case "_+_" if any(shape.item is not None for shape in shapes):
                item, key = _joined(s.item for s in shapes if s.item), _joined(s.key for s in shapes if s.key)
                count = sum(shape.count for shape in shapes)
                return ValueShape(count, item, key), cost + count // _COPIED_ITEMS_PER_UNIT
            case "_+_":
                return ValueShape(sum(shape.count for shape in shapes)), cost + weight // _COPIED_CHARS_PER_UNIT
            case "replace" if len(shapes) > 2:
                count = (first.count + 1) * max(1, shapes[2].count)
                return ValueShape(count), cost + read + count // _CHARS_PER_UNIT
            case "join":
                count = first.count * ((first.item.count if first.item else 1) + last.count)
                return ValueShape(count), cost + read + count // _CHARS_PER_UNIT
            case "format":
                count = first.count + last.weight + _MOST_DIGITS * last.count
                return ValueShape(count), cost + read + count // _CHARS_PER_UNIT
            case "split":
                return ValueShape(first.count + 1, ValueShape(first.count)), cost + read + first.count
            case "matches":
                return SCALAR, cost + read + _regex(expr.args[-1])
            case "@in":
                entries = last.count if last.key is None else 0
                return SCALAR, cost + entries + weight // _COPIED_CHARS_PER_UNIT
            case "_==_" | "_!=_":
                return SCALAR, cost + sum(map(_entries, shapes)) - len(shapes) + weight // _COPIED_CHARS_PER_UNIT
            case "size" | "startsWith" | "endsWith" | "contains" | "_<_" | "_>_" | "_<=_" | "_>=_":
                return SCALAR, cost + weight // _COPIED_CHARS_PER_UNIT
            case _:
                return ValueShape(max((s.count for s in shapes), default=1) * 2, first.item, first.key), cost + read


def _entries(shape: ValueShape) -> int:
    """The values in it, a text being one."""
    if shape.item is None:
        return 1
    return shape.count * (_entries(shape.item) + (shape.key is not None))


def _regex(pattern: Expr) -> int:
    """A pattern is compiled at each evaluation; counted repetitions multiply it."""
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        return _REGEX
    size = _REGEX_CHAR * (1 + len(pattern.value))
    for repetitions in re.findall(r"\{(\d+)?,?(\d+)?\}", pattern.value):
        size *= max([1, *(int(number) for number in repetitions if number)])
    return min(size, _REGEX)


def _joined(shapes: Any) -> ValueShape | None:
    """A shape that holds any of these; None without any."""
    found = list(shapes)
    if not found:
        return None
    count = max(shape.count for shape in found)
    items, keys = [s.item for s in found if s.item], [s.key for s in found if s.key]
    return ValueShape(count, _joined(items), _joined(keys))
