"""Fields and items of values, of optional values too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .scope import Run, Scope
from .values import NONE, Domains, EvaluationError, Optional, kind_of


def read_field(value: Any, field: str) -> Any:
    if isinstance(value, Optional):
        return _optional(lambda: read_field(value.value, field)) if value.there else NONE
    if not isinstance(value, dict):
        raise EvaluationError(f"no such key: {field}")
    return _looked_up(value, field)


def read_item(value: Any, key: Any) -> Any:
    if isinstance(value, Optional):
        return _optional(lambda: read_item(value.value, key)) if value.there else NONE
    if isinstance(value, list):
        return _listed(value, key)
    if not isinstance(value, dict):
        raise EvaluationError(f"no such key: {key}")
    return _looked_up(value, key)


def _looked_up(value: dict[Any, Any], key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, TypeError):
        if isinstance(value, Domains) and isinstance(key, str):
            return {}
        raise EvaluationError(f"no such key: {key}") from None


def _listed(items: list[Any], key: Any) -> Any:
    if isinstance(key, float) and key == int(key):
        key = int(key)
    if not isinstance(key, int) or isinstance(key, bool):
        raise EvaluationError(f"unsupported index type '{kind_of(key)}' in list")
    if not 0 <= key < len(items):
        raise EvaluationError(f"index out of bounds: {key}")
    return items[key]


def has_field(value: Any, field: str) -> bool:
    if isinstance(value, Optional):
        return value.there and has_field(value.value, field)
    if value is None:
        return False
    if not isinstance(value, dict):
        raise EvaluationError("no such overload")
    return field in value or isinstance(value, Domains)


def _optional(give: Callable[[], Any]) -> Optional:
    try:
        return Optional(True, give())
    except EvaluationError as error:
        if str(error).startswith(("no such key", "index out of bounds")):
            return NONE
        raise


def optionally(operand: Run, part: Callable[[Any, Scope], Any]) -> Run:
    def run(scope: Scope) -> Optional:
        scope.spend(1)
        value = operand(scope)
        if isinstance(value, Optional):
            if not value.there:
                return NONE
            value = value.value
        return _optional(lambda: part(value, scope))

    return run
