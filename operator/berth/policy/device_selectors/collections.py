"""Libraries for lists and sets, and optional values."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from .overloads import Library
from .values import (
    MAX_INT,
    NONE,
    Duration,
    EvaluationError,
    Optional,
    Uint,
    compare,
    equal,
    kind_of,
)

_SUMMABLE: Final = ("int", "uint", "double", "google.protobuf.Duration")
_COMPARABLE: Final = (*_SUMMABLE, "bool", "google.protobuf.Timestamp", "string", "bytes")


def add_collections(library: Library) -> None:
    _add_lists(library)
    _add_sets(library)
    _add_optionals(library)


# --- lists


def _add_lists(library: Library) -> None:
    method = library.method
    for kind in _COMPARABLE:
        method("isSorted", f"list({kind})", "bool", _is_sorted)
        method("min", f"list({kind})", kind, lambda items: _extreme(items, "min", -1))
        method("max", f"list({kind})", kind, lambda items: _extreme(items, "max", 1))
    for kind in _SUMMABLE:
        method("sum", f"list({kind})", kind, _sum)
    method("indexOf", "list dyn", "int", _index_of)
    method("lastIndexOf", "list dyn", "int", _last_index_of)
    method("slice", "list int int", "list", _slice)
    method("flatten", "list", "list", lambda items: _flatten(items, 1))
    method("flatten", "list int", "list", _flatten)
    method("distinct", "list", "list", _distinct)
    method("reverse", "list", "list", lambda items: items[::-1])
    method("sort", "list", "list", lambda items: sort_by(items, items))
    method("first", "list", "optional_type", lambda items: Optional(True, items[0]) if items else NONE)
    method("last", "list", "optional_type", lambda items: Optional(True, items[-1]) if items else NONE)
    library.add("lists.range", "int", "list(int)", _range)


def sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    """The items in the order of their keys, which must all be of one type that has an order."""
    if len({kind_of(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    if keys and kind_of(keys[0]) in ("list", "map", "null_type"):
        raise EvaluationError("list elements must be comparable")
    pairs: list[tuple[Any, Any]] = list(zip(keys, items, strict=True))
    pairs.sort(key=cmp_to_key(_by_key))
    return [item for _, item in pairs]


def _by_key(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
    return compare(one[0], other[0])


def _is_sorted(items: list[Any]) -> bool:
    return all(compare(one, other) <= 0 for one, other in pairwise(items))


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    first = items[0]
    if any(type(item) is not type(first) for item in items):
        raise EvaluationError("no such overload")
    match first:
        case Duration():
            return Duration(sum(item.nanos for item in items))
        case Uint():
            return Uint(sum(items))
        case bool() | str():
            raise EvaluationError("no such overload")
    total = sum(items)
    if isinstance(total, int) and not -MAX_INT - 1 <= total <= MAX_INT:
        raise EvaluationError("integer overflow")
    return total


def _extreme(items: list[Any], name: str, wanted: int) -> Any:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    best = items[0]
    for item in items[1:]:
        if compare(item, best) == wanted:
            best = item
    return best


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((place for place, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((place for place in reversed(range(len(items))) if equal(items[place], wanted)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        flat += _flatten(item, depth - 1) if isinstance(item, list) and depth > 0 else [item]
    return flat


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if not any(equal(item, each) for each in found):
            found.append(item)
    return found


def _range(count: int) -> list[int]:
    if count > 100_000:
        raise EvaluationError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


# --- sets


def _add_sets(library: Library) -> None:
    library.add("sets.contains", "list list", "bool", _contains_all)
    library.add("sets.equivalent", "list list", "bool", lambda a, b: _contains_all(a, b) and _contains_all(b, a))
    library.add("sets.intersects", "list list", "bool", lambda a, b: any(_has(a, item) for item in b))


def _contains_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(_has(items, item) for item in wanted)


def _has(items: list[Any], wanted: Any) -> bool:
    return any(equal(item, wanted) for item in items)


# --- optional values


def _add_optionals(library: Library) -> None:
    library.add("optional.of", "dyn", "optional_type", lambda value: Optional(True, value))
    library.add("optional.ofNonZeroValue", "dyn", "optional_type", _of_non_zero)
    library.add("optional.none", "", "optional_type", lambda: NONE)
    library.method("hasValue", "optional_type", "bool", lambda optional: optional.there)
    library.method("value", "optional_type", "dyn", _value)
    library.add("optional.unwrap", "list", "list", _unwrap)
    library.method("unwrapOpt", "list", "list", _unwrap)


def _of_non_zero(value: Any) -> Optional:
    return NONE if value is None or value in (0, "", b"", [], {}) else Optional(True, value)


def _value(optional: Optional) -> Any:
    if not optional.there:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(items: list[Any]) -> list[Any]:
    return [item.value for item in items if item.there]
