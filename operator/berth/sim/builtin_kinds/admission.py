"""What a new object gets from others: a pod its priority, a claim the default class, a service its address.

As the admission plugins Priority, DefaultTolerationSeconds and DefaultStorageClass, and the allocator of cluster
addresses. A function here gets a body of its own and may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from berth.sim.builtin_kinds.defaults import tolerate_absent_nodes
from berth.sim.errors import forbidden
from berth.sim.objects import Object, mapping

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
PREEMPTION: Final = "PreemptLowerPriority"

SYSTEM_PRIORITIES: Final = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)
SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")

# All objects of a collection, by its name.
Everything = Callable[[str], Iterable[Object]]


def admit(storage: str, body: Object, everything: Everything) -> None:
    match storage:
        case "pods":
            spec = body.setdefault("spec", {})
            _prioritize(body, spec, everything("priorityclasses.scheduling.k8s.io"))
            tolerate_absent_nodes(spec)
        case "persistentvolumeclaims":
            _classify(body, everything("storageclasses.storage.k8s.io"))
        case "services":
            _address(body, everything("services"))


def _prioritize(body: Object, spec: Object, classes: Iterable[Object]) -> None:
    pod_name = str(body["metadata"].get("name", ""))
    chosen = _priority_class(spec.get("priorityClassName"), classes, pod_name)
    value = 0 if chosen is None else chosen["value"]
    policy = PREEMPTION if chosen is None else chosen.get("preemptionPolicy", PREEMPTION)
    if spec.get("priority") not in (None, value):
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden("pods", pod_name, why)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]


def _priority_class(name: str | None, classes: Iterable[Object], pod_name: str) -> Object | None:
    """The class that a pod names, or else the global default of lowest value."""
    if not name:
        return min(
            (found for found in classes if found.get("globalDefault")), key=lambda c: int(c["value"]), default=None
        )
    for found in classes:
        if found["metadata"]["name"] == name:
            return found
    raise forbidden("pods", pod_name, f"no PriorityClass with name {name} was found")


def _classify(body: Object, classes: Iterable[Object]) -> None:
    spec = body.setdefault("spec", {})
    if spec.get("storageClassName") is not None:
        return
    defaults = [found for found in classes if _annotation(found, DEFAULT_CLASS) == "true"]
    if defaults:
        newest = max(defaults, key=lambda found: str(found["metadata"]["creationTimestamp"]))
        spec["storageClassName"] = newest["metadata"]["name"]


def _annotation(body: Object, name: str) -> object:
    return mapping(body["metadata"].get("annotations")).get(name)


def _address(body: Object, services: Iterable[Object]) -> None:
    spec = body.setdefault("spec", {})
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        taken = {mapping(service.get("spec")).get("clusterIP") for service in services}
        spec["clusterIP"] = next(address for address in _addresses() if address not in taken)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _addresses() -> Iterable[str]:
    """10.0.0.0/16, without the address of the API server's own service."""
    return (f"10.0.{high}.{low}" for high in range(256) for low in range(2 if high == 0 else 0, 256))
