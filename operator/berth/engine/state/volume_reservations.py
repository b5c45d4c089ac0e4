"""VolumeReservations: the available PersistentVolumes, and those that assumed pods have reserved.

A volume is free (phase Available, no claimRef), reserved for one claim (by its claimRef or by an assumed pod), or
neither. A pod that is assumed on a node, but whose claims are not bound yet, holds a reservation (VolumePlan). Every
later decision sees the volumes as bound to its claims, and the claims to be provisioned as annotated with the selected
node, as if both had been written to the API already. What the API says takes precedence over a reservation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from berth.engine.state.free_volumes import FreeVolumes
from berth.model import Claim, ClaimReference, Volume

if TYPE_CHECKING:
    from berth.engine.state.state import State

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """How a pod's unbound claims get volumes on a node: `bindings` are (claim, volume), `provisions` get new ones."""

    node: str
    bindings: tuple[tuple[Claim, Volume], ...] = ()
    provisions: tuple[Claim, ...] = ()


class VolumeReservations:
    def __init__(self, state: State) -> None:
        self._state = state
        self.version = 0  # moves with every reservation that is made or released
        self._free: dict[str, FreeVolumes] = {}  # by storage class
        self._class_of: dict[str, str] = {}  # of volumes that are free
        self._kept: dict[str, dict[str, Volume]] = {}  # key of the claim -> volume name
        self._claim_of: dict[str, str] = {}  # of volumes that are reserved
        self._plans: dict[str, VolumePlan] = {}
        self._reserved: dict[str, dict[str, ClaimReference]] = {}  # volume name -> UID of the pod -> claim
        self._selected: dict[str, dict[str, str]] = {}  # key of the claim -> UID of the pod -> node

    # --- reading -----------------------------------------------------------------------------------------------------

    def free(self, storage_class: str) -> FreeVolumes | None:
        """Returns the free volumes of the class; None if it has none."""
        return self._free.get(storage_class)

    def kept(self, claim: Claim) -> list[Volume]:
        """Returns the volumes that are reserved for this claim, sorted by name."""
        found = self._kept.get(f"{claim.namespace}/{claim.name}", {})
        return [found[name] for name in sorted(found) if _is_for(found[name].claim_ref, claim)]

    def claim(self, namespace: str, name: str) -> Claim | None:
        """Returns the claim as decisions must see it: with the selected node that an assumed pod chose."""
        claim = self._state.claim(namespace, name)
        nodes = self._selected.get(f"{namespace}/{name}") if self._selected else None
        if claim is None or nodes is None or SELECTED_NODE in claim.annotations:
            return claim
        return replace(claim, annotations={**claim.annotations, SELECTED_NODE: _last(nodes)})

    def plan(self, uid: str) -> VolumePlan | None:
        return self._plans.get(uid)

    @property
    def plans(self) -> Mapping[str, VolumePlan]:
        """The reservations, by the UID of their pod."""
        return self._plans

    # --- reservations ------------------------------------------------------------------------------------------------

    def reserve(self, uid: str, plan: VolumePlan) -> None:
        """Reserves the volumes of a plan for a pod. Pods that share a claim may reserve the same volume."""
        if uid in self._plans:
            raise ValueError(f"pod {uid} has reserved volumes already")
        self._plans[uid] = plan
        self.version += 1
        for claim in plan.provisions:
            self._selected.setdefault(f"{claim.namespace}/{claim.name}", {})[uid] = plan.node
        for claim, volume in plan.bindings:
            reference = ClaimReference(claim.namespace, claim.name, claim.uid)
            self._reserved.setdefault(volume.name, {})[uid] = reference
            self._file(volume.name)

    def release(self, uid: str) -> None:
        """Releases what the pod reserved; no error if it has no reservation."""
        plan = self._plans.pop(uid, None)
        if plan is None:
            return
        self.version += 1
        for claim in plan.provisions:
            _discard(self._selected, f"{claim.namespace}/{claim.name}", uid)
        for _, volume in plan.bindings:
            _discard(self._reserved, volume.name, uid)
            self._file(volume.name)

    # --- following ---------------------------------------------------------------------------------------------------

    def changed(self, name: str) -> None:
        """Updates a PersistentVolume that was added, changed or removed."""
        self._file(name)

    def statistics(self) -> dict[str, int]:
        return {"classes_with_free_volumes": len(self._free), "claims_with_kept_volumes": len(self._kept)}

    def _file(self, name: str) -> None:
        """Files the volume as free, as reserved for a claim, or not at all."""
        self._take_off(name)
        volume = self._state.volume(name)
        if volume is None or volume.deleting:
            return
        reserved = self._reserved.get(name)
        reference = volume.claim_ref or (_last(reserved) if reserved else None)
        if reference is not None:
            key = self._claim_of[name] = f"{reference.namespace}/{reference.name}"
            self._kept.setdefault(key, {})[name] = replace(volume, claim_ref=reference)
        elif volume.phase == "Available":
            self._class_of[name] = volume.storage_class
            self._free.setdefault(volume.storage_class, FreeVolumes()).put(volume)

    def _take_off(self, name: str) -> None:
        claim, storage_class = self._claim_of.pop(name, None), self._class_of.pop(name, None)
        if claim is not None:
            del self._kept[claim][name]
            if not self._kept[claim]:
                del self._kept[claim]
        if storage_class is not None:
            self._free[storage_class].drop(name)
            if not self._free[storage_class]:
                del self._free[storage_class]


def _last(by_uid: dict[str, Value]) -> Value:
    """Returns the value of the pod that reserved last."""
    return by_uid[next(reversed(by_uid))]


def _discard(reservations: dict[str, dict[str, Value]], name: str, uid: str) -> None:
    held = reservations.get(name, {})
    held.pop(uid, None)
    if not held:
        reservations.pop(name, None)


def _is_for(reference: ClaimReference | None, claim: Claim) -> bool:
    return reference is not None and reference.uid in ("", claim.uid)
