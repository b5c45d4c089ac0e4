"""Deployments, ReplicaSets and Jobs: as much of their controllers as users and tests see.

    Deployment --> a ReplicaSet for each pod template, named by the template's hash; the newest has all replicas, and
                   older ones shrink as its pods become ready (strategy Recreate: at once)
    ReplicaSet --> as many pods as it wants; of too many, unbound ones go first, then unready, then the youngest
    Job        --> `parallelism` pods at a time until `completions` have succeeded, or more than `backoffLimit` failed

DaemonSets, StatefulSets and CronJobs have modules of their own. Revisions are counted, so that `kubectl rollout` can
show them and go back; a paused Deployment keeps its pods. Statuses are kept, so that `kubectl wait` and `kubectl get`
say what they would say on a real cluster.

What it does not do: maxUnavailable and maxSurge, indexed Jobs, time limits but those of finished Jobs, and all garbage
collection but that of these kinds.
"""

from berth.sim.actors.api import Object
from berth.sim.actors.clock import parse_timestamp, timestamp
from berth.sim.actors.controller import is_deleting, is_ready, owner_reference, phase_of
from berth.sim.actors.cron_jobs import CronJobs
from berth.sim.actors.daemon_sets import DaemonSets
from berth.sim.actors.mirror import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, key_of
from berth.sim.actors.owned_objects import AT_ONCE, CHANGE_CAUSE, FINISHED, conditions_of, count_of, hash_of
from berth.sim.actors.pod_names import UNSEEN_SECONDS
from berth.sim.actors.stateful_sets import StatefulSets

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DEFAULT_BACKOFF_LIMIT = 6
DEFAULT_HISTORY = 10


class Workloads(DaemonSets, StatefulSets, CronJobs):
    """See the module's text."""

    async def _keep(self, kind: str, body: Object) -> float | None:
        match kind:
            case "Deployment":
                return await self._keep_deployment(body)
            case "ReplicaSet":
                return await self._keep_replica_set(body)
            case "Job":
                return await self._keep_job(body)
            case "DaemonSet":
                return await self._keep_daemon_set(body)
            case "StatefulSet":
                return await self._keep_stateful_set(body)
            case "CronJob":
                return await self._keep_cron_job(body)
        return None

    # --- Deployments -----------------------------------------------------------------------------------------------

    async def _keep_deployment(self, deployment: Object) -> float | None:
        wanted = int(deployment["spec"].get("replicas", 1))
        name = f"{deployment['metadata']['name']}-{hash_of(deployment['spec']['template'])}"
        sets = self._owned_by(deployment, "ReplicaSet")
        newest = next((body for body in sets if body["metadata"]["name"] == name), None)
        if deployment["spec"].get("paused") and sets:
            newest = max(sets, key=_revision_of)
        if newest is None:
            revision = max(map(_revision_of, sets), default=0) + 1
            await self._create(REPLICA_SETS, _replica_set(deployment, name, wanted, revision))
            return 1.0  # should its event be missed
        await self._keep_revisions(deployment, newest, sets)
        await self._scale(newest, wanted)
        older = [body for body in sets if body is not newest]
        await self._shrink(deployment, wanted, newest, older)
        await self._keep_status(DEPLOYMENTS, deployment, self._deployment_status(deployment, wanted, newest, sets))
        return None

    async def _keep_revisions(self, deployment: Object, newest: Object, sets: list[Object]) -> None:
        """The newest ReplicaSet has the highest revision, also after a rollback; the oldest empty ones go."""
        revision = max(map(_revision_of, sets))
        if sum(_revision_of(body) == revision for body in sets) > 1 or _revision_of(newest) < revision:
            revision += 1
        if _revision_of(newest) != revision:
            await self._patch(REPLICA_SETS, key_of(newest), {"metadata": {"annotations": {REVISION: str(revision)}}})
        if _revision_of(deployment) != revision:
            await self._patch(DEPLOYMENTS, key_of(deployment), {"metadata": {"annotations": {REVISION: str(revision)}}})
        limit = int(deployment["spec"].get("revisionHistoryLimit", DEFAULT_HISTORY))
        old = sorted((body for body in sets if body is not newest and _is_empty(body)), key=_revision_of)
        for body in old[: max(0, len(old) - limit)]:
            await self._delete(REPLICA_SETS, body)

    async def _shrink(self, deployment: Object, wanted: int, newest: Object, older: list[Object]) -> None:
        """Old pods stay only where new ones are not ready yet."""
        strategy = deployment["spec"].get("strategy") or {}
        room = wanted - count_of(newest, "readyReplicas")
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
        ready = sum(count_of(body, "readyReplicas") for body in sets)
        available = "True" if ready >= wanted else "False"
        reason = "MinimumReplicasAvailable" if ready >= wanted else "MinimumReplicasUnavailable"
        return {
            "observedGeneration": deployment["metadata"].get("generation", 1),
            "replicas": sum(count_of(body, "replicas") for body in sets),
            "updatedReplicas": count_of(newest, "replicas"),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready),
            "conditions": [
                self._condition(deployment, "Available", available, reason),
                self._condition(deployment, "Progressing", "True", _progress(wanted, newest, sets)),
            ],
        }

    # --- ReplicaSets -----------------------------------------------------------------------------------------------

    async def _keep_replica_set(self, replica_set: Object) -> float | None:
        wanted = int(replica_set["spec"].get("replicas", 1))
        owned = self._owned_by(replica_set, "Pod")
        pods = [pod for pod in owned if phase_of(pod) not in FINISHED and not is_deleting(pod)]
        on_their_way = self._names.unseen(replica_set["metadata"]["uid"])
        missing = wanted - len(pods) - on_their_way
        for _ in range(min(missing, AT_ONCE)):
            await self._make_pod(replica_set, "ReplicaSet")
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

    # --- Jobs ------------------------------------------------------------------------------------------------------

    async def _keep_job(self, job: Object) -> float | None:
        if any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions_of(job)):
            return await self._clean_up(job)
        pods = self._owned_by(job, "Pod")
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
            await self._make_pod(job, "Job")
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

    async def _clean_up(self, job: Object) -> float | None:
        """A finished Job goes after ttlSecondsAfterFinished, if it has that."""
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return None
        ended = max(c["lastTransitionTime"] for c in conditions_of(job))
        left = float(seconds) - (self._clock.wall() - parse_timestamp(ended)).total_seconds()
        if left > 0:
            return left
        await self._delete(JOBS, job)
        return None


def _replica_set(deployment: Object, name: str, replicas: int, revision: int) -> Object:
    spec = deployment["spec"]
    template_hash = {HASH_LABEL: hash_of(spec["template"])}
    metadata = spec["template"].get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **template_hash}
    selector = spec["selector"]
    cause = (deployment["metadata"].get("annotations") or {}).get(CHANGE_CAUSE)
    annotations = {REVISION: str(revision)} | ({CHANGE_CAUSE: cause} if cause else {})
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference("apps/v1", "Deployment", deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **template_hash}},
            "template": {**spec["template"], "metadata": {**metadata, "labels": labels}},
        },
    }


def _progress(wanted: int, newest: Object, sets: list[Object]) -> str:
    done = count_of(newest, "readyReplicas") >= wanted and all(body is newest or _is_empty(body) for body in sets)
    return "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"


def _revision_of(body: Object) -> int:
    return int((body["metadata"].get("annotations") or {}).get(REVISION) or 0)


def _is_empty(replica_set: Object) -> bool:
    return not replica_set["spec"].get("replicas") and not count_of(replica_set, "replicas")


def _value(pod: Object) -> tuple[bool, bool, list[int]]:
    """The pod that is missed least comes first: unbound, then unready, then the youngest."""
    bound = bool(pod["spec"].get("nodeName"))
    youngest_first = [-ord(letter) for letter in str(pod["metadata"].get("creationTimestamp"))]
    return bound, is_ready(pod), youngest_first
