"""Marks: index keys by which a change finds the unschedulable pods that it may make schedulable.

A plugin names the marks that a change must have for its queueing hint to be True (`Plugin.hint_marks`), and the marks
that a node must have for the pod (`Plugin.node_marks`). The queue indexes unschedulable pods by these marks
(scheduler/queue/unschedulable.py). So a change costs hints only for the pods with one of its marks, however many other
pods are unschedulable. A mark is (kind, name, value):

    kind                  name, value                                        shown by
    NODE                  its name                                           a change on a node
    LABEL                 key and value, "" for any value                    a node with the label: before, after, now
    MOVED                 key                                                a node whose label has another value; ANY:
                                                                             pods are nominated to that node
    CAME, LEFT            label, or ANY                                      a pod that is there after, or was before
    (CAME, namespace)     the same of the pods of one namespace
    FORBADE               label, or ANY                                      a pod that left, and whose anti-affinity
                                                                             selects pods with such a label
    CLAIM, DISK           the name of the claim, the kind of the disk        a pod that has it; the claim itself
    OWNER                 a namespace                                        a Service or a workload's owner there

A change may have a mark and still not help. A change that may help must have one of the marks.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from berth.engine.events import Change, Event
from berth.engine.state.node_table import NodeTable
from berth.engine.state.pod_counts import narrowest
from berth.engine.state.state import State
from berth.model import Claim, LabelSelector, Node, Pod, PodTerm

Kind = Hashable
Mark = tuple[Kind, str, str]
Shown = tuple[Kind, Mapping[str, str]]
"""Marks of one kind: the values by their names."""

NODE, LABEL, MOVED, CAME, LEFT, FORBADE, CLAIM, DISK, OWNER = range(9)
ANY: Final[Mapping[str, str]] = {"": ""}  # no label has this key
MOST_MARKS: Final = 64  # per plugin and pod; with more, the pod is not indexed and every change is checked
_MOST_CHOICES: Final = 16  # sets of marks that `rarest` compares


class Marks(NamedTuple):
    """A change with one of these events must have one of the marks. Other events of `retry_events` need none."""

    events: frozenset[Event] = frozenset()
    marks: frozenset[Mark] = frozenset()


def shown_by(change: Change, state: State) -> Iterator[Shown]:
    """Yields all marks of the change."""
    if change.node:
        yield NODE, {change.node: ""}
        node = state.table.node(change.node)
        if node is not None:
            yield LABEL, node.labels
    if isinstance(change.old, Node) and isinstance(change.new, Node):
        yield MOVED, moved_labels(change.old, change.new)
        if change.node in state.nominated:
            yield MOVED, ANY
    for kind, record in ((LEFT, change.old), (CAME, change.new)):
        match record:
            case Node():
                yield LABEL, record.labels
            case Pod():
                yield from _shown_by_pod(kind, record)
            case Claim():
                yield CLAIM, {record.name: ""}
            case None:
                pass
            case _:
                yield OWNER, {getattr(record, "namespace", ""): ""}


def _shown_by_pod(kind: Kind, pod: Pod) -> Iterator[Shown]:
    for of in (kind, (kind, pod.namespace)):
        yield of, pod.labels
        yield of, ANY
    if pod.volumes:
        yield CLAIM, {volume.claim: "" for volume in pod.volumes if volume.claim}
        yield DISK, {str(volume.source): "" for volume in pod.volumes}
    if kind == LEFT:
        for term in pod.pod_anti_affinity.required:
            yield from ((FORBADE, {name: value}) for name, value in _labels_for(term.selector))


def moved_labels(old: Node, new: Node) -> dict[str, str]:
    """Returns the keys of the labels in which two versions of a node differ."""
    return {key: "" for key, _ in old.labels.items() ^ new.labels.items()}


def of_pods(kind: Kind, selector: LabelSelector | None, namespaces: Iterable[str] | None) -> Iterator[Mark]:
    """Yields marks of pods that the selector matches (None: no pod), in one of the namespaces (None: any).

    A pod that it matches has one of these marks.
    """
    for name, value in _labels_for(selector):
        if namespaces is None:
            yield kind, name, value
        else:
            yield from (((kind, namespace), name, value) for namespace in namespaces)


def of_term(kind: Kind, term: PodTerm) -> Iterator[Mark]:
    """Yields marks of the pods that the affinity term may select."""
    return of_pods(kind, term.selector, term.namespaces if term.namespace_selector is None else None)


def of_labels(labels: Mapping[str, str]) -> Iterator[Mark]:
    """Yields marks of the pods whose anti-affinity terms may select a pod with these labels."""
    yield FORBADE, "", ""
    for name, value in labels.items():
        yield FORBADE, name, value


def rarest(table: NodeTable, choices: Iterable[Sequence[Mark]]) -> frozenset[Mark] | None:
    """Returns one of several sets of LABEL marks: the one that the fewest nodes have.

    A node must have a mark of every set, so one set is enough as an index key, and the rarest is the best.
    """
    found = [frozenset(marks) for marks in islice(choices, _MOST_CHOICES) if len(marks) <= MOST_MARKS]
    return min(found, key=lambda marks: sum(_nodes_with(table, name, value) for _, name, value in marks), default=None)


def _nodes_with(table: NodeTable, key: str, value: str) -> int:
    ids, vocabulary = table.label(key)
    return int(np.count_nonzero(ids >= 0 if not value else ids == vocabulary.ids.get(value, -2)))


def _labels_for(selector: LabelSelector | None) -> Iterator[tuple[str, str]]:
    """Yields labels: a pod that matches has one of them. ANY if the selector names no value of a label."""
    if selector is not None:
        wanted = narrowest((selector,))
        yield from ANY.items() if wanted is None else ((wanted.key, value) for value in wanted.values)
