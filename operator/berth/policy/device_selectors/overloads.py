"""Functions by name, each with its overloads: types of arguments, type of the result, and what it does.

A type is written as CEL writes it: "int", "list(string)", "map(string, dyn)". "dyn" fits everything and so does "any",
the type of a device's attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from .values import KINDS, EvaluationError, kind_of

DYN: Final = "dyn"
ANY: Final = "any"
OPEN: Final = frozenset({DYN, ANY})
CONSTANT_PATTERN: Final = "a constant pattern"  # in place of the name of a function that has one
PLAIN: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"})
_NUMBERS: Final = frozenset({"int", "uint", "double"})
_TIMES: Final = frozenset({"google.protobuf.Duration", "google.protobuf.Timestamp"})
# The types that an operator is for at all: with these on its left, an error does not name it.
_OPERANDS: Final = {
    "_+_": _NUMBERS | _TIMES | {"string", "bytes", "list"},
    "_-_": _NUMBERS | _TIMES,
    "_*_": _NUMBERS,
    "_/_": _NUMBERS,
    "_%_": frozenset({"int", "uint"}),
    "-_": PLAIN,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _NUMBERS | _TIMES | {"bool", "string", "bytes"}),
}
_TERSE: Final = frozenset({"startsWith", "endsWith", "contains", CONSTANT_PATTERN})

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


class Overload(NamedTuple):
    """A method has its target as its first argument."""

    is_method: bool
    args: tuple[str, ...]
    result: str
    run: Function


@dataclass(slots=True)
class Library:
    """All functions that an expression may call."""

    functions: dict[str, list[Overload]]

    def add(self, name: str, args: str, result: str, run: Function, *, method: bool = False) -> None:
        """One more overload; the types of its arguments are separated by blanks."""
        types = tuple(_split(args))
        self.functions.setdefault(name, []).append(Overload(method, types, result, run))

    def method(self, name: str, args: str, result: str, run: Function) -> None:
        self.add(name, args, result, run, method=True)


def fits(wanted: str, given: str) -> bool:
    """Whether an argument of one type can be given where another is wanted."""
    if wanted == given or wanted in OPEN or given in OPEN:
        return True
    if "null_type" in (wanted, given):  # null stands for a missing value of any type but the plain ones
        return parameters(given if wanted == "null_type" else wanted)[0] not in PLAIN
    base, inner = parameters(wanted)
    given_base, given_inner = parameters(given)
    if base != given_base:
        return False
    if not inner or not given_inner:
        return True
    return len(inner) == len(given_inner) and all(map(fits, inner, given_inner))


def joined(types: Sequence[str]) -> str:
    """The type of something that has one of these types."""
    if not types:
        return DYN
    first = types[0]
    return first if all(each == first for each in types) else DYN


def parameters(kind: str) -> tuple[str, tuple[str, ...]]:
    """ "map(string, int)" as "map" and ("string", "int")."""
    base, bracket, rest = kind.partition("(")
    return (base, tuple(_split(rest[:-1].replace(", ", " ")))) if bracket else (kind, ())


def item_of(kind: str) -> str:
    """The type of what a loop over a value of this type sees: items of a list, keys of a map."""
    base, inner = parameters(kind)
    return inner[0] if base in ("list", "map") and inner else DYN


def value_of(kind: str) -> str:
    """The type of what an index into a value of this type gives."""
    _, inner = parameters(kind)
    return inner[-1] if inner else DYN


def dispatch(name: str, overloads: Sequence[Overload]) -> Function:
    """Returns a function that runs the overload for the types of its arguments."""
    if len(overloads) == 1:
        return _checked(name, overloads[0])
    by_types: dict[tuple[str, ...], Function] = {}

    def run(*args: Any) -> Any:
        kinds = tuple(map(kind_of, args))
        chosen = by_types.get(kinds)
        if chosen is None:
            for overload in overloads:
                if all(map(_holds, overload.args, kinds)):
                    chosen = by_types[kinds] = overload.run
                    break
            else:
                raise no_such_overload(name, args)
        return chosen(*args)

    return run


def no_such_overload(name: str, args: Sequence[Any]) -> EvaluationError:
    """In the words of the library that Kubernetes has, which differ by function."""
    kinds = [kind_of(arg) for arg in args]
    said = f"{name}({', '.join(kinds)})"
    if name in _OPERANDS:
        said = "" if kinds[0] in _OPERANDS[name] else name
    elif name in ("size", "sort", "matches"):
        said = name
    elif name == "flatten":
        said = f"{kinds[0]}.flatten()"
    elif name in _TERSE or name[0] in "_!@":
        said = ""
    return EvaluationError(f"no such overload: {said}" if said else "no such overload")


def _checked(name: str, overload: Overload) -> Function:
    wanted = [None if each in OPEN or len(each) == 1 else parameters(each)[0] for each in overload.args]
    function = overload.run

    def run(*args: Any) -> Any:
        for want, arg in zip(wanted, args, strict=True):
            if want is not None and KINDS[type(arg)] != want:
                raise no_such_overload(name, args)
        return function(*args)

    return run


def _holds(wanted: str, kind: str) -> bool:
    return wanted in OPEN or parameters(wanted)[0] == kind


def _split(types: str) -> list[str]:
    """At the blanks that are not inside brackets."""
    found, depth = [""], 0
    for character in types:
        depth += (character == "(") - (character == ")")
        if character == " " and not depth:
            found.append("")
        else:
            found[-1] += character
    return [each.strip() for each in found if each.strip()]
