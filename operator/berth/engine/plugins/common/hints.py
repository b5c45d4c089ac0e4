"""Queueing hints: checks of the object that changed and of its node, which several plugins share.

A hint may return False only if the change cannot have made the plugin accept the pod on a node. Hints may be called
late, after other changes. They are still correct, because they use one of these arguments:

    the node now         if the plugin still rejects the pod on the node, only a later change can make it fit there; if
                         the pod can preempt, the same holds for the node without the possible victims
    before and after     if nothing differs that the plugin reads, the change has no effect on it
    the pod's own        if the object is not related to the pod now, only a later change can relate it
"""

from collections.abc import Callable, Iterator

from berth.engine.events import Change
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.state.state import State
from berth.engine.verdict import Code
from berth.model import Claim, Node, Pod, StorageClass, Volume


def lets_now(change: Change, lets: Callable[[Node], bool]) -> bool:
    """Whether the node is accepted now, and was new or rejected before; for verdicts that depend on the node alone."""
    old, new = change.old, change.new
    if not isinstance(new, Node):
        return new is not None
    return lets(new) and not (isinstance(old, Node) and lets(old))


def fits_there(plugin: FilterPlugin, query: Query, state: State, change: Change) -> bool:
    """Whether the plugin accepts the pod on the node of the change as it is now, or may do so after preemption.

    For verdicts that depend only on the node, its pods, and objects that are neither pods nor nodes.
    """
    row = state.table.row(change.node)
    if row is None:
        return False
    screened = plugin.pre_filter(query, state)
    if screened.code is not Code.FITS or (screened.nodes is not None and change.node not in screened.nodes):
        return False
    if screened.skip or plugin.fits_row(query, state, row):
        return True
    pushed = weaker_on(query.pod, state, change.node) if plugin.dependencies.reads_pods else []
    return bool(pushed) and plugin.fits_without(query, state, row, pushed)


def may_push_out(pod: Pod, state: State) -> bool:
    """Whether there are any pods that the pod could preempt."""
    placed = state.table.pods.priorities
    return pod.preemption_policy != "Never" and min(placed, default=pod.priority) < pod.priority


def weaker_on(pod: Pod, state: State, node: str) -> list[Pod]:
    """The pods on the node that the pod could preempt."""
    if not may_push_out(pod, state):
        return []
    return [other for other in state.table.pods_on(node).values() if other.priority < pod.priority]


def has_claim(pod: Pod, claim: object) -> bool:
    """Whether the claim, before or after a change, is one of the pod's."""
    return (
        isinstance(claim, Claim)
        and claim.namespace == pod.namespace
        and any(volume.claim == claim.name for volume in pod.volumes)
    )


def claims_of(pod: Pod, state: State) -> Iterator[Claim]:
    """The pod's claims that are there."""
    for volume in pod.volumes:
        claim = state.claim(pod.namespace, volume.claim) if volume.claim else None
        if claim is not None:
            yield claim


def in_use(state: State, record: object) -> bool:
    """Whether the disks of placed or nominated pods depend on the object."""
    counts_with = state.volumes.counts_with
    match record:
        case Claim():
            return bool(state.nominated) or counts_with("PersistentVolumeClaim", f"{record.namespace}/{record.name}")
        case Volume():
            return bool(state.nominated) or counts_with("PersistentVolume", record.name)
        case StorageClass():
            return bool(state.nominated) or counts_with("StorageClass", record.name)
        case _:
            return True


def has_storage(pod: Pod, state: State, record: object) -> bool:
    """Whether the object is a claim of the pod's, or such a claim's volume or class."""
    return has_claim(pod, record) or has_volume(pod, state, record) or has_class(pod, state, record)


def has_volume(pod: Pod, state: State, volume: object) -> bool:
    """Whether one of the pod's claims names the volume."""
    return isinstance(volume, Volume) and any(claim.volume_name == volume.name for claim in claims_of(pod, state))


def has_class(pod: Pod, state: State, storage_class: object) -> bool:
    """Whether one of the pod's claims is of the class."""
    return isinstance(storage_class, StorageClass) and any(
        claim.storage_class == storage_class.name for claim in claims_of(pod, state)
    )
