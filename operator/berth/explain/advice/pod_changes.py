"""Changes of a pod that answer one reason on one node, by the code of the reason."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from berth.engine.plugins.common.default_spreading import HARD, HOSTNAME, SOFT
from berth.engine.plugins.node_unschedulable import CORDONED
from berth.engine.state.host_ports import clash
from berth.explain import reasons
from berth.explain.advice.edits import PodChange, Rank
from berth.explain.advice.requests import reduced
from berth.explain.details import requirement_text, taint_text, term_text, untolerated
from berth.explain.judgement import Judgement
from berth.explain.records import FieldChange
from berth.model import (
    HostPort,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    Role,
    SpreadConstraint,
    Taint,
    Toleration,
    selector_from_labels,
)

MOST_ENTRIES: Final = 8  # entries of one list that are tried: more would be tried at the cost of everybody else
PORTS_TRIED: Final = 64
HIGHEST_PORT: Final = 65535
SYSTEM_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")

Changes = Iterator[PodChange]
Rule = Callable[[Judgement, int], Changes]


def pod_changes(code: str, judgement: Judgement, position: int) -> Changes:
    """Yields changes of the pod that may take away this reason on the node at this position of the survey.

    A position of -1 is for reasons that concern no single node.
    """
    rule = _RULES.get(code)
    return rule(judgement, position) if rule is not None else iter(())


def _node_at(judgement: Judgement, position: int) -> Node | None:
    if position < 0:
        return None
    return judgement.table.node(judgement.table.name(int(judgement.rows[position])))


# --- taints ----------------------------------------------------------------------------------------------------------


def _tolerate(judgement: Judgement, position: int) -> Changes:
    node = _node_at(judgement, position)
    taints = list(untolerated(judgement.pod, node)) if node is not None else []
    if taints:
        yield _tolerating(taints)


def _tolerate_cordon(judgement: Judgement, position: int) -> Changes:
    yield _tolerating([CORDONED])


def _tolerating(taints: list[Taint]) -> PodChange:
    added = tuple(Toleration(t.key, "Equal" if t.value else "Exists", t.value, t.effect) for t in taints)
    names = ", ".join(map(taint_text, taints))
    system = any(taint.key.startswith(SYSTEM_TAINTS) for taint in taints)
    return PodChange(
        "AddToleration",
        f"Add {'a toleration' if len(taints) == 1 else 'tolerations'} for {names}",
        tuple(FieldChange("spec.tolerations[]", "", taint_text(taint)) for taint in taints),
        lambda pod: replace(pod, tolerations=(*pod.tolerations, *(t for t in added if t not in pod.tolerations))),
        Rank.DRASTIC if system else Rank.SLIGHT,
        len(taints),
    )


# --- node affinity ---------------------------------------------------------------------------------------------------


def _choose_nodes(judgement: Judgement, position: int) -> Changes:
    pod, node = judgement.pod, _node_at(judgement, position)
    if node is not None:
        wrong = [key for key, value in (pod.node_selector or {}).items() if node.labels.get(key) != value]
        if wrong:
            yield from (_with_value(pod, key, node.labels[key]) for key in wrong[:1] if key in node.labels)
            yield _without_keys(pod, wrong)
    terms = pod.required_node_affinity.terms if pod.required_node_affinity is not None else ()
    for index, term in enumerate(terms[:MOST_ENTRIES]):
        yield from _relaxed(index, term, node)
    if pod.required_node_affinity is not None:
        yield _without_affinity(pod)
    if pod.required_node_affinity is not None and pod.node_selector:
        yield _without_both(pod)
    elif pod.node_selector:
        yield _without_keys(pod, list(pod.node_selector))


def _with_value(pod: Pod, key: str, value: str) -> PodChange:
    selector = pod.node_selector or {}
    return PodChange(
        "ChangeNodeSelector",
        f"Change the nodeSelector {key}={selector[key]} to {key}={value}",
        (FieldChange(f"spec.nodeSelector.{key}", selector[key], value),),
        lambda pod: replace(pod, node_selector={**(pod.node_selector or {}), key: value}),
        Rank.SLIGHT,
        1,
    )


def _without_keys(pod: Pod, keys: list[str]) -> PodChange:
    selector = pod.node_selector or {}
    names = ", ".join(f"{key}={selector[key]}" for key in keys)

    def apply(pod: Pod) -> Pod:
        left = {key: value for key, value in (pod.node_selector or {}).items() if key not in keys}
        return replace(pod, node_selector=left or None)

    changes = tuple(FieldChange(f"spec.nodeSelector.{key}", selector[key], "") for key in keys)
    return PodChange("DropNodeSelector", f"Remove {names} from the nodeSelector", changes, apply, size=len(keys))


_TERMS: Final = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"  # the field's path
)


def _relaxed(index: int, term: NodeSelectorTerm, node: Node | None) -> Changes:
    """Yields the term without the expressions that the node does not meet; without a node, without each in turn."""
    if node is None:
        return
    unmet = [wanted for wanted in term.expressions if not wanted.matches(node.labels)]
    named = {"metadata.name": node.name}
    unnamed = [wanted for wanted in term.fields if not wanted.matches(named)]
    left = NodeSelectorTerm(
        tuple(wanted for wanted in term.expressions if wanted not in unmet),
        tuple(wanted for wanted in term.fields if wanted not in unnamed),
    )
    if not (left.expressions or left.fields) or not (unmet or unnamed):
        return
    changes = [FieldChange(f"{_TERMS}[{index}].matchExpressions[]", requirement_text(wanted), "") for wanted in unmet]
    changes += [FieldChange(f"{_TERMS}[{index}].matchFields[]", requirement_text(wanted), "") for wanted in unnamed]
    names = " and ".join(requirement_text(wanted) for wanted in (*unmet, *unnamed))

    def apply(pod: Pod) -> Pod:
        assert pod.required_node_affinity is not None
        terms = pod.required_node_affinity.terms
        return replace(pod, required_node_affinity=NodeSelector((*terms[:index], left, *terms[index + 1 :])))

    text = f"Remove {names} from the required node affinity"
    yield PodChange("RelaxNodeAffinity", text, tuple(changes), apply, size=len(changes))


def _without_affinity(pod: Pod) -> PodChange:
    path = _TERMS.rpartition(".")[0]
    return PodChange(
        "DropNodeAffinity",
        "Remove the required node affinity",
        (FieldChange(path, "required", ""),),
        lambda pod: replace(pod, required_node_affinity=None),
        size=MOST_ENTRIES,
    )


def _without_both(pod: Pod) -> PodChange:
    return PodChange(
        "DropNodeAffinity",
        "Remove the nodeSelector and the required node affinity",
        (FieldChange("spec.nodeSelector", "set", ""), FieldChange(_TERMS.rpartition(".")[0], "required", "")),
        lambda pod: replace(pod, required_node_affinity=None, node_selector=None),
        size=2 * MOST_ENTRIES,
    )


def _without_node_name(judgement: Judgement, position: int) -> Changes:
    name = judgement.pod.node_name
    yield PodChange(
        "DropNodeName",
        f"Remove spec.nodeName ({name})",
        (FieldChange("spec.nodeName", name, ""),),
        lambda pod: replace(pod, node_name=""),
    )


# --- ports -----------------------------------------------------------------------------------------------------------


def _other_port(judgement: Judgement, position: int) -> Changes:
    node = _node_at(judgement, position)
    if node is None:
        return
    held = [port for other in judgement.table.pods_on(node.name).values() for port in other.host_ports]
    held += [port for other in _nominated(judgement, node.name) for port in other.host_ports]
    wrong = [port for port in judgement.pod.host_ports if any(clash(port, taken) for taken in held)]
    for port in wrong[:MOST_ENTRIES] if len(wrong) == 1 else ():
        free = _free_port(judgement, port)
        if free is not None:
            yield _instead(port, free)
    if wrong:
        yield _without_ports(wrong)


def _nominated(judgement: Judgement, node: str) -> list[Pod]:
    return list(judgement.state.nominated.get(node, {}).values())


def _free_port(judgement: Judgement, port: HostPort) -> HostPort | None:
    """Returns the next port that no pod of the cluster uses, and this one neither."""
    for number in range(port.port + 1, min(port.port + PORTS_TRIED, HIGHEST_PORT + 1)):
        wanted = replace(port, port=number)
        taken = any(True for _ in judgement.table.ports.clashing(wanted))
        if not taken and not any(clash(wanted, own) for own in judgement.pod.host_ports):
            return wanted
    return None


def _instead(port: HostPort, free: HostPort) -> PodChange:
    return PodChange(
        "ChangeHostPort",
        f"Use host port {free.port} instead of {port.port} ({port.protocol})",
        (FieldChange("spec.containers[*].ports[*].hostPort", str(port.port), str(free.port)),),
        lambda pod: replace(pod, host_ports=tuple(free if own == port else own for own in pod.host_ports)),
        Rank.SLIGHT,
        1,
    )


def _without_ports(ports: list[HostPort]) -> PodChange:
    names = ", ".join(f"{port.port}/{port.protocol}" for port in ports)
    return PodChange(
        "DropHostPort",
        f"Use no host port {names}",
        tuple(FieldChange("spec.containers[*].ports[*].hostPort", str(port.port), "") for port in ports),
        lambda pod: replace(pod, host_ports=tuple(own for own in pod.host_ports if own not in ports)),
        size=len(ports),
    )


# --- other pods ------------------------------------------------------------------------------------------------------


def _without_affinity_terms(judgement: Judgement, position: int) -> Changes:
    def put(pod: Pod, affinity: PodAffinity) -> Pod:
        return replace(pod, pod_affinity=affinity)

    yield from _without_terms(judgement.pod.pod_affinity, "podAffinity", "affinity", put)


def _without_anti_affinity_terms(judgement: Judgement, position: int) -> Changes:
    def put(pod: Pod, affinity: PodAffinity) -> Pod:
        return replace(pod, pod_anti_affinity=affinity)

    yield from _without_terms(judgement.pod.pod_anti_affinity, "podAntiAffinity", "anti-affinity", put)


def _without_terms(affinity: PodAffinity, field: str, what: str, put: Callable[[Pod, PodAffinity], Pod]) -> Changes:
    """Yields the pod without each of its required terms in turn, then without all of them."""
    path = f"spec.affinity.{field}.requiredDuringSchedulingIgnoredDuringExecution"
    code = f"Drop{field[0].upper()}{field[1:]}"

    def keeping(*indexes: int) -> Callable[[Pod], Pod]:
        kept = replace(affinity, required=tuple(affinity.required[index] for index in indexes))
        return lambda pod: put(pod, kept)

    every = range(len(affinity.required))
    for index, term in enumerate(affinity.required[:MOST_ENTRIES]):
        text = f"Remove the required {what} to {term_text(term)}, or prefer it only"
        change = FieldChange(f"{path}[{index}]", term_text(term), "")
        yield PodChange(code, text, (change,), keeping(*(other for other in every if other != index)), size=1)
    if len(affinity.required) > 1:
        changes = tuple(FieldChange(f"{path}[{i}]", term_text(term), "") for i, term in enumerate(affinity.required))
        yield PodChange(code, f"Remove all required {what}", changes, keeping(), size=len(changes))


def _other_labels(judgement: Judgement, position: int) -> Changes:
    """Yields the pod without a label by which the anti-affinity of others selects it."""
    pod, keys = judgement.pod, dict[str, None]()
    for carried in judgement.table.terms.matching(pod):
        if carried.role is Role.FORBIDDEN:
            keys |= {wanted.key: None for wanted in carried.requirements if wanted.key in pod.labels}
    merged = set(_merged_keys(pod))
    for key in [key for key in keys if key not in merged][:MOST_ENTRIES]:
        yield _without_label(key, pod.labels[key])


def _without_label(key: str, value: str) -> PodChange:
    return PodChange(
        "DropLabel",
        f"Remove the label {key}={value}, which the anti-affinity of other pods selects",
        (FieldChange(f"metadata.labels.{key}", value, ""),),
        lambda pod: replace(pod, labels={name: text for name, text in pod.labels.items() if name != key}),
        Rank.DRASTIC,
    )


def _merged_keys(pod: Pod) -> Iterator[str]:
    """Yields the labels whose values the API server has merged into the pod's own selectors."""
    weighted = (*pod.pod_affinity.preferred, *pod.pod_anti_affinity.preferred)
    terms = (*pod.pod_affinity.required, *pod.pod_anti_affinity.required, *(each.term for each in weighted))
    for term in terms:
        yield from (*term.match_label_keys, *term.mismatch_label_keys)
    for constraint in pod.spread_constraints:
        yield from constraint.match_label_keys


# --- spreading -------------------------------------------------------------------------------------------------------


def _spread_less(judgement: Judgement, position: int) -> Changes:
    if not judgement.pod.spread_constraints:
        yield _own_constraint(judgement.pod)
    hard = [(i, c) for i, c in enumerate(judgement.pod.spread_constraints) if c.when_unsatisfiable == HARD]
    for index, constraint in hard[:MOST_ENTRIES]:
        for more in (1, 2, 4, 8, 16):
            yield _with_skew(index, constraint, constraint.max_skew + more)
        yield _without_force([(index, constraint)])
    if len(hard) > 1:
        yield _without_force(hard)


def _spread_anyway(judgement: Judgement, position: int) -> Changes:
    if not judgement.pod.spread_constraints:
        yield _own_constraint(judgement.pod)
    node = _node_at(judgement, position)
    hard = [(i, c) for i, c in enumerate(judgement.pod.spread_constraints) if c.when_unsatisfiable == HARD]
    missing = [(i, c) for i, c in hard if node is None or c.topology_key not in node.labels]
    if missing:
        yield _without_force(missing)


def _own_constraint(pod: Pod) -> PodChange:
    """A pod with a constraint of its own does not get the default constraints of the policy."""
    own = SpreadConstraint(1, HOSTNAME, SOFT, selector_from_labels(pod.labels), None, "Honor", "Ignore")
    return PodChange(
        "OwnSpreadConstraint",
        f"Give it a spread constraint of its own with {SOFT}, which replaces the policy's default constraints",
        (FieldChange("spec.topologySpreadConstraints[]", "", f"{HOSTNAME} {SOFT}"),),
        lambda pod: replace(pod, spread_constraints=(own,)),
    )


def _with_skew(index: int, constraint: SpreadConstraint, skew: int) -> PodChange:
    def apply(pod: Pod) -> Pod:
        changed = replace(pod.spread_constraints[index], max_skew=skew)
        return replace(
            pod,
            spread_constraints=(*pod.spread_constraints[:index], changed, *pod.spread_constraints[index + 1 :]),
        )

    return PodChange(
        "RaiseMaxSkew",
        f"Raise maxSkew over {constraint.topology_key} from {constraint.max_skew} to {skew}",
        (FieldChange(f"spec.topologySpreadConstraints[{index}].maxSkew", str(constraint.max_skew), str(skew)),),
        apply,
        Rank.SLIGHT,
        skew - constraint.max_skew,
    )


def _without_force(constraints: list[tuple[int, SpreadConstraint]]) -> PodChange:
    indexes = {index for index, _ in constraints}
    keys = ", ".join(constraint.topology_key for _, constraint in constraints)

    def apply(pod: Pod) -> Pod:
        changed = (
            replace(constraint, when_unsatisfiable=SOFT) if index in indexes else constraint
            for index, constraint in enumerate(pod.spread_constraints)
        )
        return replace(pod, spread_constraints=tuple(changed))

    path = "spec.topologySpreadConstraints[{}].whenUnsatisfiable"
    return PodChange(
        "ScheduleAnyway",
        f"Use whenUnsatisfiable {SOFT} in the spread constraint over {keys}",
        tuple(FieldChange(path.format(index), HARD, SOFT) for index in sorted(indexes)),
        apply,
        size=len(constraints),
    )


# --- volumes, features, claims ---------------------------------------------------------------------------------------


def _without_volumes(judgement: Judgement, position: int) -> Changes:
    """Yields the pod without each of its volumes in turn, then without all of them."""
    volumes = judgement.pod.volumes
    for volume in volumes[:MOST_ENTRIES]:
        yield _without_volume([volume.name])
    if len(volumes) > 1:
        yield _without_volume([volume.name for volume in volumes])


def _without_volume(names: list[str]) -> PodChange:
    return PodChange(
        "DropVolume",
        f"Leave out the {'volume' if len(names) == 1 else 'volumes'} {', '.join(names)}",
        tuple(FieldChange("spec.volumes[]", name, "") for name in names),
        lambda pod: replace(pod, volumes=tuple(volume for volume in pod.volumes if volume.name not in names)),
        Rank.DRASTIC,
        len(names),
    )


def _without_features(judgement: Judgement, position: int) -> Changes:
    names = ", ".join(judgement.pod.required_features)
    yield PodChange(
        "DropFeature",
        f"Do not use {names}",
        (FieldChange("spec", names, ""),),
        lambda pod: replace(pod, required_features=()),
        Rank.DRASTIC,
    )


def _without_claims(judgement: Judgement, position: int) -> Changes:
    names = ", ".join(judgement.pod.resource_claims)
    yield PodChange(
        "DropResourceClaims",
        f"Leave out the resource claims {names}",
        (FieldChange("spec.resourceClaims", names, ""),),
        lambda pod: replace(pod, resource_claims=()),
        Rank.DRASTIC,
    )


_RULES: Final[Mapping[str, Rule]] = {
    reasons.INSUFFICIENT_RESOURCE: reduced,
    reasons.UNTOLERATED_TAINT: _tolerate,
    reasons.NODE_UNSCHEDULABLE: _tolerate_cordon,
    reasons.NODE_AFFINITY: _choose_nodes,
    reasons.NODE_AFFINITY_CONFLICT: _choose_nodes,
    reasons.NOT_NAMED: _choose_nodes,
    reasons.NODE_NAME: _without_node_name,
    reasons.HOST_PORT: _other_port,
    reasons.POD_AFFINITY: _without_affinity_terms,
    reasons.POD_ANTI_AFFINITY: _without_anti_affinity_terms,
    reasons.EXISTING_ANTI_AFFINITY: _other_labels,
    reasons.SPREAD_SKEW: _spread_less,
    reasons.SPREAD_LABEL: _spread_anyway,
    reasons.FEATURE: _without_features,
    reasons.UNSUPPORTED: _without_claims,
    **dict.fromkeys(reasons.OF_VOLUMES, _without_volumes),
}
