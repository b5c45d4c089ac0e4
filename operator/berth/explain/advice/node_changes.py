"""Changes of one node that answer all reasons there, and a new node that would take the pod."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from berth.engine.plugins.common.default_spreading import HOSTNAME
from berth.engine.plugins.node_unschedulable import CORDONED
from berth.engine.state.node_table import EXACT
from berth.explain import reasons
from berth.explain.advice.edits import Edit, NodeChange, Rank, node_edit
from berth.explain.advice.labels import for_selectors, for_topology, for_volumes, is_own_name
from berth.explain.advice.requests import lacking, needed
from berth.explain.details import taint_text, untolerated
from berth.explain.judgement import Judgement
from berth.explain.quantities import quantity, rounded
from berth.explain.records import FieldChange
from berth.model import Node, Pod, Taint
from berth.policy.wording import count

SHOWN_RESOURCES: Final = ("cpu", "memory")
_LABELLED: Final = (reasons.NODE_AFFINITY, reasons.POLICY_NODE_AFFINITY)
_ZONED: Final = ("VolumeZoneConflict", "VolumeNodeAffinityConflict")
_TOPOLOGY: Final = (reasons.SPREAD_LABEL, reasons.POD_AFFINITY)
_SYSTEM: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def node_changes(codes: set[str], judgement: Judgement, position: int) -> list[NodeChange] | None:
    """Returns the changes of the node that answer all of these reasons; None if one of them has no answer."""
    name = judgement.table.name(int(judgement.rows[position]))
    node = judgement.table.node(name)
    if node is None:
        return None
    changes = [change for code in sorted(codes) for change in _answers(code, judgement, position, node)]
    answered = {code for code in codes if any(True for _ in _answers(code, judgement, position, node))}
    return _distinct(changes) if answered == codes else None


def _answers(code: str, judgement: Judgement, position: int, node: Node) -> Iterator[NodeChange]:
    if code in (reasons.INSUFFICIENT_RESOURCE, reasons.TOO_MANY_PODS):
        yield from _more(judgement, position)
    elif code in (reasons.NODE_UNSCHEDULABLE, reasons.UNTOLERATED_TAINT):
        yield from _welcoming(judgement.pod, node)
    elif code in _LABELLED:
        yield from _relabelled(node, for_selectors(judgement, node.name, node.labels))
    elif code in _ZONED:
        yield from _relabelled(node, for_volumes(judgement, node.name, node.labels))
    elif code in _TOPOLOGY:
        yield from _relabelled(node, for_topology(judgement, node.labels))


def _distinct(changes: list[NodeChange]) -> list[NodeChange]:
    return list({change.changes: change for change in changes}.values())


def _more(judgement: Judgement, position: int) -> Iterator[NodeChange]:
    """Yields the node with enough of everything of which it has too little; absurd amounts are not proposed."""
    short = lacking(judgement, position)
    name = judgement.table.name(int(judgement.rows[position]))
    node = judgement.table.node(name)
    if node is None or not short or any(asked >= EXACT for asked, _ in short.values()):
        return
    more = {resource: rounded(resource, asked - free, up=True) for resource, (asked, free) in short.items()}
    grown = {resource: node.allocatable.get(resource, 0) + amount for resource, amount in more.items()}
    added = [f"{quantity(resource, amount)} {resource}" for resource, amount in more.items()]
    changes = tuple(
        FieldChange(f"status.allocatable.{r}", quantity(r, node.allocatable.get(r, 0)), quantity(r, amount))
        for r, amount in grown.items()
    )
    size = 1 + max((asked - free) / asked for asked, free in short.values())
    can_be_freed = all(asked <= node.allocatable.get(resource, 0) for resource, (asked, _) in short.items())
    text = f"Give node {name} {' and '.join(added)} more{', or free as much there' if can_be_freed else ''}"
    if set(more) == {"pods"}:
        text = f"Allow {count(more['pods'], 'more pod')} on node {name}, or free a place there"
    yield NodeChange(
        "AddCapacity",
        text,
        changes,
        lambda node: replace(node, allocatable={**node.allocatable, **grown}),
        Rank.NODE if can_be_freed else Rank.LARGE,
        size,
    )


def _welcoming(pod: Pod, node: Node) -> Iterator[NodeChange]:
    """Yields the node uncordoned, and without the taints that the pod does not tolerate."""
    if node.unschedulable and not any(toleration.tolerates(CORDONED) for toleration in pod.tolerations):
        yield NodeChange(
            "Uncordon",
            f"Uncordon node {node.name}",
            (FieldChange("spec.unschedulable", "true", "false"),),
            _uncordoned,
        )
    taints = [taint for taint in untolerated(pod, node) if taint.key != CORDONED.key or not node.unschedulable]
    if taints:
        yield _without_taints(node, taints)


def _uncordoned(node: Node) -> Node:
    """Returns the node as the API server shows it afterwards: the taint of a cordoned node goes with the mark."""
    return replace(node, unschedulable=False, taints=tuple(t for t in node.taints if t.key != CORDONED.key))


def _without_taints(node: Node, taints: list[Taint]) -> NodeChange:
    names = ", ".join(map(taint_text, taints))
    unhealthy = any(taint.key in _SYSTEM for taint in taints)
    text = f"Repair node {node.name}, so that it loses" if unhealthy else f"Remove from node {node.name}"
    return NodeChange(
        "RemoveTaint",
        f"{text} the {'taint' if len(taints) == 1 else 'taints'} {names}",
        tuple(FieldChange("spec.taints[]", taint_text(taint), "") for taint in taints),
        lambda node: replace(node, taints=tuple(taint for taint in node.taints if taint not in taints)),
        size=len(taints),
    )


def _relabelled(node: Node, labels: Mapping[str, str] | None) -> Iterator[NodeChange]:
    if labels is None:
        return
    keys = sorted(key for key in {*labels, *node.labels} if labels.get(key) != node.labels.get(key))
    if not keys or any(map(is_own_name, keys)):
        return
    said = [f"{key}={labels[key]}" if key in labels else f"{key}-" for key in keys]
    yield NodeChange(
        "SetLabel",
        f"Label node {node.name} with {' '.join(said)}",
        tuple(FieldChange(f"metadata.labels.{k}", node.labels.get(k, ""), labels.get(k, "")) for k in keys),
        lambda node: replace(node, labels=dict(labels)),
        size=len(keys),
    )


# --- a new node ------------------------------------------------------------------------------------------------------


def new_node(judgement: Judgement, like: Node) -> Edit | None:
    """Returns a new, empty node like another one, changed as little as the pod needs; None if no node would do."""
    pod = judgement.pod
    name = _free_name(judgement, like.name)
    fresh = replace(like, name=name, uid=f"new-{name}", labels=_named(like, name), annotations={})
    edit = node_edit(pod, fresh, _needs(judgement, like, name) or [_as_it_is])
    if any(amount >= EXACT for amount in pod.requests.values()):
        return None
    extra = f" with {edit.text}" if edit.changes else ""
    return replace(
        edit,
        code="AddNode",
        text=f"Add a node like {like.name} ({_size(like)}){extra}",
        rank=Rank.ADD_NODE,
        changes=(FieldChange("Node", "", f"like {like.name}"), *edit.changes),
    )


_as_it_is = NodeChange("AddNode", "", (), lambda node: node, Rank.ADD_NODE)


def _needs(judgement: Judgement, like: Node, name: str) -> list[NodeChange]:
    pod = judgement.pod
    labels = for_selectors(judgement, name, _named(like, name))
    labels = for_volumes(judgement, name, labels) if labels is not None else None
    labels = for_topology(judgement, labels) if labels is not None else None
    found = list(_new_labels(like, name, labels))
    taints = list(untolerated(pod, like))
    if taints:
        gone = ", ".join(map(taint_text, taints))
        kept = tuple(taint for taint in like.taints if taint not in taints)
        change = FieldChange("spec.taints[]", gone, "")
        found.append(NodeChange("AddNode", f"no taint {gone}", (change,), lambda node: replace(node, taints=kept)))
    found += _enough(judgement, like)
    return [*found, _healthy(pod)]


def _new_labels(like: Node, name: str, labels: Mapping[str, str] | None) -> Iterator[NodeChange]:
    if labels is None:
        return
    own = _named(like, name)
    keys = [key for key in {*labels, *own} if labels.get(key) != own.get(key)]
    said = [f"{key}={labels[key]}" if key in labels else f"no {key}" for key in sorted(keys)]
    if keys:
        changes = tuple(FieldChange(f"metadata.labels.{k}", own.get(k, ""), labels.get(k, "")) for k in sorted(keys))
        text = ("label " if len(keys) == 1 else "labels ") + ", ".join(said)
        yield NodeChange("AddNode", text, changes, lambda node: replace(node, labels=dict(labels)))


def _enough(judgement: Judgement, like: Node) -> Iterator[NodeChange]:
    wanted = needed(judgement)
    short = {resource: amount for resource, amount in wanted.items() if like.allocatable.get(resource, 0) < amount}
    if short:
        said = " and ".join(f"{quantity(resource, amount)} {resource}" for resource, amount in short.items())
        changes = tuple(
            FieldChange(f"status.allocatable.{r}", quantity(r, like.allocatable.get(r, 0)), quantity(r, amount))
            for r, amount in short.items()
        )
        yield NodeChange(
            "AddNode", said, changes, lambda node: replace(node, allocatable={**node.allocatable, **short})
        )


def _healthy(pod: Pod) -> NodeChange:
    """A new node is ready and not cordoned, and declares what the pod needs: none of that has to be said."""

    def apply(node: Node) -> Node:
        conditions = {kind: "True" if kind == "Ready" else "False" for kind in node.conditions}
        features = tuple(sorted({*node.declared_features, *pod.required_features}))
        changed = replace(_uncordoned(node), conditions=conditions, declared_features=features)
        return replace(changed, taints=tuple(t for t in changed.taints if t.key not in _SYSTEM))

    return NodeChange("AddNode", "", (), apply, Rank.ADD_NODE)


def _named(like: Node, name: str) -> dict[str, str]:
    return {**like.labels, **({HOSTNAME: name} if HOSTNAME in like.labels else {})}


def _free_name(judgement: Judgement, like: str) -> str:
    name = f"{like}-new"
    while judgement.table.node(name) is not None or judgement.table.pods_on(name):
        name += "-new"
    return name


def _size(node: Node) -> str:
    return ", ".join(f"{quantity(r, node.allocatable.get(r, 0))} {r}" for r in SHOWN_RESOURCES)
