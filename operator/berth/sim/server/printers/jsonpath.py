"""The part of JSONPath that printer columns of custom resources use.

    .spec.schedulerName      .spec['a.b']      .metadata.labels.a\\.b
    .status.conditions[?(@.type=="Active")].status      .spec.hosts[0]      .spec.hosts[*]

An invalid path is refused when it is compiled. A missing field yields nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""
      \.(?P<field>(?:\\.|[^.\[\\])+)
    | \[(?P<index>-?\d+)\]
    | (?P<all>\[\*\]|\.\*)
    | \['(?P<quoted>(?:\\.|[^'\\])+)'\]
    | \[\?\(\s*@\.(?P<key>[\w.-]+)\s*==\s*(?P<literal>"[^"]*"|'[^']*'|true|false|-?\d+)\s*\)\]
    """,
    re.VERBOSE,
)

Step = Callable[[Any], Iterable[Any]]


class BadPath(ValueError):
    """A path that is not understood."""


@lru_cache(maxsize=512)
def compile_path(path: str) -> tuple[Step, ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = f".{text}"
    steps: list[Step] = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise BadPath(f"{path}: {text[position:]} is not understood")
        steps.append(_step(found))
        position = found.end()
    return tuple(steps)


def find_all(path: str, body: Any) -> list[Any]:
    """Everything that the path leads to."""
    values = [body]
    for step in compile_path(path):
        values = [found for value in values for found in step(value)]
    return values


def _step(found: re.Match[str]) -> Step:
    if found["all"]:
        return _all
    if found["index"]:
        return _index(int(found["index"]))
    if found["key"]:
        return _matching(found["key"].split("."), found["literal"])
    return _field(re.sub(r"\\(.)", r"\1", found["field"] or found["quoted"]))


def _field(name: str) -> Step:
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _index(place: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        inside = isinstance(value, list) and -len(value) <= place < len(value)
        return (value[place],) if inside else ()

    return step


def _all(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _matching(keys: list[str], literal: str) -> Step:
    wanted = literal[1:-1] if literal[0] in "\"'" else literal

    def matches(item: Any) -> bool:
        for key in keys:
            item = item.get(key) if isinstance(item, dict) else None
        text = str(item).lower() if isinstance(item, bool) else str(item)
        return item is not None and text == wanted

    return lambda value: [item for item in value if matches(item)] if isinstance(value, list) else ()
