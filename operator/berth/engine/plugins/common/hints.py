"""What the hints of the plugins share: looks at the one object that changed, and at the one node that it is about.

A hint says False only where the plugin cannot have come to let the pod onto a node by the change. It is right whenever
it is asked, be it after other changes, because it goes by one of these:

    the node now         a node on which the plugin still refuses the pod takes it only after another change; where
                         pods could be pushed out for it, one on which it does so without them
    before and after     records in which nothing differs that the plugin looks at make no difference to it
    the pod's own        an object that the pod has nothing to do with now has to do with it only after another change
"""

from collections.abc import Callable, Iterator

from berth.engine.events import Change
from berth.engine.plugin import Plugin, Query
from berth.engine.state.state import State
from berth.engine.verdict import Code
from berth.model import Claim, Node, Pod, StorageClass, Volume


def lets_now(change: Change, lets: Callable[[Node], bool]) -> bool:
    """Whether a node is let now that was not there or not let before; for verdicts that hang on its record alone."""
    old, new = change.old, change.new
    if not isinstance(new, Node):
        return new is not None
    return lets(new) and not (isinstance(old, Node) and lets(old))


def fits_there(plugin: Plugin, query: Query, state: State, change: Change) -> bool:
    """Whether the plugin lets the pod onto the node of the change, as it is now, or may once others are pushed out.

    For verdicts on a node that hang on that node, its pods, and objects that are neither.
    """
    row = state.table.row(change.node)
    if row is None:
        return False
    screened = plugin.pre_filter(query, state)
    if screened.code is not Code.FITS or (screened.nodes is not None and change.node not in screened.nodes):
        return False
    if screened.skip or plugin.fits_row(query, state, row):
        return True
    pushed = weaker_on(query.pod, state, change.node) if plugin.reads_pods else []
    return bool(pushed) and plugin.fits_without(query, state, row, pushed)


def may_push_out(pod: Pod, state: State) -> bool:
    """Whether there are pods at all that the pod could preempt."""
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
    """Whether the disks that pods hold, or are to hold on the nodes that they are nominated to, hang on the object."""
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
