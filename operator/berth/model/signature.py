"""The signature of a pod: everything about it that a filter or a score looks at, in one hashable value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from .pod import Pod


class Signature:
    """A tuple of which there is one for as long as somebody has it, made by `of` alone.

    So equal ones are the same, and looking one up many times is cheap: nothing is hashed or compared part by part.
    """

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts

    @classmethod
    def of(cls, *parts: Hashable) -> Signature:
        """The one with these parts."""
        known = _KNOWN.get(parts)
        if known is None:
            known = _KNOWN[parts] = cls(parts)
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        return Signature.of, self.parts  # so that a copy is the same one


_KNOWN: WeakValueDictionary[tuple[Hashable, ...], Signature] = WeakValueDictionary()


def signature_parts(pod: Pod) -> tuple[Hashable, ...]:
    """The parts in a fixed order.

    Default spreading goes by the controller's kind and name, and NodePreferAvoidPodsPriority by its UID, so these are
    among them; and the claim of an ephemeral volume has to be the pod's own, not one that an older pod of the same name
    left behind.
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
