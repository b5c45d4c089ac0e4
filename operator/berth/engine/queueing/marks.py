"""Marks: what a change shows of its object, by which it finds the unschedulable pods that it may help.

A plugin says which marks a change must show for its hint to be True (`Plugin.hint_marks`), and which marks a node must
have for the pod (`Plugin.node_marks`). The queue keeps unschedulable pods by these marks
(scheduler/queue/unschedulable.py): a change asks about those whose marks it shows, however many others wait. A mark is
a kind, a name and a value:

    kind                  name, value                                        shown by
    NODE                  its name                                           a change on a node
    LABEL                 key and value, "" for any value                    a node with the label: before, after, now
    MOVED                 key                                                a node whose label has another value; ANY:
                                                                             pods are nominated to that node
    CAME, LEFT            label, or ANY                                      a pod that is there after, or was before
    (CAME, namespace)     the same of the pods of one namespace
    FORBADE               label, or ANY                                      a pod that was there and kept pods with
                                                                             such a label away by its anti-affinity
    CLAIM, DISK           the name of the claim, the kind of the disk        a pod that has it; the claim itself
    OWNER                 a namespace                                        a Service or a workload's owner there

A change may show a mark without being a help. What may help must show one.
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
MOST_MARKS: Final = 64  # that one plugin may have for a pod; beyond, it counts as if it had none
_MOST_CHOICES: Final = 16  # that are compared


class Marks(NamedTuple):
    """A change by one of these events, and by no other that the plugin wakes on, has to show one of the marks."""

    events: frozenset[Event] = frozenset()
    marks: frozenset[Mark] = frozenset()


def shown_by(change: Change, state: State) -> Iterator[Shown]:
    """Everything that the change shows."""
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
    """The labels in which two records of a node differ, by their keys."""
    return {key: "" for key, _ in old.labels.items() ^ new.labels.items()}


def of_pods(kind: Kind, selector: LabelSelector | None, namespaces: Iterable[str] | None) -> Iterator[Mark]:
    """The marks of a pod that the selector matches (None: of no pod), in one of the namespaces (None: in any)."""
    for name, value in _labels_for(selector):
        if namespaces is None:
            yield kind, name, value
        else:
            yield from (((kind, namespace), name, value) for namespace in namespaces)


def of_term(kind: Kind, term: PodTerm) -> Iterator[Mark]:
    """The marks of a pod that the term may be about."""
    return of_pods(kind, term.selector, term.namespaces if term.namespace_selector is None else None)


def of_labels(labels: Mapping[str, str]) -> Iterator[Mark]:
    """The marks of a pod whose terms may be about a pod with these labels."""
    yield FORBADE, "", ""
    for name, value in labels.items():
        yield FORBADE, name, value


def rarest(table: NodeTable, choices: Iterable[Sequence[Mark]]) -> frozenset[Mark] | None:
    """Of several sets of LABEL marks, of which a node has to show each, the one that the fewest nodes show."""
    found = [frozenset(marks) for marks in islice(choices, _MOST_CHOICES) if len(marks) <= MOST_MARKS]
    return min(found, key=lambda marks: sum(_nodes_with(table, name, value) for _, name, value in marks), default=None)


def _nodes_with(table: NodeTable, key: str, value: str) -> int:
    ids, vocabulary = table.label(key)
    return int(np.count_nonzero(ids >= 0 if not value else ids == vocabulary.ids.get(value, -2)))


def _labels_for(selector: LabelSelector | None) -> Iterator[tuple[str, str]]:
    """Labels of which a pod that matches has one; ANY where it may have none of them."""
    if selector is not None:
        wanted = narrowest((selector,))
        yield from ANY.items() if wanted is None else ((wanted.key, value) for value in wanted.values)
