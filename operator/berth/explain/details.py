"""What exactly is in the way on one node, in words: the taint, the label, the port, the other pod."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from berth.engine.plugins.common.default_spreading import HARD
from berth.engine.plugins.node_affinity import NodeAffinity
from berth.engine.plugins.taint_toleration import REFUSING
from berth.engine.state.host_ports import clash
from berth.engine.state.pod_counts import PodMatch
from berth.engine.state.state import State
from berth.explain import reasons
from berth.explain.judgement import Judgement, Refusal
from berth.model import Node, NodeSelector, NodeSelectorTerm, Pod, PodTerm, Requirement, Role, Taint

Detail = Callable[[Pod, Node, State], str]


def detail(code: str, judgement: Judgement, row: int, refusal: Refusal) -> str:
    """Returns what is in the way on the node of this row; if nothing more is known, the reason's own text."""
    node, text, plugin = judgement.table.node(judgement.table.name(row)), refusal.text, refusal.plugin
    if node is not None and code == reasons.POLICY_NODE_AFFINITY and isinstance(plugin, NodeAffinity):
        return _unmet_text(plugin.added, node)
    describe = _DETAILS.get(code)
    found = describe(judgement.pod, node, judgement.state) if describe is not None and node is not None else ""
    return found or f"is rejected: {text}"


def taint_text(taint: Taint) -> str:
    """Returns the taint as kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def untolerated(pod: Pod, node: Node) -> Iterator[Taint]:
    """Yields the taints for which the node rejects the pod."""
    for taint in node.taints:
        if taint.effect in REFUSING and not any(toleration.tolerates(taint) for toleration in pod.tolerations):
            yield taint


def requirement_text(requirement: Requirement) -> str:
    """Returns the requirement in the form of a label selector."""
    values = ", ".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{requirement.key}={values}" if len(requirement.values) == 1 else f"{requirement.key} in ({values})"
        case "NotIn":
            return f"{requirement.key} notin ({values})"
        case "Exists":
            return requirement.key
        case "DoesNotExist":
            return f"!{requirement.key}"
        case _:
            return f"{requirement.key} {'>' if requirement.operator == 'Gt' else '<'} {values}"


def term_text(term: PodTerm) -> str:
    """Returns the pods that a term selects, and near by which label, in words."""
    wanted = "no pods" if term.selector is None else " and ".join(map(requirement_text, term.selector.requirements))
    return f"{wanted or 'any pod'} (topology key {term.topology_key})"


# --- one function a code ---------------------------------------------------------------------------------------------


def _taints(pod: Pod, node: Node, state: State) -> str:
    found = [taint_text(taint) for taint in untolerated(pod, node)]
    return f"has the {'taint' if len(found) == 1 else 'taints'} {', '.join(found)}" if found else ""


def _cordoned(pod: Pod, node: Node, state: State) -> str:
    return "is cordoned"


def _node_affinity(pod: Pod, node: Node, state: State) -> str:
    wrong = [
        f"{key}={node.labels[key]} instead of {value}" if key in node.labels else f"no label {key} ({value} wanted)"
        for key, value in (pod.node_selector or {}).items()
        if node.labels.get(key) != value
    ]
    if wrong:
        return f"has {', '.join(wrong)}"
    return _unmet_text(pod.required_node_affinity, node)


def _unmet_text(selector: NodeSelector | None, node: Node) -> str:
    """Returns the requirements that are not met, of the term of which the fewest are not."""
    terms = selector.terms if selector is not None else ()
    unmet = min((_unmet(term, node) for term in terms), key=len, default=[])
    return f"does not match {' and '.join(unmet)}" if unmet else ""


def _unmet(term: NodeSelectorTerm, node: Node) -> list[str]:
    of_labels = [requirement_text(wanted) for wanted in term.expressions if not wanted.matches(node.labels)]
    named = {"metadata.name": node.name}
    return of_labels + [requirement_text(wanted) for wanted in term.fields if not wanted.matches(named)]


def _ports(pod: Pod, node: Node, state: State) -> str:
    for other in state.table.pods_on(node.name).values():
        for held in other.host_ports:
            if any(clash(held, wanted) for wanted in pod.host_ports):
                return f"has port {held.port}/{held.protocol} in use by {other.key}"
    return ""


def _anti_affinity(pod: Pod, node: Node, state: State) -> str:
    for term in pod.pod_anti_affinity.required:
        other = _selected_near(term, node, state)
        if other is not None:
            return f"has {other[0]} near it on {other[1]}, which anti-affinity to {term_text(term)} forbids"
    return ""


def _existing_anti_affinity(pod: Pod, node: Node, state: State) -> str:
    row = state.table.row(node.name)
    for carried in state.table.terms.matching(pod):
        if carried.role is Role.FORBIDDEN and row is not None:
            for near in _rows_near(carried.topology_key, carried.rows.counted()[0], row, state):
                name = state.table.name(near)
                for other in state.table.pods_on(name).values():
                    if carried.term in other.pod_anti_affinity.required:
                        return f"has {other.key} near it on {name}, whose anti-affinity selects this pod"
    return ""


def _affinity(pod: Pod, node: Node, state: State) -> str:
    for term in pod.pod_affinity.required:
        if term.topology_key not in node.labels:
            return f"has no label {term.topology_key}"
        if _selected_near(term, node, state) is None:
            return f"has no pod near it that matches {term_text(term)}"
    return ""


def _selected_near(term: PodTerm, node: Node, state: State) -> tuple[str, str] | None:
    """Returns a pod that the term selects near the node, and its node."""
    table, row = state.table, state.table.row(node.name)
    if row is None or term.selector is None:
        return None
    counts = table.counts.of((PodMatch(term.selector, term.namespaces, term.namespace_selector),))
    for near in _rows_near(term.topology_key, counts.counted()[0], row, state):
        for other in table.pods_on(table.name(near)).values():
            if _selects(term, other, state):
                return other.key, table.name(near)
    return None


def _selects(term: PodTerm, other: Pod, state: State) -> bool:
    if term.selector is None or not term.selector.matches(other.labels):
        return False
    if other.namespace in term.namespaces:
        return True
    labels = state.namespace_labels(other.namespace) or {}
    return term.namespace_selector is not None and term.namespace_selector.matches(labels)


def _rows_near(key: str, rows: "np.typing.NDArray[np.int64]", row: int, state: State) -> list[int]:
    """Returns those of the rows that are in the domain of the row; the row itself comes first."""
    ids = state.table.domains(key).ids
    domain = ids.item(row)
    near = rows[ids[rows] == domain] if domain >= 0 else rows[:0]
    return sorted(near.tolist(), key=lambda other: other != row)


def _missing_labels(pod: Pod, node: Node, state: State) -> str:
    keys = (constraint.topology_key for constraint in pod.spread_constraints if constraint.when_unsatisfiable == HARD)
    missing = [key for key in keys if key not in node.labels]
    return f"has no label {', '.join(missing)}" if missing else ""


def _skew(pod: Pod, node: Node, state: State) -> str:
    hard = [constraint for constraint in pod.spread_constraints if constraint.when_unsatisfiable == HARD]
    said = [f"{c.topology_key}={node.labels.get(c.topology_key)} (maxSkew {c.max_skew})" for c in hard]
    return f"is in a domain with too many pods of {' or '.join(said)}" if said else ""


_DETAILS: Final[Mapping[str, Detail]] = {
    reasons.UNTOLERATED_TAINT: _taints,
    reasons.NODE_UNSCHEDULABLE: _cordoned,
    reasons.NODE_AFFINITY: _node_affinity,
    reasons.HOST_PORT: _ports,
    reasons.POD_ANTI_AFFINITY: _anti_affinity,
    reasons.EXISTING_ANTI_AFFINITY: _existing_anti_affinity,
    reasons.POD_AFFINITY: _affinity,
    reasons.SPREAD_SKEW: _skew,
    reasons.SPREAD_LABEL: _missing_labels,
}
