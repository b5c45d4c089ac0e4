"""Bounds: how many entries the lists and maps of one pod may have, and which of these bounds a pod exceeds.

An API server accepts objects of 1.5 MiB: 40,000 labels, or 8,000 affinity terms, each of which costs time when the pod
is parsed, placed or decided on. No real pod comes near these bounds. A pod that exceeds one is an invalid object like
any other: a pending pod gets an event that says so, and a bound pod counts without the list that is too long
(salvage.py).

All lists are counted before the first of them is parsed, so that an excessive list costs almost nothing. A bound pod
may have any number of containers: their resources are in use, and have to count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from .fields import Body

Step: TypeAlias = str | int

MOST_CONTAINERS: Final = 1_000  # of either kind, in a pod that is not bound
MOST_HOST_PORTS: Final = 10_000  # entries of spec.containers[].ports, all containers together
MOST_MONITORS: Final = 50  # spec.volumes[].rbd.monitors
MOST_NODE_TERMS: Final = 1_000  # of spec.affinity.nodeAffinity, required and preferred together
MOST_POD_TERMS: Final = 256  # of podAffinity and of podAntiAffinity, required and preferred together
MOST_WIDE_REQUIREMENTS: Final = 64  # of terms that name no value of a label: compared with every pod
MOST_NODE_VALUES: Final = 10_000  # keys, operators, values, ... of spec.affinity.nodeAffinity, at all depths together
MOST_POD_VALUES: Final = 2_000  # the same of podAffinity and of podAntiAffinity, each
MOST_SPREAD_VALUES: Final = 500  # the same of topologySpreadConstraints
MOST_TAINTS: Final = 1_000  # spec.taints of a node, each of which is compared with every toleration

BOUNDS: Final[Mapping[tuple[str, str], int]] = {
    ("metadata", "labels"): 1_000,
    ("metadata", "ownerReferences"): 1_000,
    ("spec", "nodeSelector"): 1_000,
    ("spec", "resourceClaims"): 1_000,
    ("spec", "schedulingGates"): 1_000,
    ("spec", "tolerations"): 1_000,
    ("spec", "topologySpreadConstraints"): 64,
    ("spec", "volumes"): 1_000,
    ("status", "conditions"): 1_000,
}
_SELECTING: Final = {
    "nodeAffinity": (MOST_NODE_TERMS, MOST_NODE_VALUES),
    "podAffinity": (MOST_POD_TERMS, MOST_POD_VALUES),
    "podAntiAffinity": (MOST_POD_TERMS, MOST_POD_VALUES),
}
_LISTS: Final = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


class Excess(NamedTuple):
    """A bound that is exceeded: where, and the problem. `part` is the part to cut out so that the pod becomes valid."""

    path: str
    problem: str
    part: tuple[Step, ...]


def excesses(body: Body) -> Iterator[Excess]:
    """Every bound that the pod exceeds."""
    for (section, name), most in BOUNDS.items():
        held = body.get(section)
        found = held.get(name) if isinstance(held, Mapping) else None
        if found and _length(found) > most:
            yield _too_many(f"{section}.{name}", _length(found), most, (section, name))
    spec = body.get("spec")
    if isinstance(spec, Mapping):
        yield from _of_containers(spec)
        if spec.get("volumes"):
            yield from _of_volumes(spec["volumes"])
        if spec.get("affinity"):
            yield from _of_affinity(spec["affinity"])
        where = ("spec", "topologySpreadConstraints")
        constraints = spec.get("topologySpreadConstraints")
        if constraints and _length(constraints) <= BOUNDS[where]:
            yield from _of_values(".".join(where), constraints, MOST_SPREAD_VALUES, where)


def _of_containers(spec: Body) -> Iterator[Excess]:
    """Host ports of all init containers count here, although only those of sidecars are used."""
    ports = 0
    for name in ("initContainers", "containers"):
        containers = spec.get(name)
        if not isinstance(containers, list | tuple):
            continue
        if len(containers) > MOST_CONTAINERS and not spec.get("nodeName"):
            yield _too_many(f"spec.{name}", len(containers), MOST_CONTAINERS, ("spec", name))
        for index, container in enumerate(containers):
            held = container.get("ports") if isinstance(container, Mapping) else None
            if held:
                ports += _length(held)
                if ports > MOST_HOST_PORTS:
                    where = ("spec", name, index, "ports")
                    yield _too_many(f"spec.{name}[{index}].ports", ports, MOST_HOST_PORTS, where)


def _of_volumes(volumes: Any) -> Iterator[Excess]:
    if not isinstance(volumes, list | tuple) or len(volumes) > BOUNDS["spec", "volumes"]:
        return
    for index, volume in enumerate(volumes):
        disk = volume.get("rbd") if isinstance(volume, Mapping) else None
        monitors = _length(disk.get("monitors")) if isinstance(disk, Mapping) else 0
        if monitors > MOST_MONITORS:
            path = f"spec.volumes[{index}].rbd.monitors"
            yield _too_many(path, monitors, MOST_MONITORS, ("spec", "volumes", index))


def _of_affinity(affinity: Any) -> Iterator[Excess]:
    """A part of an affinity could match more than all of it: if one list is too long, the whole kind is cut."""
    for kind, (most, most_values) in _SELECTING.items():
        held = affinity.get(kind) if isinstance(affinity, Mapping) else None
        if not isinstance(held, Mapping):
            continue
        path, part, terms = f"spec.affinity.{kind}", ("spec", "affinity", kind), 0
        for name in _LISTS:
            listed = held.get(name)
            terms += _length(listed.get("nodeSelectorTerms") if isinstance(listed, Mapping) else listed)
        if terms > most:
            yield Excess(path, f"has {terms:,} terms, and a pod may have {most:,}", part)
        elif excess := next(_of_values(path, held, most_values, part), None):
            yield excess
        elif (wide := sum(map(_wide_requirements, _pod_terms(held)))) > MOST_WIDE_REQUIREMENTS:
            allowed = f"a pod may have {MOST_WIDE_REQUIREMENTS:,} in terms that name no value of a label"
            yield Excess(path, f"has {wide:,} requirements, and {allowed}", part)


def _pod_terms(affinity: Body) -> Iterator[Any]:
    """The terms of podAffinity or podAntiAffinity, whether required or preferred; none of nodeAffinity."""
    for name in _LISTS:
        listed = affinity.get(name)
        for entry in listed if isinstance(listed, list | tuple) else ():
            yield entry.get("podAffinityTerm", entry) if isinstance(entry, Mapping) else None


def _wide_requirements(term: Any) -> int:
    """The number of requirements that have to be compared with every pod: 0 if `matchLabels` or the operator In
    restricts the pods.

    A term without requirements counts as one: it selects all pods.
    """
    selector = term.get("labelSelector") if isinstance(term, Mapping) else None
    if not isinstance(selector, Mapping) or selector.get("matchLabels"):
        return 0
    expressions = selector.get("matchExpressions")
    listed = expressions if isinstance(expressions, list | tuple) else ()
    if any(isinstance(each, Mapping) and each.get("operator") == "In" for each in listed):
        return 0
    return max(len(listed), 1)


def _of_values(path: str, value: Any, most: int, part: tuple[Step, ...]) -> Iterator[Excess]:
    if _has_more_values(value, most):
        yield Excess(path, f"has more than {most:,} values, and a pod may have no more", part)


def _too_many(path: str, found: int, most: int, part: tuple[Step, ...]) -> Excess:
    return Excess(path, f"has {found:,} entries, and a pod may have {most:,}", part)


def _length(value: Any) -> int:
    """The length of a list or map; 0 for anything else, which the parse functions reject."""
    return len(value) if isinstance(value, list | tuple | Mapping) else 0


def _has_more_values(value: Any, most: int) -> bool:
    """Whether there are more than `most` values; visits no more of them than necessary."""
    pending, found = [value], 0
    while pending:
        here = pending.pop()
        inner = here.values() if isinstance(here, dict | Mapping) else here if isinstance(here, list | tuple) else None
        if inner is None:
            found += 1
        else:
            pending.extend(inner)
        if found + len(pending) > most:
            return True
    return False
