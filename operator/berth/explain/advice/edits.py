"""Edits: changed copies of a pod or a node that may let the pod fit. Each is tried before anything is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum

from berth.engine.state.state import State
from berth.explain.records import FieldChange
from berth.model import Node, Pod


class Rank(IntEnum):
    """How useful a change is likely to be; the lowest comes first."""

    SLIGHT = 1  # it keeps what the pod is about
    RULE = 2  # it drops a rule of the pod
    NODE = 3
    ADD_NODE = 4
    LARGE = 5  # far from what the pod asks for, or from what the node is
    DRASTIC = 6  # the pod would be another one, or the taint means that the node is not healthy


@dataclass(frozen=True, slots=True)
class PodChange:
    """One change of a pod; `text` is an instruction. `size` orders changes of one rank, the smallest first."""

    code: str
    text: str
    changes: tuple[FieldChange, ...]
    apply: Callable[[Pod], Pod]
    rank: Rank = Rank.RULE
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One change of a node."""

    code: str
    text: str
    changes: tuple[FieldChange, ...]
    apply: Callable[[Node], Node]
    rank: Rank = Rank.NODE
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Edit:
    """A pod, or a node, as it would be; `node` None: the pod is what changes."""

    code: str
    kind: str
    name: str
    text: str
    changes: tuple[FieldChange, ...]
    rank: Rank
    size: float
    pod: Pod
    node: Node | None = None

    @property
    def order(self) -> tuple[int, int, float, str]:
        """Fewer fields first, then by use, then the smaller change."""
        return len(self.changes), self.rank, self.size, self.text


def pod_edit(pod: Pod, changes: Sequence[PodChange]) -> Edit:
    """Returns the pod with all of the changes."""
    changed = pod
    for change in changes:
        changed = change.apply(changed)
    return Edit(
        "+".join(dict.fromkeys(change.code for change in changes)),
        "Pod",
        pod.name,
        ", and ".join(_joined(changes)),
        tuple(field for change in changes for field in change.changes),
        max(change.rank for change in changes),
        sum(change.size for change in changes),
        changed,
    )


def node_edit(pod: Pod, node: Node, changes: Sequence[NodeChange]) -> Edit:
    """Returns the node with all of the changes, and the pod as it is."""
    changed = node
    for change in changes:
        changed = change.apply(changed)
    return Edit(
        "+".join(dict.fromkeys(change.code for change in changes)),
        "Node",
        node.name,
        ", and ".join(_joined(changes)),
        tuple(field for change in changes for field in change.changes),
        max(change.rank for change in changes),
        sum(change.size for change in changes),
        pod,
        changed,
    )


def both(of_pod: Edit, of_node: Edit) -> Edit:
    """Returns the change of a pod and that of a node as one."""
    return replace(
        of_node,
        code=f"{of_pod.code}+{of_node.code}",
        kind=of_pod.kind,
        name=of_pod.name,
        text=f"{of_pod.text}, and {of_node.text[:1].lower()}{of_node.text[1:]}",
        changes=(*of_pod.changes, *of_node.changes),
        rank=max(of_pod.rank, of_node.rank),
        pod=of_pod.pod,
    )


def _joined(changes: Sequence[PodChange | NodeChange]) -> Iterator[str]:
    """Yields the instructions, of which only the first begins a sentence."""
    texts = [change.text for change in changes if change.text]
    yield from texts[:1]
    yield from (text[:1].lower() + text[1:] for text in texts[1:])


@contextmanager
def in_place(edit: Edit, state: State) -> Iterator[Pod]:
    """The state with the node of the edit, and the pod to judge there, for the length of the block."""
    if edit.node is None:
        yield edit.pod
        return
    before = state.table.node(edit.node.name)
    state.table.set_node(edit.node)
    try:
        yield edit.pod
    finally:
        if before is None:
            state.table.remove_node(edit.node.name)
        else:
            state.table.set_node(before)
