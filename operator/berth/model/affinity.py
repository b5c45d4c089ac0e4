"""Affinity of a pod: node affinity, pod affinity and anti-affinity, topology spread constraints.

matchLabelKeys and mismatchLabelKeys stand for "the same (another) value of this label as the pod itself". The API
server merges them into the selector when a pod is created. A pod that was not created through it is treated the same,
and one that was is not changed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .fields import (
    MAX_INT32,
    Body,
    FieldError,
    read_choice,
    read_integer,
    read_items,
    read_list,
    read_object,
    read_optional,
    read_optional_integer,
    read_required_text,
    read_texts,
)
from .selectors import (
    LabelSelector,
    NodeSelector,
    PreferredTerm,
    Requirement,
    build_node_selector,
    build_preferred_term,
    make_label_selector,
    read_label_selector,
)

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A pod affinity term: the selected pods, and the node label that defines the topology domains.

    It selects the pods that `selector` matches (None: no pods) in `namespaces` or in namespaces that
    `namespace_selector` matches. `namespaces` is the pod's own if the term names neither.
    """

    selector: LabelSelector | None
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preferred term with its weight (1..100) in scores."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """The terms of podAffinity or of podAntiAffinity."""

    required: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedPodTerm, ...] = ()


class Role(StrEnum):
    """The kind of a term, for the pod that has it."""

    REQUIRED = "required affinity"
    PREFERRED = "preferred affinity"
    AVOIDED = "preferred anti-affinity"
    FORBIDDEN = "required anti-affinity"


def carried_terms(affinity: PodAffinity, anti_affinity: PodAffinity) -> Iterator[tuple[Role, int, PodTerm]]:
    """The terms of a pod with this affinity, each with its role and weight (0 if required). Terms without a selector
    select nothing, and are left out.
    """
    said = [(Role.REQUIRED, 0, term) for term in affinity.required]
    said += [(Role.PREFERRED, weighted.weight, weighted.term) for weighted in affinity.preferred]
    said += [(Role.AVOIDED, weighted.weight, weighted.term) for weighted in anti_affinity.preferred]
    said += [(Role.FORBIDDEN, 0, term) for term in anti_affinity.required]
    return ((role, weight, term) for role, weight, term in said if term.selector is not None)


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint for the pods that `selector` matches."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    selector: LabelSelector | None
    min_domains: int | None
    node_affinity_policy: str
    node_taints_policy: str
    match_label_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Affinity:
    """spec.affinity as a whole."""

    required_nodes: NodeSelector | None
    preferred_nodes: tuple[PreferredTerm, ...]
    pods: PodAffinity
    anti_pods: PodAffinity


NO_PODS: Final = PodAffinity()
NO_AFFINITY: Final = Affinity(None, (), NO_PODS, NO_PODS)


def read_affinity(spec: Body, namespace: str, labels: Mapping[str, str]) -> Affinity:
    """The affinity in a pod's spec; namespace and labels are the pod's own."""
    if spec.get("affinity") is None:
        return NO_AFFINITY
    affinity = read_object(spec, "affinity")

    def pods(body: Body) -> PodAffinity:
        return _pod_affinity(body, namespace, labels)

    try:
        required, preferred = read_optional(affinity, "nodeAffinity", _node_affinity) or (None, ())
        return Affinity(
            required,
            preferred,
            read_optional(affinity, "podAffinity", pods) or NO_PODS,
            read_optional(affinity, "podAntiAffinity", pods) or NO_PODS,
        )
    except FieldError as error:
        raise error.within("affinity") from None


def build_node_affinity(body: Body) -> tuple[NodeSelector | None, tuple[PreferredTerm, ...]]:
    """A NodeAffinity of a configuration: the required selector (None: nothing is required) and the preferred terms.

    Gt and Lt with a value that is no integer, which in a pod match nothing, are rejected here.
    """
    required, preferred = _node_affinity(body)
    terms = [(f"{REQUIRED}.nodeSelectorTerms[{i}]", t) for i, t in enumerate(required.terms if required else ())]
    terms += [(f"{PREFERRED}[{i}].preference", p.term) for i, p in enumerate(preferred)]
    for path, term in terms:
        for index, requirement in enumerate(term.expressions):
            if requirement.operator in ("Gt", "Lt") and requirement.bound is None:
                problem = f"must be exactly one integer, without a sign, with {requirement.operator}"
                raise FieldError(f"{path}.matchExpressions[{index}].values", problem)
    return required, preferred


def _node_affinity(body: Body) -> tuple[NodeSelector | None, tuple[PreferredTerm, ...]]:
    return read_optional(body, REQUIRED, build_node_selector), read_list(body, PREFERRED, build_preferred_term)


def read_spread_constraints(spec: Body, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
    """The topology spread constraints in a pod's spec; labels are the pod's own."""
    if spec.get("topologySpreadConstraints") is None:
        return ()
    return read_list(spec, "topologySpreadConstraints", lambda body: build_spread_constraint(body, labels))


def build_spread_constraint(body: Body, labels: Mapping[str, str]) -> SpreadConstraint:
    """One topology spread constraint of a pod with these labels."""
    keys = read_texts(body, "matchLabelKeys")
    return SpreadConstraint(
        max_skew=read_integer(body, "maxSkew", 1, MAX_INT32),
        topology_key=read_required_text(body, "topologyKey"),
        when_unsatisfiable=read_choice(body, "whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway")),
        selector=_merge(read_label_selector(body, "labelSelector"), keys, (), labels),
        min_domains=read_optional_integer(body, "minDomains", 1, MAX_INT32),
        node_affinity_policy=read_choice(body, "nodeAffinityPolicy", ("Honor", "Ignore"), "Honor"),
        node_taints_policy=read_choice(body, "nodeTaintsPolicy", ("Honor", "Ignore"), "Ignore"),
        match_label_keys=keys,
    )


def _pod_affinity(body: Body, namespace: str, labels: Mapping[str, str]) -> PodAffinity:
    def term(term_body: Body) -> PodTerm:
        return _pod_term(term_body, namespace, labels)

    def weighted(entry: Body) -> WeightedPodTerm:
        weight = read_integer(entry, "weight", 1, 100)
        pod_term = read_optional(entry, "podAffinityTerm", term)
        if pod_term is None:
            raise FieldError("podAffinityTerm", "is required")
        return WeightedPodTerm(weight, pod_term)

    return PodAffinity(read_list(body, REQUIRED, term), read_list(body, PREFERRED, weighted))


def _pod_term(body: Body, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    keys, mismatch_keys = read_texts(body, "matchLabelKeys"), read_texts(body, "mismatchLabelKeys")
    namespace_selector = read_label_selector(body, "namespaceSelector")
    own = namespace_selector is None and not read_items(body, "namespaces")
    return PodTerm(
        selector=_merge(read_label_selector(body, "labelSelector"), keys, mismatch_keys, labels),
        topology_key=read_required_text(body, "topologyKey"),
        namespaces=frozenset((namespace,) if own else read_texts(body, "namespaces")),
        namespace_selector=namespace_selector,
        match_label_keys=keys,
        mismatch_label_keys=mismatch_keys,
    )


def _merge(
    selector: LabelSelector | None, match: Sequence[str], mismatch: Sequence[str], labels: Mapping[str, str]
) -> LabelSelector | None:
    """The selector with the pod's own values of these labels; labels that the pod does not have are ignored."""
    if selector is None or not (match or mismatch):
        return selector
    same = [Requirement(key, "In", (labels[key],)) for key in match if key in labels]
    other = [Requirement(key, "NotIn", (labels[key],)) for key in mismatch if key in labels]
    return make_label_selector([*selector.requirements, *same, *other])
