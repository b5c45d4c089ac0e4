"""Volumes: what users and administrators make of them, and the volume controller and the provisioner, step by step.

Two storage classes wait for their first consumer: one has volumes that an administrator makes, the other has them made
by a provisioner once a node is selected. A claim becomes bound in three steps, each a write of its own, so that others
see what is half done. The provisioner fails now and then, and takes the selected node off then, as provisioners do.
"""

from __future__ import annotations

from random import Random
from typing import Any

from berth.model import object_key
from berth.sim.resources import CLAIMS, NODES, STORAGE_CLASSES, VOLUMES, Resource
from berth.sim.store import Object
from simulation.recording import SELECTED_NODE, RecordingStore
from simulation.trace import Trace

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
STATIC, MADE = "static", "made"
PROVISIONERS = {STATIC: "kubernetes.io/no-provisioner", MADE: "simulation.berth.dev/disks"}
MOST_CLAIMS = 10  # in a namespace
MOST_VOLUMES = 8
FAILS = 0.2  # of what the provisioner is to make


class Volumes:
    """Everything about volumes that is not Berth."""

    def __init__(self, random: Random, store: RecordingStore) -> None:
        self._random = random
        self._store = store
        self._made = 0

    def furnish(self) -> None:
        for name, provisioner in PROVISIONERS.items():
            body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            self._store.create(STORAGE_CLASSES, body)
        for _ in range(self._random.randint(1, 4)):
            self.add_volume()

    # --- users and administrators ------------------------------------------------------------------------------------

    def claim_for(self, namespace: str) -> Object:
        """A pod's volume, with its claim, which may be there already."""
        name = f"claim-{self._random.randrange(MOST_CLAIMS)}"
        if f"{namespace}/{name}" not in self._claims():
            self._make_claim(namespace, name)
        return {"name": "data", "persistentVolumeClaim": {"claimName": name}}

    def _make_claim(self, namespace: str, name: str) -> None:
        spec = {
            "storageClassName": self._random.choice((STATIC, MADE)),
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": self._random.choice(("1Gi", "5Gi"))}},
        }
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        self._store.create(CLAIMS, body, namespace=namespace)

    def delete_claim(self) -> bool:
        """And rather one whose volume is just being bound or made."""
        claims = list(self._store.list(CLAIMS).items)
        hot = [claim for claim in claims if SELECTED_NODE in _annotations(claim) and _phase(claim) != "Bound"]
        claim = self._choose(hot if hot and self._random.random() < 0.5 else claims)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return False
        self._store.delete(CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"])
        if self._random.random() < 0.5:  # nobody waits until no pod uses it
            self._unprotect(CLAIMS, claim)
            if self._random.random() < 0.5:
                self._make_claim(claim["metadata"]["namespace"], claim["metadata"]["name"])
        return True

    def add_volume(self) -> bool:
        if len(self._store.list(VOLUMES).items) >= MOST_VOLUMES:
            return False
        self._made += 1
        nodes = [node["metadata"]["labels"] for node in self._store.list(NODES).items]
        label = self._random.choice((HOST, ZONE))
        values = sorted({labels[label] for labels in nodes if label in labels}) or ["east"]
        spec = {
            "capacity": {"storage": self._random.choice(("1Gi", "10Gi"))},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STATIC,
            "local": {"path": f"/disks/{self._made}"},
            "nodeAffinity": _affinity(label, self._random.choice(values)),
        }
        self._store.create(VOLUMES, {"metadata": {"name": f"disk-{self._made}"}, "spec": spec})
        return True

    def remove_volume(self) -> bool:
        volume = self._choose(self._store.list(VOLUMES).items)
        if volume is None:
            return False
        self._store.delete(VOLUMES, "", volume["metadata"]["name"])
        return True

    # --- the volume controller and the provisioner -------------------------------------------------------------------

    def keep(self, *, calm: bool) -> None:
        """One look at everything; one step for each, at most, in a storm."""
        claims = self._claims()
        for volume in self._store.list(VOLUMES).items:
            if calm or self._random.random() < 0.6:
                self._keep_volume(volume, claims)
        for claim in self._store.list(CLAIMS).items:
            if calm or self._random.random() < 0.6:
                self._keep_claim(claim, calm=calm)

    def _keep_volume(self, volume: Object, claims: dict[str, Object]) -> None:
        reference, name = volume["spec"].get("claimRef"), volume["metadata"]["name"]
        if volume["metadata"].get("deletionTimestamp"):
            self._unprotect(VOLUMES, volume)
        elif reference is None:
            if _phase(volume) not in ("Available",):
                self._set_phase(VOLUMES, volume, "Available")
        elif reference.get("uid") and not self._is_claimed(reference, claims):
            if _phase(volume) == "Released":
                self._store.delete(VOLUMES, "", name)
            else:
                self._set_phase(VOLUMES, volume, "Released")

    def _is_claimed(self, reference: Object, claims: dict[str, Object]) -> bool:
        claim = claims.get(f"{reference['namespace']}/{reference['name']}")
        return claim is not None and claim["metadata"]["uid"] == reference["uid"]

    def _keep_claim(self, claim: Object, *, calm: bool) -> None:
        if claim["metadata"].get("deletionTimestamp"):
            self._unprotect(CLAIMS, claim)
            return
        volume = self._volume_of(claim)
        if volume is not None:
            if _phase(claim) != "Bound":
                self._bind_one_step(claim, volume)
        elif claim["spec"].get("volumeName"):
            if _phase(claim) != "Lost":
                self._set_phase(CLAIMS, claim, "Lost")
        elif claim["spec"]["storageClassName"] == MADE and SELECTED_NODE in _annotations(claim):
            self._provision(claim, calm=calm)

    def _volume_of(self, claim: Object) -> Object | None:
        volumes = {volume["metadata"]["name"]: volume for volume in self._store.list(VOLUMES).items}
        if named := claim["spec"].get("volumeName"):
            return volumes.get(named)
        for volume in volumes.values():
            if (volume["spec"].get("claimRef") or {}).get("uid") == claim["metadata"]["uid"]:
                return None if volume["metadata"].get("deletionTimestamp") else volume
        return None

    def _bind_one_step(self, claim: Object, volume: Object) -> None:
        if _phase(volume) != "Bound":
            self._set_phase(VOLUMES, volume, "Bound")
        elif not claim["spec"].get("volumeName"):
            patch = {
                "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
                "spec": {"volumeName": volume["metadata"]["name"]},
            }
            self._patch(CLAIMS, claim, patch)
        else:
            self._set_phase(CLAIMS, claim, "Bound")

    def _provision(self, claim: Object, *, calm: bool) -> None:
        metadata, wanted = claim["metadata"], _annotations(claim)[SELECTED_NODE]
        node = next((one for one in self._store.list(NODES).items if one["metadata"]["name"] == wanted), None)
        if node is None or (not calm and self._random.random() < FAILS):
            self._patch(CLAIMS, claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        reference = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
        spec = {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": MADE,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
            "csi": {"driver": "simulation.berth.dev", "volumeHandle": metadata["uid"]},
            "nodeAffinity": _affinity(HOST, node["metadata"]["labels"][HOST]),
        }
        self._store.create(VOLUMES, {"metadata": {"name": f"pvc-{metadata['uid']}"}, "spec": spec})

    # --- small things ------------------------------------------------------------------------------------------------

    def _claims(self) -> dict[str, Object]:
        return {object_key(claim): claim for claim in self._store.list(CLAIMS).items}

    def _choose(self, bodies: list[Object]) -> Object | None:
        return self._random.choice(bodies) if bodies else None

    def _unprotect(self, resource: Resource, body: Object) -> None:
        self._patch(resource, body, {"metadata": {"finalizers": None}})

    def _set_phase(self, resource: Resource, body: Object, phase: str) -> None:
        self._patch(resource, body, {"status": {"phase": phase}}, "status")

    def _patch(self, resource: Resource, body: Object, patch: Object, subresource: str = "") -> None:
        metadata = body["metadata"]
        self._store.patch(
            resource, metadata.get("namespace", ""), metadata["name"], patch, "merge", subresource=subresource
        )


def check_bound(store: RecordingStore, trace: Trace) -> None:
    """When it is quiet: no claim is half bound, and none has more than one volume."""
    claims = {claim["metadata"]["uid"]: claim for claim in store.list(CLAIMS).items}
    for volume in store.list(VOLUMES).items:
        claim = claims.get((volume["spec"].get("claimRef") or {}).get("uid", ""))
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            continue
        name, key = volume["metadata"]["name"], object_key(claim)
        if claim["spec"].get("volumeName") != name or _phase(claim) not in ("Bound", "Lost"):
            has = f"it has {claim['spec'].get('volumeName')!r} and is {_phase(claim)}"
            trace.violate("21 volumes", f"{name} is kept for claim {key}, and {has}", key, name)


def _affinity(label: str, value: str) -> dict[str, Any]:
    expression = {"key": label, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def _phase(body: Object) -> str:
    return str((body.get("status") or {}).get("phase", ""))


def _annotations(body: Object) -> dict[str, str]:
    return body["metadata"].get("annotations") or {}
