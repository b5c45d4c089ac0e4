"""Rules of custom resources, in CEL (x-kubernetes-validations): a rule is either enforced or refused.

    refuse_unsupported(schema, path)       raises StatusError for rules that are unsupported, or invalid CEL
    broken_rules(value, schema, path)      the rules that an object breaks, as errors.Cause in the real server's words

A rule sees its value as `self`: numbers of a field of type number as doubles, as the real server has them. Rules on
transitions (oldSelf), messages that are expressions, and reasons are not supported, nor are functions that are not part
of CEL itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from cel_expr_python import cel  # type: ignore[import-untyped]

from berth.sim.errors import Cause, not_implemented

RULES: Final = "x-kubernetes-validations"
SUPPORTED: Final = frozenset(("rule", "message", "fieldPath"))


def refuse_unsupported(schema: Mapping[str, Any], path: str) -> None:
    for place, rule in enumerate(schema.get(RULES) or ()):
        where = f"{path}.{RULES}[{place}]"
        for key in sorted({*rule} - SUPPORTED):
            raise not_implemented(f"the embedded cluster does not enforce {where}.{key}: use a real API server")
        if "oldSelf" in rule["rule"]:
            raise not_implemented(f"the embedded cluster knows no oldSelf ({where}.rule): use a real API server")
        try:
            _program(rule["rule"])
        except RuntimeError as error:
            raise not_implemented(f"{where}.rule: {error}") from error


def broken_rules(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Of the value and of everything in it; it has the types that the schema wants."""
    for rule in schema.get(RULES) or ():
        problem = _problem(value, schema, rule)
        if problem:
            yield Cause(path + rule.get("fieldPath", "") if path else rule.get("fieldPath", "").lstrip("."), *problem)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key in sorted(value):
            child = properties.get(key) or schema.get("additionalProperties")
            if isinstance(child, Mapping):
                yield from broken_rules(value[key], child, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from broken_rules(item, schema.get("items", {}), f"{path}[{place}]")


def _problem(value: Any, schema: Mapping[str, Any], rule: Mapping[str, Any]) -> tuple[str, str] | None:
    """Reason and words where the rule does not hold."""
    answer = _program(rule["rule"]).eval(data={"self": _typed(value, schema)})
    if answer.type() == cel.Type.BOOL and answer.value():
        return None
    words = rule.get("message") or f"failed rule: {rule['rule'].strip()}"
    if answer.type() != cel.Type.BOOL:
        words = f"rule evaluation error: {answer.value()}"
    shown = "" if isinstance(value, dict | list) else f"{json.dumps(value)}: "
    return "FieldValueInvalid", f"Invalid value: {shown}{words}"


@cache
def _program(text: str) -> Any:
    return _environment().compile(text)


@cache
def _environment() -> Any:
    return cel.NewEnv(variables={"self": cel.Type.DYN})


def _typed(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties")
        more = more if isinstance(more, Mapping) else {}
        return {key: _typed(item, properties.get(key, more)) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item, schema.get("items", {})) for item in value]
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
