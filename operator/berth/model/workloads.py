"""Objects that group pods: namespaces, services, ReplicaSets and other owners of replicas, and disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .fields import MAX_INT32, Body, read, read_integer, read_object, read_optional, read_text_map
from .metadata import read_metadata
from .selectors import LabelSelector, read_label_selector, selector_from_labels


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace; affinity terms may select it by its labels."""

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]

    def __hash__(self) -> int:
        return hash(self.uid)


@dataclass(frozen=True, slots=True)
class Service:
    """A service; an empty selector selects no pods."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    selector: Mapping[str, str]

    def __hash__(self) -> int:
        return hash(self.uid)


@dataclass(frozen=True, slots=True)
class WorkloadOwner:
    """A ReplicationController, ReplicaSet or StatefulSet, and the selector of its pods (None: no pods)."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    selector: LabelSelector | None


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget; `disrupted_pods` are the names of pods whose eviction is already counted.

    `current_healthy` is the number of healthy pods from which the disruptions allowed were computed.

    For preemption an empty selector, not only a missing one, selects no pods.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    selector: LabelSelector | None
    disruptions_allowed: int
    disrupted_pods: frozenset[str]
    current_healthy: int


def parse_namespace(body: object) -> Namespace:
    """Parse the API body of a Namespace; raises InvalidObject."""
    return read("Namespace", body, _namespace)


def parse_service(body: object) -> Service:
    """Parse the API body of a Service; raises InvalidObject."""
    return read("Service", body, _service)


def parse_replication_controller(body: object) -> WorkloadOwner:
    """Parse the API body of a ReplicationController; raises InvalidObject."""
    return read("ReplicationController", body, _replication_controller)


def parse_replica_set(body: object) -> WorkloadOwner:
    """Parse the API body of a ReplicaSet; raises InvalidObject."""
    return read("ReplicaSet", body, lambda own: _owner(own, "ReplicaSet"))


def parse_stateful_set(body: object) -> WorkloadOwner:
    """Parse the API body of a StatefulSet; raises InvalidObject."""
    return read("StatefulSet", body, lambda own: _owner(own, "StatefulSet"))


def parse_disruption_budget(body: object) -> DisruptionBudget:
    """Parse the API body of a PodDisruptionBudget; raises InvalidObject."""
    return read("PodDisruptionBudget", body, _disruption_budget)


def _namespace(body: Body) -> Namespace:
    metadata = read_metadata(body, namespaced=False)
    return Namespace(metadata.name, metadata.uid, metadata.resource_version, metadata.labels)


def _service(body: Body) -> Service:
    metadata = read_metadata(body, namespaced=True)
    selector = read_optional(body, "spec", lambda spec: read_text_map(spec, "selector")) or {}
    return Service(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version, selector)


def _replication_controller(body: Body) -> WorkloadOwner:
    metadata = read_metadata(body, namespaced=True)
    labels = read_optional(body, "spec", lambda spec: read_text_map(spec, "selector"))
    selector = selector_from_labels(labels) if labels else None
    return WorkloadOwner(
        "ReplicationController", metadata.namespace, metadata.name, metadata.uid, metadata.resource_version, selector
    )


def _owner(body: Body, kind: str) -> WorkloadOwner:
    metadata = read_metadata(body, namespaced=True)
    selector = read_optional(body, "spec", lambda spec: read_label_selector(spec, "selector"))
    return WorkloadOwner(kind, metadata.namespace, metadata.name, metadata.uid, metadata.resource_version, selector)


def _disruption_budget(body: Body) -> DisruptionBudget:
    metadata = read_metadata(body, namespaced=True)
    selector = read_optional(body, "spec", lambda spec: read_label_selector(spec, "selector"))
    status = read_optional(body, "status", _budget_status) or (0, frozenset(), 0)
    return DisruptionBudget(
        metadata.namespace, metadata.name, metadata.uid, metadata.resource_version, selector, *status
    )


def _budget_status(status: Body) -> tuple[int, frozenset[str], int]:
    allowed = read_integer(status, "disruptionsAllowed", -MAX_INT32, MAX_INT32, 0)
    disrupted = frozenset(str(name) for name in read_object(status, "disruptedPods"))
    return allowed, disrupted, read_integer(status, "currentHealthy", -MAX_INT32, MAX_INT32, 0)
