"""Salvage: the part of an invalid pod that can be parsed.

A bound pod takes room even if it is invalid, and a pending pod needs an event that says what is invalid. Both need a
record. It is made by cutting: parse, cut out the part that the error names, parse again.

    spec.containers[0].resources.requests.cpu   the one request: the others count
    spec.affinity.podAntiAffinity.required...   all of podAntiAffinity: half of a term could match more than the whole
    spec.volumes[2].csi.driver                  the volume
    metadata.labels.app                         the label

So parts are cut at a depth of three names, and containers and pod-level resources at the invalid field. After many cuts
whole sections are cut, which bounds the work for one object. Whatever exceeds a bound (bounds.py) is cut before the
first parse, all at once.

What it does not do: say that the pod can be scheduled. Its own constraints may be among the parts that were cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .bounds import Step, excesses
from .errors import InvalidObject
from .pod import Pod, parse_pod

_FINE_CUTS: Final = 32
_TO_THE_LEAF: Final = frozenset({"containers", "initContainers", "resources"})
_PART_DEPTH: Final = 3
_SECTION_DEPTH: Final = 2


def salvage_pod(body: object) -> Pod | None:
    """The pod without its invalid parts; None if not even its identity can be read."""
    if not isinstance(body, Mapping):
        return None
    rest: Any = body
    for excess in reversed(list(excesses(body))):  # from the end of lists: smaller indices stay valid
        rest = _without(rest, excess.part)
    cuts = 0
    while True:
        try:
            return parse_pod(rest)
        except InvalidObject as error:
            cuts += 1
            steps = _part(_resolve(rest, error.field), fine=cuts <= _FINE_CUTS)
            if not steps or steps == ["metadata"]:
                return None
            rest = _without(rest, steps)


def _resolve(body: Any, path: str) -> list[Step]:
    """The steps of a path as far as the body goes: to the field, or to the object that lacks the field."""
    steps: list[Step] = []
    here = body
    while path:
        found = _first_step(here, path)
        if found is None:
            break
        step, path = found
        here = here[step]
        steps.append(step)
    return steps


def _first_step(here: Any, path: str) -> tuple[Step, str] | None:
    """The key or index that a path begins with, and the rest; keys may contain dots and brackets."""
    if isinstance(here, list | tuple):
        index, _, rest = path.removeprefix("[").partition("]")
        # A path has an index where a list is expected. Anything else means that the list itself is invalid.
        return (int(index), rest.removeprefix(".")) if index.isascii() and index.isdigit() else None
    if isinstance(here, Mapping):
        begins = [key for key in here if isinstance(key, str) and key and path.startswith(key)]
        for key in sorted(begins, key=len, reverse=True):
            rest = path[len(key) :]
            if rest[:1] in ("", ".", "["):
                return key, rest.removeprefix(".")
    return None


def _part(steps: list[Step], *, fine: bool) -> list[Step]:
    if not fine:
        return steps[:_SECTION_DEPTH]
    return steps if _TO_THE_LEAF.intersection(steps[1:2]) else steps[:_PART_DEPTH]


def _without(value: Any, steps: Sequence[Step]) -> Any:
    """A copy without the part at these steps; it shares everything else."""
    step = steps[0]
    if len(steps) == 1:
        if isinstance(value, Mapping):
            return {key: item for key, item in value.items() if key != step}
        return [item for index, item in enumerate(value) if index != step]
    if isinstance(value, Mapping):
        return {**value, step: _without(value[step], steps[1:])}
    assert isinstance(step, int), "a list has indices"
    return [*value[:step], _without(value[step], steps[1:]), *value[step + 1 :]]
