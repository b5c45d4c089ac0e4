"""Deployments, ReplicaSets and Jobs: as much of their controllers as demos and tests of preemption need.

    Deployment --> a ReplicaSet for each pod template, named by the template's hash; the newest has all replicas, and
                   older ones shrink as its pods become ready (strategy Recreate: at once)
    ReplicaSet --> as many pods as it wants; of too many, unbound ones go first, then unready, then the youngest
    Job        --> `parallelism` pods at a time until `completions` have succeeded, or more than `backoffLimit` failed

What belongs to an owner that is gone goes too. Statuses are kept, so that `kubectl wait` and `kubectl get` say what
they would say on a real cluster.

What it does not do: pausing and rolling back, revision history, maxUnavailable and maxSurge, indexed Jobs, time
limits, and all garbage collection but that of these kinds.
"""

import hashlib
from typing import Any

import orjson

from berth.sim.actors.api import ActorApi, Object, Refused
from berth.sim.actors.clock import Clock, timestamp
from berth.sim.actors.controller import Controller, controller_of, is_deleting, is_ready, owner_reference, phase_of
from berth.sim.actors.mirror import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, Mirror, MirrorCollection, OnChange, key_of
from berth.sim.actors.pod_names import UNSEEN_SECONDS, PodNames

HASH_LABEL = "pod-template-hash"
FINISHED = frozenset({"Succeeded", "Failed"})
COLLECTIONS = {"Deployment": DEPLOYMENTS, "ReplicaSet": REPLICA_SETS, "Job": JOBS, "Pod": PODS}
DEFAULT_BACKOFF_LIMIT = 6
AT_ONCE = 50  # pods made in one go; the rest at once afterwards, so that no owner keeps a worker from the others


class Workloads(Controller):
    """See the module's text. Keys are "Kind namespace/name"."""

    def __init__(self, api: ActorApi, clock: Clock) -> None:
        super().__init__(api, clock, workers=8)
        self._names = PodNames(clock)
        self._deployments = self._mirror(DEPLOYMENTS, self._on("Deployment"))
        self._replica_sets = self._mirror(REPLICA_SETS, self._on("ReplicaSet"))
        self._jobs = self._mirror(JOBS, self._on("Job"))
        self._pods = self._mirror(PODS, self._on("Pod"))
        self._of_kind = {
            "Deployment": self._deployments,
            "ReplicaSet": self._replica_sets,
            "Job": self._jobs,
            "Pod": self._pods,
        }
        self._owned: dict[str, dict[str, Object]] = {}  # UID of the owner to key to object

    # --- what changed ----------------------------------------------------------------------------------------------

    def _on(self, kind: str) -> OnChange:
        def changed(change: str, body: Object) -> None:
            key = key_of(body)
            owner = controller_of(body)
            if owner is not None and owner["kind"] in COLLECTIONS:
                self._note_owned(change, key, body, owner)
            if kind != "Pod":
                self._look_at(f"{kind} {key}")
            if change == "DELETED":
                self._look_at_orphans(kind, body)

        return changed

    def _note_owned(self, change: str, key: str, body: Object, owner: Object) -> None:
        owned = self._owned.setdefault(owner["uid"], {})
        if change == "DELETED":
            owned.pop(key, None)
        else:
            owned[key] = body
        self._names.seen(owner["uid"], body["metadata"]["name"])
        self._look_at(f"{owner['kind']} {body['metadata']['namespace']}/{owner['name']}")

    def _look_at_orphans(self, kind: str, owner: Object) -> None:
        self._names.dismiss(owner["metadata"]["uid"])
        for key in self._owned.get(owner["metadata"]["uid"], ()):
            owned = "ReplicaSet" if kind == "Deployment" else "Pod"
            self._look_at(f"{owned} {key}")

    def _owned_by(self, owner: Object) -> list[Object]:
        return list(self._owned.get(owner["metadata"]["uid"], {}).values())

    async def _reconcile(self, key: str) -> float | None:
        kind, _, name = key.partition(" ")
        body = self._of_kind[kind].objects.get(name)
        if body is None:
            self._look_for_orphans_of(kind, name)
            return None
        if is_deleting(body):
            return None
        if await self._is_orphan(body):
            await self._delete(COLLECTIONS[kind], body)
            return None
        if kind == "Deployment":
            return await self._keep_deployment(body)
        if kind == "ReplicaSet":
            return await self._keep_replica_set(body)
        return await self._keep_job(body) if kind == "Job" else None

    # --- owners that are gone --------------------------------------------------------------------------------------

    def _look_for_orphans_of(self, kind: str, name: str) -> None:
        """Something names this owner and the mirror does not show it: it is gone, or it was never seen."""
        namespace, _, short = name.partition("/")
        for uid, owned in list(self._owned.items()):
            for key, body in list(owned.items()):
                owner = controller_of(body) or {}
                if (owner.get("kind"), owner.get("name"), body["metadata"]["namespace"]) == (kind, short, namespace):
                    self._look_at(f"{'ReplicaSet' if kind == 'Deployment' else 'Pod'} {key}")
            if not owned:
                del self._owned[uid]

    async def _is_orphan(self, body: Object) -> bool:
        """Whether the controller is gone; the API server has the last word, since a mirror may be late."""
        owner = controller_of(body)
        if owner is None or owner["kind"] not in COLLECTIONS:
            return False
        key = f"{body['metadata']['namespace']}/{owner['name']}"
        mirror: Mirror = self._of_kind[owner["kind"]]
        known = mirror.objects.get(key)
        if known is not None and known["metadata"]["uid"] == owner["uid"]:
            return False
        try:
            _, found = await self._api.request("GET", COLLECTIONS[owner["kind"]].object_path(key))
        except Refused as refusal:
            if refusal.status == 404:
                return True
            raise
        return bool(found["metadata"]["uid"] != owner["uid"])

    # --- Deployments -----------------------------------------------------------------------------------------------

    async def _keep_deployment(self, deployment: Object) -> float | None:
        wanted = int(deployment["spec"].get("replicas", 1))
        name = f"{deployment['metadata']['name']}-{_template_hash(deployment)}"
        sets = self._owned_by(deployment)
        newest = next((body for body in sets if body["metadata"]["name"] == name), None)
        if newest is None:
            await self._create(REPLICA_SETS, _replica_set(deployment, name, wanted))
            return 1.0  # should its event be missed
        await self._scale(newest, wanted)
        older = [body for body in sets if body is not newest]
        await self._shrink(deployment, wanted, newest, older)
        await self._keep_status(DEPLOYMENTS, deployment, self._deployment_status(deployment, wanted, newest, sets))
        return None

    async def _shrink(self, deployment: Object, wanted: int, newest: Object, older: list[Object]) -> None:
        """Old pods stay only where new ones are not ready yet."""
        strategy = deployment["spec"].get("strategy") or {}
        room = wanted - _count(newest, "readyReplicas")
        if strategy.get("type") == "Recreate":
            room = 0
        for body in older:
            stays = min(int(body["spec"].get("replicas", 1)), max(0, room))
            room -= stays
            await self._scale(body, stays)

    async def _scale(self, replica_set: Object, replicas: int) -> None:
        if int(replica_set["spec"].get("replicas", 1)) != replicas:
            await self._patch(REPLICA_SETS, key_of(replica_set), {"spec": {"replicas": replicas}})

    def _deployment_status(self, deployment: Object, wanted: int, newest: Object, sets: list[Object]) -> Object:
        ready = sum(_count(body, "readyReplicas") for body in sets)
        available = "True" if ready >= wanted else "False"
        reason = "MinimumReplicasAvailable" if ready >= wanted else "MinimumReplicasUnavailable"
        return {
            "observedGeneration": deployment["metadata"].get("generation", 1),
            "replicas": sum(_count(body, "replicas") for body in sets),
            "updatedReplicas": _count(newest, "replicas"),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready),
            "conditions": [self._condition(deployment, "Available", available, reason)],
        }

    # --- ReplicaSets -----------------------------------------------------------------------------------------------

    async def _keep_replica_set(self, replica_set: Object) -> float | None:
        wanted = int(replica_set["spec"].get("replicas", 1))
        pods = [pod for pod in self._owned_by(replica_set) if phase_of(pod) not in FINISHED and not is_deleting(pod)]
        on_their_way = self._names.unseen(replica_set["metadata"]["uid"])
        missing = wanted - len(pods) - on_their_way
        for _ in range(min(missing, AT_ONCE)):
            await self._make_pod(replica_set, "apps/v1", "ReplicaSet")
        for pod in sorted(pods, key=_value)[: max(0, -missing)]:
            await self._delete(PODS, pod)
        ready = sum(is_ready(pod) for pod in pods)
        status = {
            "observedGeneration": replica_set["metadata"].get("generation", 1),
            "replicas": len(pods),
            "fullyLabeledReplicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
        }
        await self._keep_status(REPLICA_SETS, replica_set, status)
        if missing > AT_ONCE:
            return 0.0
        return UNSEEN_SECONDS if on_their_way or missing else None

    async def _make_pod(self, owner: Object, api_version: str, kind: str) -> None:
        uid = owner["metadata"]["uid"]
        name = self._names.next_name(uid, owner["metadata"]["name"])
        template = owner["spec"]["template"]
        metadata = template.get("metadata") or {}
        made = await self._create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **{part: metadata[part] for part in ("labels", "annotations") if metadata.get(part)},
                    "name": name,
                    "namespace": owner["metadata"]["namespace"],
                    "ownerReferences": [owner_reference(api_version, kind, owner)],
                },
                "spec": template["spec"],
            },
        )
        key = f"{owner['metadata']['namespace']}/{name}"
        self._names.made(uid, name, now=made and key not in self._pods.objects)

    # --- Jobs ------------------------------------------------------------------------------------------------------

    async def _keep_job(self, job: Object) -> float | None:
        if any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in _conditions(job)):
            return None
        pods = self._owned_by(job)
        succeeded = sum(phase_of(pod) == "Succeeded" for pod in pods)
        failed = sum(phase_of(pod) == "Failed" for pod in pods)
        active = [pod for pod in pods if phase_of(pod) not in FINISHED and not is_deleting(pod)]
        spec = job["spec"]
        parallelism = int(spec.get("parallelism", 1))
        completions = int(spec.get("completions") or parallelism)
        on_their_way = self._names.unseen(job["metadata"]["uid"])
        over = self._job_verdict(job, completions, succeeded, failed)
        wanted = 0 if over or spec.get("suspend") else min(parallelism, completions - succeeded)
        missing = wanted - len(active) - on_their_way
        for _ in range(min(missing, AT_ONCE)):
            await self._make_pod(job, "batch/v1", "Job")
        for pod in sorted(active, key=_value)[: max(0, -missing)]:
            await self._delete(PODS, pod)
        started = (job.get("status") or {}).get("startTime") or timestamp(self._clock.wall())
        status: Object = {"active": len(active), "succeeded": succeeded, "failed": failed, "startTime": started}
        ready = sum(is_ready(pod) for pod in active)
        await self._keep_status(JOBS, job, {**status, "ready": ready} | over)
        if missing > AT_ONCE:
            return 0.0
        return UNSEEN_SECONDS if on_their_way or missing else None

    def _job_verdict(self, job: Object, completions: int, succeeded: int, failed: int) -> Object:
        """The end of a Job's status, once there is one. Kubernetes announces each end before it says that it is so."""
        if succeeded >= completions:
            kinds, reason = ("SuccessCriteriaMet", "Complete"), "CompletionsReached"
        elif failed > int(job["spec"].get("backoffLimit", DEFAULT_BACKOFF_LIMIT)):
            kinds, reason = ("FailureTarget", "Failed"), "BackoffLimitExceeded"
        else:
            return {}
        conditions = [self._condition(job, kind, "True", reason) for kind in kinds]
        ended: Object = {"conditions": conditions, "active": 0, "ready": 0}
        return ended | ({"completionTime": timestamp(self._clock.wall())} if kinds[1] == "Complete" else {})

    # --- statuses --------------------------------------------------------------------------------------------------

    async def _keep_status(self, collection: MirrorCollection, body: Object, status: Object) -> None:
        old = body.get("status") or {}
        changed = {name: value for name, value in status.items() if old.get(name, _nothing(value)) != value}
        if changed:
            await self._patch(collection, key_of(body), {"status": changed}, subresource="status")

    def _condition(self, body: Object, kind: str, status: str, reason: str) -> Object:
        for old in _conditions(body):
            if (old["type"], old["status"], old.get("reason")) == (kind, status, reason):
                return old
        now = timestamp(self._clock.wall())
        return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now}


def _template_hash(deployment: Object) -> str:
    template = orjson.dumps(deployment["spec"]["template"], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(template).hexdigest()[:10]


def _replica_set(deployment: Object, name: str, replicas: int) -> Object:
    spec = deployment["spec"]
    template_hash = {HASH_LABEL: _template_hash(deployment)}
    metadata = spec["template"].get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **template_hash}
    selector = spec["selector"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference("apps/v1", "Deployment", deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **template_hash}},
            "template": {**spec["template"], "metadata": {**metadata, "labels": labels}},
        },
    }


def _value(pod: Object) -> tuple[bool, bool, list[int]]:
    """The pod that is missed least comes first: unbound, then unready, then the youngest."""
    bound = bool(pod["spec"].get("nodeName"))
    youngest_first = [-ord(letter) for letter in str(pod["metadata"].get("creationTimestamp"))]
    return bound, is_ready(pod), youngest_first


def _count(body: Object, field: str) -> int:
    return int((body.get("status") or {}).get(field) or 0)


def _conditions(body: Object) -> list[Object]:
    return (body.get("status") or {}).get("conditions") or []


def _nothing(value: Any) -> Any:
    """What the API server leaves out when it stores it."""
    return 0 if isinstance(value, int) else None
