"""A provisioner, and of the volume controller as much as claims need to become Bound.

    Pending --- Immediate ------------------------------> a volume is made, named pvc-<UID> ---> both are Bound
       |------- WaitForFirstConsumer, node selected ----> ... reachable where that node is ----> both are Bound
       |------- names a volume, or a volume names it ---------------------------------------> both are Bound
       +------- anything else: left as it is

A node is selected by the annotation `volume.kubernetes.io/selected-node`, which the scheduler writes. The volume of
such a claim can be reached from the node's zone, or from that node alone where it has no zone. When a claim is gone,
the volume that was made for it goes too, unless its reclaim policy says otherwise; then it is Released. A volume that
a user creates for no claim is Available.

Claims and volumes that are being deleted lose the finalizers by which Kubernetes protects what is in use, as soon as
it is not.

What it does not do: choose among existing volumes for a claim that names none, or resize.
"""

from collections.abc import Mapping
from typing import Any

from berth.sim.actors.api import ActorApi, Object
from berth.sim.actors.clock import Clock
from berth.sim.actors.controller import Controller, is_deleting, phase_of
from berth.sim.actors.mirror import CLAIMS, NODES, PODS, STORAGE_CLASSES, VOLUMES, MirrorCollection, key_of

SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
FINISHED = frozenset({"Succeeded", "Failed"})


class Provisioner(Controller):
    """See the module's text. `provisioners`: whose classes are served; None for all but `no-provisioner`."""

    def __init__(self, api: ActorApi, clock: Clock, *, provisioners: frozenset[str] | None = None) -> None:
        super().__init__(api, clock, workers=4)
        self._provisioners = provisioners
        self._claims = self._mirror(CLAIMS, self._on_claim)
        self._volumes = self._mirror(VOLUMES, self._on_volume)
        self._classes = self._mirror(STORAGE_CLASSES, lambda *_: self._look_at_all())
        self._nodes = self._mirror(NODES, lambda *_: None)
        self._pods = self._mirror(PODS, self._on_pod)

    # --- what changed: keys are "namespace/name" of claims and "name" of volumes -----------------------------------

    def _on_claim(self, change: str, claim: Object) -> None:
        self._look_at(key_of(claim))
        if change == "DELETED":
            for name, volume in self._volumes.objects.items():
                if _claimed_by(volume) == key_of(claim):
                    self._look_at(name)

    def _on_volume(self, change: str, volume: Object) -> None:
        if change != "DELETED":
            self._look_at(volume["metadata"]["name"])
        if claim := _claimed_by(volume):
            self._look_at(claim)
        for key, body in self._claims.objects.items():
            if body["spec"].get("volumeName") == volume["metadata"]["name"]:
                self._look_at(key)

    def _on_pod(self, change: str, pod: Object) -> None:
        if change == "DELETED" or phase_of(pod) in FINISHED:
            for key in _claims_of(pod):
                if key in self._claims.objects and is_deleting(self._claims.objects[key]):
                    self._look_at(key)

    def _look_at_all(self) -> None:
        for key in self._claims.objects:
            self._look_at(key)

    # --- claims ----------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: str) -> float | None:
        if "/" not in key:
            return await self._keep_volume(key)
        claim = self._claims.objects.get(key)
        if claim is None:
            return None
        if is_deleting(claim):
            if not self._is_used(key):
                await self._unprotect(CLAIMS, claim, CLAIM_PROTECTION)
        elif phase_of(claim) != "Bound":
            await self._serve(key, claim)
        return None

    async def _serve(self, key: str, claim: Object) -> None:
        volume = self._volume_for(key, claim)
        if volume is not None:
            await self._join(key, claim, volume)
            return
        if claim["spec"].get("volumeName"):
            return  # the volume that it names is still to come
        storage_class = self._class_of(claim)
        if storage_class is not None and self._may_provision(claim, storage_class):
            await self._create(VOLUMES, self._new_volume(claim, storage_class))
            self._look_at(key, 1.0)  # should the volume be there already and its event be missed

    def _volume_for(self, key: str, claim: Object) -> Object | None:
        """The volume that the claim names, or that names the claim, unless it belongs to another."""
        named = self._volumes.objects.get(str(claim["spec"].get("volumeName") or ""))
        if named is not None:
            return named if _claimed_by(named) in ("", key) else None
        uid = claim["metadata"]["uid"]
        for volume in self._volumes.objects.values():
            reference = volume["spec"].get("claimRef") or {}
            if _claimed_by(volume) == key and reference.get("uid") in (None, "", uid) and not is_deleting(volume):
                return volume
        return None

    async def _join(self, key: str, claim: Object, volume: Object) -> None:
        """Volume first, as in Kubernetes: each step leaves something from which the next can go on."""
        name, metadata = volume["metadata"]["name"], claim["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        if (volume["spec"].get("claimRef") or {}).get("uid") != metadata["uid"]:
            await self._patch(VOLUMES, name, {"spec": {"claimRef": reference}})
        if phase_of(volume) != "Bound":
            await self._patch(VOLUMES, name, {"status": {"phase": "Bound"}}, subresource="status")
        if claim["spec"].get("volumeName") != name or BIND_COMPLETED not in _annotations(claim):
            bound = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}}
            await self._patch(CLAIMS, key, bound)
        status = {
            "phase": "Bound",
            "capacity": volume["spec"]["capacity"],
            "accessModes": volume["spec"]["accessModes"],
        }
        await self._patch(CLAIMS, key, {"status": status}, subresource="status")
        self._counts["bound"] += 1

    def _class_of(self, claim: Object) -> Object | None:
        name = claim["spec"].get("storageClassName")
        if name is not None:
            return self._classes.objects.get(name)
        defaults = [c for c in self._classes.objects.values() if _annotations(c).get(DEFAULT_CLASS) == "true"]
        return max(defaults, key=lambda c: str(c["metadata"].get("creationTimestamp")), default=None)

    def _may_provision(self, claim: Object, storage_class: Object) -> bool:
        provisioner = storage_class.get("provisioner")
        if provisioner == NO_PROVISIONER or (self._provisioners is not None and provisioner not in self._provisioners):
            return False
        if storage_class.get("volumeBindingMode", "Immediate") == "Immediate":
            return True
        return _annotations(claim).get(SELECTED_NODE, "") in self._nodes.objects

    def _new_volume(self, claim: Object, storage_class: Object) -> Object:
        metadata, spec = claim["metadata"], claim["spec"]
        name = f"pvc-{metadata['uid']}"
        volume: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: storage_class["provisioner"]}},
            "spec": {
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "accessModes": spec["accessModes"],
                "volumeMode": spec.get("volumeMode", "Filesystem"),
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": storage_class["metadata"]["name"],
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
                "csi": {"driver": _driver(storage_class), "volumeHandle": name},
            },
        }
        node = self._nodes.objects.get(_annotations(claim).get(SELECTED_NODE, ""))
        if node is not None:
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_reach(node)]}}
        return volume

    # --- volumes ---------------------------------------------------------------------------------------------------

    async def _keep_volume(self, name: str) -> float | None:
        """A new one becomes available, one whose claim is gone is deleted or released, one in deletion unprotected."""
        volume = self._volumes.objects.get(name)
        if volume is None:
            return None
        claim = self._claims.objects.get(_claimed_by(volume))
        uid = (volume["spec"].get("claimRef") or {}).get("uid")
        if phase_of(volume) == "Pending" and not volume["spec"].get("claimRef"):
            await self._patch(VOLUMES, name, {"status": {"phase": "Available"}}, subresource="status")
        orphaned = bool(uid) and (claim is None or claim["metadata"]["uid"] != uid)
        if orphaned and phase_of(volume) == "Bound":
            if _annotations(volume).get(PROVISIONED_BY) and _reclaim(volume) == "Delete":
                await self._delete(VOLUMES, volume)
            else:
                await self._patch(VOLUMES, name, {"status": {"phase": "Released"}}, subresource="status")
        if is_deleting(volume) and (orphaned or not uid):
            await self._unprotect(VOLUMES, volume, VOLUME_PROTECTION)
        return None

    async def _unprotect(self, collection: MirrorCollection, body: Object, finalizer: str) -> None:
        finalizers = body["metadata"].get("finalizers") or []
        if finalizer in finalizers:
            left = [other for other in finalizers if other != finalizer]
            metadata = {"finalizers": left, "resourceVersion": body["metadata"]["resourceVersion"]}
            await self._patch(collection, key_of(body), {"metadata": metadata})

    def _is_used(self, key: str) -> bool:
        return any(key in _claims_of(pod) for pod in self._pods.objects.values() if phase_of(pod) not in FINISHED)


def _claims_of(pod: Object) -> set[str]:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    keys = set()
    for volume in pod["spec"].get("volumes") or ():
        if source := volume.get("persistentVolumeClaim"):
            keys.add(f"{namespace}/{source['claimName']}")
        elif volume.get("ephemeral"):
            keys.add(f"{namespace}/{name}-{volume['name']}")
    return keys


def _claimed_by(volume: Object) -> str:
    reference = volume["spec"].get("claimRef") or {}
    return f"{reference['namespace']}/{reference['name']}" if reference.get("name") else ""


def _reach(node: Object) -> Object:
    """Where a volume made for this node can be used: its zone, or the node alone."""
    labels = node["metadata"].get("labels") or {}
    for label in (ZONE, HOSTNAME):
        if label in labels:
            return {"matchExpressions": [{"key": label, "operator": "In", "values": [labels[label]]}]}
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}]}


def _driver(storage_class: Object) -> str:
    """A driver's name is a domain name; a provisioner's may have a path."""
    return str(storage_class["provisioner"]).replace("/", ".")


def _reclaim(volume: Object) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain")


def _annotations(body: Mapping[str, Any]) -> Mapping[str, str]:
    return body["metadata"].get("annotations") or {}
