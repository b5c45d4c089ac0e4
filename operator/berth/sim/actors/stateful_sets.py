"""StatefulSets: pods with the names set-0, set-1, ... and volume claims that stay.

A pod is created when all pods before it are ready, and the last one goes first; with podManagementPolicy Parallel all
at once. Pods of an older template are replaced from the last to the first, down to the partition, unless the strategy
is OnDelete. A claim is made from each volumeClaimTemplate for each pod, once, and not deleted.

What it does not do: minReadySeconds, ordinals that start elsewhere, and the retention policy of claims.
"""

from berth.sim.actors.api import Object
from berth.sim.actors.controller import is_deleting, is_ready, phase_of
from berth.sim.actors.mirror import CLAIMS, PODS, STATEFUL_SETS
from berth.sim.actors.owned_objects import FINISHED, REVISION_LABEL, OwnedObjects, pod_of
from berth.sim.actors.pod_names import UNSEEN_SECONDS

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSets(OwnedObjects):
    """See the module's text."""

    async def _keep_stateful_set(self, stateful_set: Object) -> float | None:
        template_hash, _ = await self._keep_revision(stateful_set, "StatefulSet")
        wanted = int(stateful_set["spec"].get("replicas", 1))
        pods = {_ordinal(pod): pod for pod in self._owned_by(stateful_set, "Pod")}
        at_once = stateful_set["spec"].get("podManagementPolicy") == "Parallel"
        made = await self._fill(stateful_set, wanted, pods, template_hash, at_once=at_once)
        if not made and not await self._shrink_set(wanted, pods, at_once=at_once):
            await self._update_last(stateful_set, wanted, pods, template_hash)
        await self._keep_status(STATEFUL_SETS, stateful_set, _status(stateful_set, pods, template_hash))
        return UNSEEN_SECONDS if made else None

    async def _fill(
        self, stateful_set: Object, wanted: int, pods: dict[int, Object], template_hash: str, *, at_once: bool
    ) -> bool:
        """Create what is missing, in order; whether the set still waits for one of its pods."""
        for ordinal in range(wanted):
            pod = pods.get(ordinal)
            if pod is None:
                await self._make_member(stateful_set, ordinal, template_hash)
            elif phase_of(pod) in FINISHED and not is_deleting(pod):
                await self._delete(PODS, pod)
            if (pod is None or is_deleting(pod) or not is_ready(pod)) and not at_once:
                return pod is None or not self._is_outdated(pod, template_hash)
        return False

    def _is_outdated(self, pod: Object, template_hash: str) -> bool:
        """A pod that is not ready and of an older template is not waited for: the new one may be better."""
        return _hash_of(pod) != template_hash and not is_deleting(pod)

    async def _make_member(self, stateful_set: Object, ordinal: int, template_hash: str) -> None:
        for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
            await self._create(CLAIMS, _claim(stateful_set, template, ordinal))
        await self._create(PODS, _member(stateful_set, ordinal, template_hash))

    async def _shrink_set(self, wanted: int, pods: dict[int, Object], *, at_once: bool) -> bool:
        """Delete what is too much, the last pod first; whether there was something."""
        surplus = sorted((ordinal for ordinal in pods if ordinal >= wanted), reverse=True)
        for ordinal in surplus if at_once else surplus[:1]:
            if not is_deleting(pods[ordinal]):
                await self._delete(PODS, pods[ordinal])
        return bool(surplus)

    async def _update_last(
        self, stateful_set: Object, wanted: int, pods: dict[int, Object], template_hash: str
    ) -> None:
        strategy = stateful_set["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        for ordinal in range(wanted - 1, partition - 1, -1):
            pod = pods.get(ordinal)
            if pod is None or is_deleting(pod):
                return
            if _hash_of(pod) != template_hash:
                await self._delete(PODS, pod)
                return
            if not is_ready(pod):
                return


def _member(stateful_set: Object, ordinal: int, template_hash: str) -> Object:
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    pod = pod_of(stateful_set, "StatefulSet", name)
    labels = {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal), REVISION_LABEL: template_hash}
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}
    pod["spec"] |= {"hostname": name, "subdomain": stateful_set["spec"].get("serviceName") or ""}
    claimed = [
        {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": _claim_name(name, template)}}
        for template in stateful_set["spec"].get("volumeClaimTemplates") or ()
    ]
    names = {volume["name"] for volume in claimed}
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in names]
    if claimed:
        pod["spec"]["volumes"] = [*others, *claimed]
    return pod


def _claim(stateful_set: Object, template: Object, ordinal: int) -> Object:
    pod_name = f"{stateful_set['metadata']['name']}-{ordinal}"
    metadata = template["metadata"]
    labels = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": _claim_name(pod_name, template),
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": metadata.get("annotations") or {},
        },
        "spec": template["spec"],
    }


def _claim_name(pod_name: str, template: Object) -> str:
    return f"{template['metadata']['name']}-{pod_name}"


def _ordinal(pod: Object) -> int:
    _, _, ordinal = pod["metadata"]["name"].rpartition("-")
    return int(ordinal) if ordinal.isdigit() else -1


def _hash_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL) or "")


def _status(stateful_set: Object, pods: dict[int, Object], template_hash: str) -> Object:
    name = stateful_set["metadata"]["name"]
    present = [pod for pod in pods.values() if not is_deleting(pod)]
    updated = [pod for pod in present if _hash_of(pod) == template_hash]
    ready = sum(is_ready(pod) for pod in present)
    is_done = len(updated) == len(present) and ready == int(stateful_set["spec"].get("replicas", 1))
    newest = f"{name}-{template_hash}"
    before = (stateful_set.get("status") or {}).get("currentRevision") or newest
    return {
        "observedGeneration": stateful_set["metadata"].get("generation", 1),
        "replicas": len(present),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "updatedReplicas": len(updated),
        "currentReplicas": len(present) if is_done else len(present) - len(updated),
        "updateRevision": newest,
        "currentRevision": newest if is_done else before,
        "collisionCount": 0,
    }
