"""The tree of a selector, and the error for a text that is none.

Macros (`has`, `all`, `map`, `cel.bind`, ...) are nodes of their own: they are not expanded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


class CompileError(Exception):
    """The text is not a valid expression; the message says why."""


class InstantiationError(CompileError):
    """The expression is valid, but a constant part of it has no value."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """operand.field; with `optional`, operand.?field."""

    operand: Node
    field: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Has:
    """has(operand.field)."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class Index:
    """operand[key]; with `optional`, operand[?key]."""

    operand: Node
    key: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function, or an operator by its CEL name; a method has a target."""

    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """Items, and whether each is optional ([?a])."""

    items: tuple[tuple[bool, Node], ...]


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """Entries, and whether each is optional ({?a: b})."""

    entries: tuple[tuple[bool, Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro over the items of a list or map: `macro` with one or two variables and its arguments."""

    macro: str
    over: Node
    variables: tuple[str, ...]
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """cel.bind(variable, value, body)."""

    variable: str
    value: Node
    body: Node


Node: TypeAlias = Constant | Ident | Select | Has | Index | Call | ListLiteral | MapLiteral | Loop | Bind
