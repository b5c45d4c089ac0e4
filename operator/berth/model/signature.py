"""The signature of a pod: everything about it that a Filter or Score plugin reads, in one hashable value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from .pod import Pod


class Signature:
    """An interned tuple: equal tuples are one object for as long as it is referenced. Created by `of` only.

    So equality is identity, and lookups are cheap: the parts are neither hashed nor compared.
    """

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts

    @classmethod
    def of(cls, *parts: Hashable) -> Signature:
        """The signature with these parts."""
        known = _KNOWN.get(parts)
        if known is None:
            known = _KNOWN[parts] = cls(parts)
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        return Signature.of, self.parts  # so that copying returns the same object


_KNOWN: WeakValueDictionary[tuple[Hashable, ...], Signature] = WeakValueDictionary()


def signature_parts(pod: Pod) -> tuple[Hashable, ...]:
    """The parts in a fixed order.

    The controller is included because default spreading uses its kind and name, and NodePreferAvoidPodsPriority its
    UID. The pod's UID is included if it has an ephemeral volume: the claim must belong to the pod itself, not to an
    older pod of the same name.
    """
    controller = pod.controller
    return (
        pod.namespace,
        _pairs(pod.labels),
        pod.scheduler_name,
        pod.node_name,
        (controller.api_version, controller.kind, controller.name, controller.uid) if controller else None,
        _pairs(pod.requests),
        _pairs(pod.usage) if pod.usage is not pod.requests else None,
        _pairs(pod.scored),
        pod.usage_nonzero,
        _pairs(pod.limits),
        pod.best_effort,
        pod.host_ports,
        pod.images,
        pod.container_count,
        pod.required_features,
        pod.tolerations,
        _pairs(pod.node_selector) if pod.node_selector else None,
        pod.required_node_affinity,
        pod.preferred_node_affinity,
        pod.pod_affinity,
        pod.pod_anti_affinity,
        pod.spread_constraints,
        tuple(volume.signature for volume in pod.volumes),
        pod.uid if any(volume.ephemeral for volume in pod.volumes) else None,
        pod.resource_claims,
    )


def _pairs(mapping: Mapping[str, str] | Mapping[str, int]) -> tuple[tuple[str, str | int], ...]:
    return tuple(sorted(mapping.items()))
