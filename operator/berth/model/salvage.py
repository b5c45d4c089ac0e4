"""What can be read of a pod that as a whole makes no sense.

A pod that is bound takes room, whatever else is wrong with it, and one that waits must be told what is wrong. Both need
a record, and get one by cutting: parse, cut out the part that the error names, parse again.

    spec.containers[0].resources.requests.cpu   the one request: the others count
    spec.affinity.podAntiAffinity.required...   all of podAntiAffinity: half of a term could mean more than the whole
    spec.volumes[2].csi.driver                  the volume
    metadata.labels.app                         the label

So parts are cut three names deep, and containers and pod-level resources down to the field that is wrong. After many
cuts whole sections go, which bounds the work that one object can make. What is beyond a bound (bounds.py) is cut before
the first parse, all at once.

What it does not do: say that the pod can be scheduled. Conditions that it made may be among what was cut.
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
    """The pod without the parts that make no sense; None where it is not even clear which pod it is."""
    if not isinstance(body, Mapping):
        return None
    rest: Any = body
    for excess in reversed(list(excesses(body))):  # the last of a list first: indices before it stay right
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
    """The steps of a path as far as the body goes: to the field, or to the object in which a field is missing."""
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
    """The key or index that a path begins with, and the rest; keys may have dots and brackets of their own."""
    if isinstance(here, list | tuple):
        index, _, rest = path.removeprefix("[").partition("]")
        # Nothing else than an index is what a path says of a list; a list where it says more is what is wrong.
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
    """The same without what lies there; shares everything else with it."""
    step = steps[0]
    if len(steps) == 1:
        if isinstance(value, Mapping):
            return {key: item for key, item in value.items() if key != step}
        return [item for index, item in enumerate(value) if index != step]
    if isinstance(value, Mapping):
        return {**value, step: _without(value[step], steps[1:])}
    assert isinstance(step, int), "a list has indices"
    return [*value[:step], _without(value[step], steps[1:]), *value[step + 1 :]]
