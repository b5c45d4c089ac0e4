"""Pods: everything that scheduling reads, parsed once.

`parse_pod` turns an API body into a frozen record; the body is not read again. The resources of a pod are computed in
resources.py, its affinity is parsed in affinity.py, its volumes in volumes.py; this module parses the rest and builds
the record. Mappings in a record are plain dicts that must not be modified; empty ones are shared.

The signature is equal for two pods that every Filter and Score plugin treats alike, such as the replicas of one
ReplicaSet. Priority, preemption policy, gates and nomination are not part of it: they decide when a pod is tried and
which pods it may preempt, not where it fits. Nor are the names of volumes: that of the service account token differs
between replicas.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .affinity import PodAffinity, SpreadConstraint, carried_terms, read_affinity, read_spread_constraints
from .bounds import excesses
from .containers import HostPort, extended_resources, normalised_image, read_containers, read_required_features
from .fields import (
    MAX_INT32,
    MAX_INT64,
    Body,
    FieldError,
    as_object,
    read,
    read_choice,
    read_flag,
    read_integer,
    read_items,
    read_list,
    read_object,
    read_required_text,
    read_text,
    read_text_map,
)
from .resources import pod_resources
from .selectors import NodeSelector, PreferredTerm
from .signature import Signature, signature_parts
from .taints import Toleration, build_toleration
from .volumes import PodVolume, read_volumes

DEFAULT_SCHEDULER: Final = "default-scheduler"
_CONDITIONS: Final = ("PodScheduled", "DisruptionTarget")


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """An owner of a pod; `controller` marks the one that manages it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as scheduling sees it.

    Amounts in `requests`, `usage` and `scored` are millicores for cpu, bytes for memory and ephemeral-storage, whole
    units of other resources, without zeros; so are those in `limits`, which has cpu and memory only. `usage_nonzero` is
    (millicores, bytes): what a placed pod counts with in scores. The views are explained in resources.py.
    `extended_resources`: all resource names with a domain that a container names, even with an amount of zero.
    `preempted`: a scheduler is preempting it.
    """

    uid: str
    namespace: str
    name: str
    resource_version: str
    generation: int
    labels: Mapping[str, str]
    owners: tuple[OwnerReference, ...]
    created: str
    deleting: bool

    scheduler_name: str
    node_name: str
    priority: int
    preemption_policy: str
    gates: tuple[str, ...]

    requests: Mapping[str, int]
    usage: Mapping[str, int]
    scored: Mapping[str, int]
    usage_nonzero: tuple[int, int]
    limits: Mapping[str, int]
    extended_resources: frozenset[str] = frozenset()
    best_effort: bool
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    container_count: int
    required_features: tuple[str, ...]

    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str] | None
    required_node_affinity: NodeSelector | None
    preferred_node_affinity: tuple[PreferredTerm, ...]
    pod_affinity: PodAffinity
    pod_anti_affinity: PodAffinity
    spread_constraints: tuple[SpreadConstraint, ...]
    volumes: tuple[PodVolume, ...]
    resource_claims: tuple[str, ...]

    phase: str
    nominated_node_name: str
    start_time: str
    preempted: bool
    scheduled_condition: tuple[str, str, str] | None

    _signature: Signature | None = field(default=None, init=False, repr=False, compare=False)
    _crowd: Signature | None = field(default=None, init=False, repr=False, compare=False)
    _carried: tuple[Signature, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return hash(self.uid)

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this pod."""
        return next((owner for owner in self.owners if owner.controller), None)

    @property
    def signature(self) -> Hashable:
        """Equal for pods that every Filter and Score plugin treats alike; computed on first use."""
        if self._signature is None:
            object.__setattr__(self, "_signature", Signature.of(*signature_parts(self)))
        return self._signature

    @property
    def crowd(self) -> Hashable:
        """Equal for placed pods that every label selector treats alike: namespace, labels, and whether it is
        terminating.
        """
        if self._crowd is None:
            crowd = Signature.of(self.namespace, frozenset(self.labels.items()), self.deleting)
            object.__setattr__(self, "_crowd", crowd)
        return self._crowd

    @property
    def carried(self) -> tuple[Signature, ...]:
        """The affinity terms of the pod, which affect other pods once it is placed: role, weight and term as parts."""
        if self._carried is None:
            terms = (Signature.of(*said) for said in carried_terms(self.pod_affinity, self.pod_anti_affinity))
            object.__setattr__(self, "_carried", tuple(terms))
            assert self._carried is not None
        return self._carried


def parse_pod(body: object) -> Pod:
    """Parse the API body of a pod; raises InvalidObject."""
    return read("Pod", body, _build)


def _build(body: Body) -> Pod:
    for excess in excesses(body):
        raise FieldError(excess.path, excess.problem)
    metadata, spec, status = read_object(body, "metadata"), read_object(body, "spec"), read_object(body, "status")
    containers = read_containers(spec)
    resources = pod_resources(spec, status, containers.main, containers.init)
    try:
        namespace, name = read_required_text(metadata, "namespace"), read_required_text(metadata, "name")
        uid, labels = read_required_text(metadata, "uid"), read_text_map(metadata, "labels")
        owners = read_list(metadata, "ownerReferences", _owner)
        resource_version = read_text(metadata, "resourceVersion")
        generation = read_integer(metadata, "generation", 0, MAX_INT64, 0)
        created = read_text(metadata, "creationTimestamp")
        deleting = read_text(metadata, "deletionTimestamp") != ""
    except FieldError as error:
        raise error.within("metadata") from None
    try:
        phase = read_text(status, "phase", "Pending")
        nominated_node_name, start_time = read_text(status, "nominatedNodeName"), read_text(status, "startTime")
        conditions = _conditions(status)
    except FieldError as error:
        raise error.within("status") from None
    try:
        affinity = read_affinity(spec, namespace, labels)
        volumes = read_volumes(spec, name)
        pod = Pod(
            uid=uid,
            namespace=namespace,
            name=name,
            resource_version=resource_version,
            generation=generation,
            labels=labels,
            owners=owners,
            created=created,
            deleting=deleting,
            scheduler_name=read_text(spec, "schedulerName") or DEFAULT_SCHEDULER,
            node_name=read_text(spec, "nodeName"),
            priority=read_integer(spec, "priority", -MAX_INT32 - 1, MAX_INT32, 0),
            preemption_policy=read_choice(
                spec, "preemptionPolicy", ("PreemptLowerPriority", "Never"), "PreemptLowerPriority"
            ),
            gates=read_list(spec, "schedulingGates", _name),
            requests=resources.requests,
            usage=resources.usage,
            scored=resources.scored,
            usage_nonzero=resources.usage_nonzero,
            limits=resources.limits,
            extended_resources=extended_resources(containers),
            best_effort=resources.best_effort,
            host_ports=containers.host_ports,
            images=containers.images + _volume_images(volumes),
            container_count=len(containers.main) + len(containers.init),
            required_features=read_required_features(spec, containers),
            tolerations=read_list(spec, "tolerations", build_toleration),
            node_selector=read_text_map(spec, "nodeSelector") or None,
            required_node_affinity=affinity.required_nodes,
            preferred_node_affinity=affinity.preferred_nodes,
            pod_affinity=affinity.pods,
            pod_anti_affinity=affinity.anti_pods,
            spread_constraints=read_spread_constraints(spec, labels),
            volumes=volumes,
            resource_claims=read_list(spec, "resourceClaims", _name),
            phase=phase,
            nominated_node_name=nominated_node_name,
            start_time=start_time,
            preempted=_is_preempted(conditions),
            scheduled_condition=conditions.get("PodScheduled"),
        )
        if not pod.node_name:
            _ = pod.signature, pod.crowd, pod.carried  # computed now, so that the attempt is shorter
        return pod
    except FieldError as error:
        raise error.within("spec") from None


def replica_of(template: Pod, body: Body) -> Pod | None:
    """The record of a pod that differs from `template` in its own fields only, which are parsed here.

    `template` is the record of a pod with the same namespace, labels, owners and spec, and with the same resources in
    its status; either both are bound or neither is, and no claim is named after either. Returns None if one of its own
    fields is invalid: the pod has to be parsed in full then.
    """
    try:
        metadata, status = body["metadata"], read_object(body, "status")
        conditions = _conditions(status)
        node_name, deleting = read_text(body["spec"], "nodeName"), read_text(metadata, "deletionTimestamp") != ""
        own = (
            read_required_text(metadata, "uid"),
            read_required_text(metadata, "name"),
            read_text(metadata, "resourceVersion"),
            read_integer(metadata, "generation", 0, MAX_INT64, 0),
            read_text(metadata, "creationTimestamp"),
            deleting,
            node_name,
            read_text(status, "phase", "Pending"),
            read_text(status, "nominatedNodeName"),
            read_text(status, "startTime"),
            _is_preempted(conditions),
            conditions.get("PodScheduled"),
            None if node_name else template._signature,
            template._crowd if template.deleting is deleting else None,
        )
    except FieldError:
        return None
    pod = Pod.__new__(Pod)
    for get, put in _SHARED:
        put(pod, get(template))
    for put, value in zip(_PUT_OWN, own, strict=True):
        put(pod, value)
    return pod


# In the order of `own` above.
_OWN: Final = (
    *("uid", "name", "resource_version", "generation", "created", "deleting", "node_name"),
    *("phase", "nominated_node_name", "start_time", "preempted", "scheduled_condition", "_signature", "_crowd"),
)
_SLOTS: Final = {name: vars(Pod)[name] for name in Pod.__slots__}  # frozen records are written by descriptors only
_PUT_OWN: Final = tuple(_SLOTS[name].__set__ for name in _OWN)
_SHARED: Final = tuple((slot.__get__, slot.__set__) for name, slot in _SLOTS.items() if name not in _OWN)


def _is_preempted(conditions: Mapping[str, tuple[str, str, str]]) -> bool:
    return conditions.get("DisruptionTarget", ())[:2] == ("True", "PreemptionByScheduler")


def _owner(body: Body) -> OwnerReference:
    return OwnerReference(
        read_text(body, "apiVersion"),
        read_required_text(body, "kind"),
        read_required_text(body, "name"),
        read_text(body, "uid"),
        read_flag(body, "controller"),
    )


def _name(body: Body) -> str:
    return read_required_text(body, "name")


def _volume_images(volumes: tuple[PodVolume, ...]) -> tuple[str, ...]:
    return tuple(normalised_image(str(v.details["reference"])) for v in volumes if v.source == "image")


def _conditions(status: Body) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of the conditions that scheduling reads, by type; the first of a type counts."""
    found: dict[str, tuple[str, str, str]] = {}
    for index, condition in enumerate(read_items(status, "conditions")):
        try:
            kind = read_required_text(as_object(condition), "type")
            if kind in _CONDITIONS and kind not in found:
                said = read_text(condition, "status"), read_text(condition, "reason"), read_text(condition, "message")
                found[kind] = said
        except FieldError as error:
            raise error.within(f"conditions[{index}]") from None
    return found
