"""Resources of a pod: requests, usage and limits, from its containers, overhead, pod-level resources and resizes.

    running  = sum of containers + sidecars (init containers with restartPolicy Always)
    peak     = maximum over the init containers, each together with the sidecars declared before it
    pod      = maximum of the two, resource by resource; pod-level requests replace it; overhead is added

Four views of the same sum:

- requests: the spec alone, which is what a pending pod must find room for;
- usage: what a placed pod takes. A container that was resized in place counts with the maximum of the spec, the
  allocated and the actual resources, but without the spec while the resize is reported as infeasible;
- nonzero: usage with defaults of 100m and 200Mi for containers without cpu or memory requests, used in scores only, so
  that pods without requests do not all end up on one node;
- scored: what NodeResourcesFit scores the pod itself with: the spec's containers and overhead with those defaults, and
  without pod-level requests, which its score does not read.

Sums are exact, in nano units; rounding up happens once, at the end. Follows component-helpers/resource and
kube-scheduler 1.36 with its default feature gates.

Limits, which only ResourceLimitsPriority reads, are summed as in kube-scheduler 1.17: cpu and memory of the containers,
each rounded up, or those of an init container (including a sidecar) that has more. A pod is best-effort (QoS class
BestEffort) if nothing in it has a cpu or memory request or limit; overhead does not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from .fields import NOTHING, Body, FieldError, describe, read_items, read_list, read_object, read_quantities, read_text
from .quantity import NANO, to_milli, to_value

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

DEFAULT_MILLICORES: Final = 100
DEFAULT_BYTES: Final = 200 * 1024 * 1024
_DEFAULTS: Final = {CPU: DEFAULT_MILLICORES * NANO // 1000, MEMORY: DEFAULT_BYTES * NANO}

_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


class Container(NamedTuple):
    """The fields of a container that the sums need; amounts in nano units."""

    name: str
    requests: dict[str, int]
    limits: dict[str, int]
    sidecar: bool


class PodResources(NamedTuple):
    """The views of the resources of a pod; mappings as in `Pod`, the pair in (millicores, bytes)."""

    requests: Mapping[str, int]
    usage: Mapping[str, int]
    scored: Mapping[str, int]
    usage_nonzero: tuple[int, int]
    limits: Mapping[str, int]
    best_effort: bool


class _Sums(NamedTuple):
    """The containers with one of the sets of requests, plus pod-level requests and overhead."""

    containers: Sequence[dict[str, int]]
    inits: Sequence[tuple[dict[str, int], bool]]
    pod_level: Mapping[str, int]
    overhead: Mapping[str, int]

    def total(self, defaults: Mapping[str, int] = NOTHING) -> dict[str, int]:
        total: dict[str, int] = {}
        for asked in self.containers:
            _add(total, {**defaults, **asked} if defaults else asked)
        if self.inits:
            self._start_up(total, defaults)
        total.update(self.pod_level)
        _add(total, self.overhead)
        return total

    def _start_up(self, total: dict[str, int], defaults: Mapping[str, int]) -> None:
        """Adds the sidecars to the total and raises it to the peak of the init containers."""
        sidecars: dict[str, int] = {}
        peak: dict[str, int] = {}
        for asked, sidecar in self.inits:
            filled = {**defaults, **asked}
            if sidecar:
                _add(total, filled)
                _add(sidecars, filled)
                filled = dict.fromkeys(filled, 0)
            # Resources that it does not name need no update: the peak includes the sidecars before it already.
            _raise(peak, {name: nanos + sidecars.get(name, 0) for name, nanos in filled.items()})
        _raise(total, peak)


def pod_resources(
    spec: Body, status: Body, containers: Sequence[Container], inits: Sequence[Container]
) -> PodResources:
    """The views of the resources of a pod; paths in errors start at the pod."""
    try:
        own = read_object(spec, "resources")
        pod_level = _pod_level(own)
        pod_limits = _amounts(own, "limits") if own else {}
        overhead = read_quantities(spec, "overhead")
    except FieldError as error:
        raise error.within("spec") from None
    asked = _Sums([c.requests for c in containers], [(c.requests, c.sidecar) for c in inits], pod_level, overhead)
    try:
        taken = _resized(asked, status, containers, inits)
    except FieldError as error:
        raise error.within("status") from None
    requests = asked.total()
    usage = requests if taken is asked else taken.total()
    scored = asked._replace(pod_level=NOTHING).total(_DEFAULTS)
    nonzero = scored
    if pod_level:
        nonzero = taken.total({name: nanos for name, nanos in _DEFAULTS.items() if name not in usage})
    elif taken is not asked:
        nonzero = taken.total(_DEFAULTS)
    counted = _counted(requests)
    usage_counted = counted if usage is requests else _counted(usage, requests, counted)
    named = (*(c.requests for c in (*containers, *inits)), *(c.limits for c in (*containers, *inits)))
    best_effort = not any(amounts.get(CPU) or amounts.get(MEMORY) for amounts in (*named, pod_level, pod_limits))
    return PodResources(
        counted,
        usage_counted,
        _counted(scored, requests, counted),
        _pair(nonzero),
        _limits(containers, inits),
        best_effort,
    )


def read_container_resources(owner: Body) -> tuple[dict[str, int], dict[str, int]]:
    """The requests and limits in a container's `resources`, in nano units."""
    if owner.get("resources") is None:
        return {}, {}
    resources = read_object(owner, "resources")
    return _amounts(resources, "requests"), _amounts(resources, "limits") if resources.get("limits") else {}


def read_amounts(owner: Body, name: str) -> Mapping[str, int]:
    """The resource list of a node in the units of the scheduler, including "pods"."""
    return {
        resource: to_milli(nanos) if resource == CPU else to_value(nanos)
        for resource, nanos in read_quantities(owner, name).items()
        if resource == PODS or is_counted_resource(resource)
    }


@lru_cache(maxsize=4096)
def is_counted_resource(name: str) -> bool:
    """Whether the scheduler counts this resource: cpu, memory, ephemeral-storage, or a scalar resource."""
    if name in (CPU, MEMORY, STORAGE):
        return True
    if "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return is_extended_resource(name)


def is_extended_resource(name: str) -> bool:
    """Whether the name has a domain, and is still well formed with the prefix "requests." of quotas."""
    prefix, slash, short = name.partition("/")
    if not slash or name.startswith("requests."):
        return False
    well_formed = _PREFIX.fullmatch(prefix) and _NAME.fullmatch(short)
    return bool(well_formed) and len("requests.") + len(prefix) <= 253 and len(short) <= 63


def _amounts(resources: Body, name: str, *, signed: bool = False) -> dict[str, int]:
    try:
        return read_quantities(resources, name, signed=signed)
    except FieldError as error:
        raise error.within("resources") from None


def _pod_level(resources: Body) -> dict[str, int]:
    if not resources:
        return {}
    return {name: nanos for name, nanos in _amounts(resources, "requests").items() if _is_pod_level(name)}


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _resized(asked: _Sums, status: Body, containers: Sequence[Container], inits: Sequence[Container]) -> _Sums:
    """The sums with the resources that the kubelet reports; `asked` itself if it reports none."""
    reports = {
        name: report
        for field in ("containerStatuses", "initContainerStatuses")
        for name, report in (read_list(status, field, _reported) if status.get(field) is not None else ())
    }
    pod_report = _report(status) if status.get("resources") is not None else None
    if pod_report is None and not any(reports.values()):
        return asked
    infeasible = _is_resize_infeasible(status)

    def effective(own: dict[str, int], report: _Report | None) -> dict[str, int]:
        if report is None:
            return own
        most = {} if infeasible else dict(own)
        for amounts in report:
            _raise(most, amounts)
        return most

    pod_level = effective(dict(asked.pod_level), pod_report)
    return _Sums(
        [effective(c.requests, reports.get(c.name)) for c in containers],
        [(effective(c.requests, reports.get(c.name)) if c.sidecar else c.requests, c.sidecar) for c in inits],
        # Only resources that the spec names at pod level count there, whatever the status has.
        {name: pod_level.get(name, 0) for name in asked.pod_level},
        asked.overhead,
    )


class _Report(NamedTuple):
    """The resources that the kubelet has actuated, and those that it has allocated."""

    actuated: dict[str, int]
    allocated: dict[str, int]


def _reported(body: Body) -> tuple[str, _Report | None]:
    return read_text(body, "name"), _report(body) if body.get("resources") is not None else None


def _report(owner: Body) -> _Report:
    """The API server does not validate these amounts: a negative one counts as zero."""
    return _Report(
        _amounts(read_object(owner, "resources"), "requests", signed=True),
        read_quantities(owner, "allocatedResources", signed=True),
    )


def _is_resize_infeasible(status: Body) -> bool:
    for index, condition in enumerate(read_items(status, "conditions")):
        if not isinstance(condition, Mapping):
            raise FieldError(f"conditions[{index}]", f"{describe(condition)} is not an object")
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _limits(containers: Sequence[Container], inits: Sequence[Container]) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        _add(total, _whole(container.limits))
    for container in inits:
        _raise(total, _whole(container.limits))
    return {name: amount for name, amount in total.items() if amount} if total else NOTHING


def _whole(limits: Mapping[str, int]) -> dict[str, int]:
    """Millicores and bytes."""
    amounts = {CPU: to_milli(limits[CPU])} if CPU in limits else {}
    return amounts | {MEMORY: to_value(limits[MEMORY])} if MEMORY in limits else amounts


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    if not total:
        total.update(amounts)
        return
    for name, nanos in amounts.items():
        total[name] = total.get(name, 0) + nanos


def _raise(most: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nanos in amounts.items():
        if nanos > most.get(name, -1):
            most[name] = nanos


def _counted(
    nanos_by_name: Mapping[str, int], known: Mapping[str, int] = NOTHING, counted: Mapping[str, int] = NOTHING
) -> Mapping[str, int]:
    """In the units of the scheduler; `counted` is the result for `known`, which has most of the same amounts."""
    return {
        name: counted[name] if known.get(name) == nanos else to_milli(nanos) if name == CPU else to_value(nanos)
        for name, nanos in nanos_by_name.items()
        if nanos and (name in counted or is_counted_resource(name))
    }


def _pair(nanos_by_name: Mapping[str, int]) -> tuple[int, int]:
    return to_milli(nanos_by_name.get(CPU, 0)), to_value(nanos_by_name.get(MEMORY, 0))
