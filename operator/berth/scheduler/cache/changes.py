"""Changes: which events the difference between two versions of an object causes for waiting pods.

A difference that can help no pod causes no event: less allocatable, a heartbeat, a status update. The State still gets
the new record if decisions read it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from berth.engine.events import Change, Event
from berth.model import Node, Pod, Record

Changes = tuple[Change, ...]

NOTHING: Final[frozenset[Event]] = frozenset()
UNCHANGED: Final[Changes] = ()

EVENT_OF_KIND: Final[Mapping[str, Event]] = {
    "Namespace": Event.NAMESPACE,
    "PersistentVolumeClaim": Event.CLAIM,
    "PersistentVolume": Event.VOLUME,
    "StorageClass": Event.STORAGE_CLASS,
    "CSINode": Event.CSI_NODE,
    "CSIDriver": Event.CSI_DRIVER,
    "CSIStorageCapacity": Event.CSI_CAPACITY,
    "PodDisruptionBudget": Event.BUDGET,
    "Service": Event.SERVICE,
    "ReplicationController": Event.OWNER,
    "ReplicaSet": Event.OWNER,
    "StatefulSet": Event.OWNER,
}


def node_change(old: Node | None, new: Node | None) -> Changes:
    """The change caused by a node that was added, removed or modified."""
    node = new or old
    if node is None:
        return UNCHANGED
    if old is None or new is None:
        events = frozenset({Event.NODE_REMOVED if new is None else Event.NODE_ADDED})
    else:
        events = _node_events(old, new)
    return (Change(events, old, new, node.name),) if events else UNCHANGED


def object_change(kind: str, old: Record | None, new: Record | None) -> Changes:
    """The change caused by an object that is neither pod nor node."""
    node = getattr(new or old, "name", "") if kind == "CSINode" else ""
    return (Change(frozenset({EVENT_OF_KIND[kind]}), old, new, node),)


def pod_came(pod: Pod, node_name: str) -> Changes:
    """A pod takes room on a node."""
    return (Change(frozenset({Event.POD_ASSIGNED}), None, pod, node_name),)


def pod_left(pod: Pod, node_name: str) -> Changes:
    """A pod frees its room on a node, or its nomination to it."""
    return (Change(frozenset({Event.POD_REMOVED}), pod, None, node_name),)


def pod_changed(old: Pod, new: Pod, node_name: str) -> Changes:
    """A pod that takes room on a node was modified."""
    events = _placed_pod_events(old, new)
    return (Change(events, old, new, node_name),) if events else UNCHANGED


def _node_events(old: Node, new: Node) -> frozenset[Event]:
    changed = {
        Event.NODE_ALLOCATABLE: _grew(old.allocatable, new.allocatable) or _lifted(old.allocatable, new.allocatable),
        Event.NODE_LABELS: old.labels != new.labels,
        Event.NODE_TAINTS: (old.taints, old.unschedulable) != (new.taints, new.unschedulable),
        Event.NODE_OTHER: _other_of_node(old) != _other_of_node(new),
    }
    return frozenset(event for event, happened in changed.items() if happened)


def _placed_pod_events(old: Pod, new: Pod) -> frozenset[Event]:
    changed = {
        Event.POD_SHRUNK: _grew(new.usage, old.usage),
        # A pod that begins to terminate leaves the counts of the plugins that look at labels (#116629).
        Event.POD_LABELS: (old.labels, old.deleting) != (new.labels, new.deleting),
    }
    return frozenset(event for event, happened in changed.items() if happened)


def same_but_for_version(old: Record, new: Record) -> bool:
    """Whether an update changed nothing but the resourceVersion, of the fields that are kept."""
    return replace(new, resource_version=old.resource_version) == old


def takes_the_same_room(old: Pod, new: Pod) -> bool:
    """Whether the table may keep the old record: most updates of a running pod are status that no decision reads."""
    return _room(old) == _room(new)


def with_the_room_of_both(last: Pod, salvaged: Pod) -> Pod:
    """The last valid record, enlarged by what could be read of the newest, invalid version."""
    millicores, memory_bytes = map(max, last.usage_nonzero, salvaged.usage_nonzero)
    return replace(
        last,
        labels=salvaged.labels,
        deleting=salvaged.deleting,
        preempted=last.preempted or salvaged.preempted,
        start_time=salvaged.start_time or last.start_time,
        usage=_larger(last.usage, salvaged.usage),
        usage_nonzero=(millicores, memory_bytes),
        host_ports=tuple(dict.fromkeys(last.host_ports + salvaged.host_ports)),
    )


def asks_the_same(old: Pod, new: Pod) -> bool:
    """Whether a new attempt for the pod would have the same input as the last one, apart from the cluster."""
    return (old.signature, old.priority) == (new.signature, new.priority)


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {resource: max(one.get(resource, 0), other.get(resource, 0)) for resource in {**one, **other}}


def _grew(old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    return any(amount > old.get(resource, 0) for resource, amount in new.items())


def _lifted(old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    """Whether a resource is no longer listed: the limit on attached disks is then the default, which may be higher."""
    return not old.keys() <= new.keys()


def _other_of_node(node: Node) -> tuple[object, ...]:
    return node.conditions, node.annotations, node.images, node.declared_features


def _room(pod: Pod) -> tuple[object, ...]:
    return (
        pod.usage,
        pod.usage_nonzero,
        pod.host_ports,
        pod.labels,
        pod.deleting,
        pod.preempted,
        pod.priority,
        pod.start_time,
        pod.pod_affinity,
        pod.pod_anti_affinity,
        pod.volumes,
    )
