"""The tree of an expression, read from the library's serialised form.

The library compiles and evaluates but does not show its tree; it serialises it as the protobuf message `ParsedExpr`
of the CEL specification (cel/expr/syntax.proto). That is a small part of the wire format: numbers, and byte strings
that hold text or messages. Macros (`has`, `exists`, `map`, `cel.bind`, ...) are expanded in the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_FIXED64 = 1
_MASK64 = (1 << 64) - 1

Message = dict[int, list[int | bytes]]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. Of numbers other than integers only that they are there matters: they are None, as null is."""

    id: int
    value: str | bool | int | None


@dataclass(frozen=True, slots=True)
class Ident:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """operand.field, or has(operand.field) where it is only asked whether it is there."""

    id: int
    operand: Expr
    field: str
    asks: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator; the target of a method is the first argument."""

    id: int
    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A list; or a map, whose items are its keys and values in turn."""

    id: int
    items: tuple[Expr, ...]
    is_map: bool


@dataclass(frozen=True, slots=True)
class Comprehension:
    """`start`, then `step` for each item of `over` while `goes_on`, then `result`; cel.bind is one over nothing."""

    id: int
    variable: str
    over: Expr
    total: str
    start: Expr
    goes_on: Expr
    step: Expr
    result: Expr


Expr = Constant | Ident | Select | Call | Literal | Comprehension


@dataclass(frozen=True, slots=True)
class Tree:
    root: Expr
    offsets: dict[int, int]  # where in the text each node stands, by id


def children(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Select():
            yield expr.operand
        case Call():
            yield from expr.args
        case Literal():
            yield from expr.items
        case Comprehension():
            yield from (expr.over, expr.start, expr.goes_on, expr.step, expr.result)


def read_tree(serialised: bytes) -> Tree:
    """From `ParsedExpr`, which the library wraps into an `Any`."""
    parsed = _message(_bytes(_message(serialised), 2))
    source = _message(_bytes(parsed, 3))
    positions = [_message(entry) for entry in source.get(4, ()) if isinstance(entry, bytes)]
    return Tree(_expr(_bytes(parsed, 2)), {_integer(entry, 1): _integer(entry, 2) for entry in positions})


def _expr(data: bytes) -> Expr:
    message = _message(data)
    number = _integer(message, 2)
    kind = next((field for field in (3, 4, 5, 6, 7, 8, 9) if field in message), 0)
    body = _message(_bytes(message, kind)) if kind else {}
    match kind:
        case 3:
            return Constant(number, _constant(body))
        case 4:
            return Ident(number, _text(body, 1))
        case 5:
            return Select(number, _expr(_bytes(body, 1)), _text(body, 2), bool(_integer(body, 3)))
        case 6:
            target = [_expr(_bytes(body, 1))] if 1 in body else []
            return Call(number, _text(body, 2), (*target, *map(_expr, _all(body, 3))))
        case 7:
            return Literal(number, tuple(map(_expr, _all(body, 1))), is_map=False)
        case 8:
            entries = [_message(entry) for entry in _all(body, 2)]
            items = [_expr(_bytes(entry, part)) for entry in entries for part in (3, 4) if part in entry]
            return Literal(number, tuple(items), is_map=True)
        case 9:
            over, start, goes_on, step, result = (_expr(_bytes(body, part)) for part in (2, 4, 5, 6, 7))
            return Comprehension(number, _text(body, 1), over, _text(body, 3), start, goes_on, step, result)
        case _:
            return Constant(number, None)


def _constant(body: Message) -> str | bool | int | None:
    if 6 in body:
        return _text(body, 6)
    if 2 in body:
        return bool(_integer(body, 2))
    return _integer(body, 3) if 3 in body else None


# --- the wire format


def _message(data: bytes) -> Message:
    fields: Message = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
            case 1 | 5 as fixed:
                width = 8 if fixed == _FIXED64 else 4
                value, at = data[at : at + width], at + width
            case _:
                length, at = _varint(data, at)
                value, at = data[at : at + length], at + length
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _all(message: Message, field: int) -> list[bytes]:
    return [value for value in message.get(field, ()) if isinstance(value, bytes)]


def _bytes(message: Message, field: int) -> bytes:
    return (_all(message, field) or [b""])[-1]


def _text(message: Message, field: int) -> str:
    return _bytes(message, field).decode()


def _integer(message: Message, field: int) -> int:
    """A signed 64-bit integer; 0 where it is not there."""
    value = message.get(field, [0])[-1]
    number = value & _MASK64 if isinstance(value, int) else 0
    return number - (1 << 64) if number >> 63 else number
