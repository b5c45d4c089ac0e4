"""Labels that a node would need: for selectors of the pod, of the policy and of volumes."""

from collections.abc import Iterable, Mapping
from typing import Final

from berth.engine.plugins.common.default_spreading import HARD, HOSTNAME
from berth.engine.plugins.node_affinity import NodeAffinity
from berth.engine.plugins.volume_zone import places_of
from berth.engine.state.pod_counts import PodMatch
from berth.explain.judgement import Judgement
from berth.model import NodeSelector, NodeSelectorTerm, Pod, PodTerm, Requirement

ANY_VALUE: Final = "true"

Labels = Mapping[str, str]


def for_selectors(judgement: Judgement, name: str, labels: Labels) -> dict[str, str] | None:
    """Returns the labels with what nodeSelector and required node affinity want, the policy's included.

    None if the node would need another name.
    """
    pod = judgement.pod
    found: dict[str, str] | None = {**labels, **(pod.node_selector or {})}
    selectors = [pod.required_node_affinity, *_added(judgement)]
    for selector in selectors:
        found = for_selector(selector, name, found) if selector is not None and found is not None else found
    return found


def _added(judgement: Judgement) -> Iterable[NodeSelector | None]:
    return (o.plugin.added for o in judgement.opinions if isinstance(o.plugin, NodeAffinity))


def for_selector(selector: NodeSelector, name: str, labels: Labels) -> dict[str, str] | None:
    """Returns the labels with which one of the terms matches: of the one that needs the fewest changes."""
    made = [_for_term(term, name, labels) for term in selector.terms]
    return min((each for each in made if each is not None), key=lambda each: _distance(labels, each), default=None)


def _distance(before: Labels, after: Labels) -> int:
    return sum(before.get(key) != after.get(key) for key in {*before, *after})


def _for_term(term: NodeSelectorTerm, name: str, labels: Labels) -> dict[str, str] | None:
    if not term.expressions and not term.fields:
        return None
    if not all(wanted.matches({"metadata.name": name}) for wanted in term.fields):
        return None
    found = dict(labels)
    for wanted in term.expressions:
        if not wanted.matches(found):
            _meet(wanted, found)
    return found if all(wanted.matches(found) for wanted in term.expressions) else None


def _meet(wanted: Requirement, labels: dict[str, str]) -> None:
    """Changes the label so that it meets the requirement."""
    match wanted.operator:
        case "In":
            labels[wanted.key] = wanted.values[0]
        case "Exists":
            labels[wanted.key] = ANY_VALUE
        case "NotIn" | "DoesNotExist":
            labels.pop(wanted.key, None)
        case _:
            if wanted.bound is not None:
                labels[wanted.key] = str(wanted.bound + (1 if wanted.operator == "Gt" else -1))


def for_volumes(judgement: Judgement, name: str, labels: Labels) -> dict[str, str] | None:
    """Returns the labels with which the pod's bound volumes can be used; None if no labels do."""
    state, pod = judgement.state, judgement.pod
    found: dict[str, str] | None = dict(labels)
    for volume in pod.volumes:
        claim = state.claim(pod.namespace, volume.claim) if volume.claim else None
        bound = state.volume(claim.volume_name) if claim is not None and claim.volume_name else None
        if bound is None or found is None:
            continue
        for key, values in places_of(bound):
            if found.get(key) not in values:
                found[key] = min(values)
        if bound.node_affinity is not None:
            found = for_selector(bound.node_affinity, name, found)
    return found


def for_topology(judgement: Judgement, labels: Labels) -> dict[str, str]:
    """Returns the labels with the topology keys that the pod's rules need: near the pods that it wants to be near."""
    pod, found = judgement.pod, dict(labels)
    for term in pod.pod_affinity.required:
        value = _where(term, judgement)
        if value:
            found[term.topology_key] = value
        else:
            found.setdefault(term.topology_key, ANY_VALUE)
    for key in _spread_keys(pod):
        found.setdefault(key, ANY_VALUE)
    return found


def _spread_keys(pod: Pod) -> list[str]:
    return [c.topology_key for c in pod.spread_constraints if c.when_unsatisfiable == HARD]


def _where(term: PodTerm, judgement: Judgement) -> str:
    """Returns the value of the topology key of a node that has a pod which the term selects."""
    table = judgement.table
    if term.selector is None:
        return ""
    counts = table.counts.of((PodMatch(term.selector, term.namespaces, term.namespace_selector),))
    names = (table.name(row) for row in counts.counted()[0].tolist())
    nodes = (table.node(name) for name in names)
    values = (node.labels.get(term.topology_key, "") for node in nodes if node is not None)
    return next(filter(None, values), "")


def is_own_name(key: str) -> bool:
    """Whether a label identifies the node, so that nobody should set it by hand."""
    return key == HOSTNAME
