"""The pods that a workload asks for, as its controller would create them.

    Pod                                  itself
    Deployment                           those of a ReplicaSet with a hash of the template
    ReplicaSet, ReplicationController    spec.replicas
    StatefulSet                          spec.replicas, numbered, with the claims of volumeClaimTemplates
    Job, CronJob                         as many as run at once; of a CronJob, those of one run
    DaemonSet                            one for each node that it selects (`daemons`)

Pods of a set differ in their names. So one of them is parsed, and the others are copies of its record, unless their
claims are named after them.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from berth.model import InvalidObject, Pod, object_key, parse_pod, replica_of
from berth.sim.objects import Object, items, mapping
from berth.whatif.admission import Admission
from berth.whatif.claims import claim_of_template, ephemeral_claims
from berth.whatif.cluster_objects import Body, ClusterObjects
from berth.whatif.errors import CannotSimulate
from berth.whatif.workloads import GROUPS, Workload

HASH_LABEL: Final = "pod-template-hash"
DIGITS: Final = 5
LONGEST_GENERATED: Final = 63 - DIGITS - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """`template` has labels and spec of the pods, `owner` the reference to their controller.

    `name` gives the name of a pod by its number, which counts from `first`. `claims` are the claim templates of a
    StatefulSet.
    """

    workload: Workload
    template: Object
    count: int
    name: Callable[[int], str]
    owner: Object | None = None
    first: int = 0
    claims: tuple[Object, ...] = ()
    owners: tuple[Object, ...] = ()  # objects between the workload and its pods, to be created with it


def pod_set(body: Body, admission: Admission) -> PodSet:
    """Returns the pods of a workload that the API server would accept. Raises CannotSimulate."""
    if body["kind"] not in GROUPS:
        raise CannotSimulate(f"{body['kind']} {object_key(body)}: its pods are not known: give the pods instead")
    kind, metadata = str(body["kind"]), body["metadata"]
    workload = Workload(kind, str(metadata["namespace"]), str(metadata["name"]))
    if kind == "CronJob":
        return _cron_job(admission.admit(_job_of(body, workload)), workload)
    return _MAKERS[kind](admission.admit(body), workload)


class PodMaker:
    """Creates pods of sets, with their claims. UIDs are numbered, so that runs are alike."""

    def __init__(self, objects: ClusterObjects, admission: Admission) -> None:
        self._objects = objects
        self._admission = admission
        self._numbers = itertools.count(1)

    def next_uid(self) -> str:
        return f"simulated-{next(self._numbers):08d}"

    def create_owners(self, pods: PodSet) -> None:
        for body in pods.owners:
            self._objects.take(body)

    def make(self, pods: PodSet, first: int | None = None) -> Iterator[Pod]:
        """Yields pods of the set without end, the claims of each created before it. Raises CannotSimulate."""
        shared: Pod | None = None
        for number in itertools.count(pods.first if first is None else first):
            uid, name = self.next_uid(), pods.name(number)
            pod = None if shared is None else replica_of(shared, {"metadata": {"uid": uid, "name": name}, "spec": {}})
            if pod is None:
                pod = self._parsed(pods, number, uid, name)
                alike = not _is_numbered(pods) and not any(volume.ephemeral for volume in pod.volumes)
                shared = pod if alike else None
            yield pod

    def _parsed(self, pods: PodSet, number: int, uid: str, name: str) -> Pod:
        body = self._body(pods, number, name)
        for template in pods.claims:
            claim_of_template(template, pods.workload, name, self._objects, self._admission)
        stored = self._admission.admit(body)
        stored["metadata"]["uid"] = uid
        ephemeral_claims(stored, self._objects, self._admission)
        try:
            return parse_pod(stored)
        except InvalidObject as error:
            raise CannotSimulate(f"{pods.workload}: {error.field}: {error.problem}") from error

    def _body(self, pods: PodSet, number: int, name: str) -> Object:
        template = pods.template
        metadata = {**mapping(template.get("metadata")), "name": name, "namespace": pods.workload.namespace}
        if pods.owner is not None:
            metadata["ownerReferences"] = [pods.owner]
        if _is_numbered(pods):
            own = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
            metadata["labels"] = {**mapping(metadata.get("labels")), **own}
        spec = {**mapping(template.get("spec"))}
        for claim in pods.claims:
            spec["volumes"] = _with_claim(items(spec.get("volumes")), str(claim["metadata"]["name"]), name)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _is_numbered(pods: PodSet) -> bool:
    """Whether each pod has labels of its own."""
    return pods.workload.kind == "StatefulSet"


def _with_claim(volumes: list[Any], template: str, pod_name: str) -> list[Any]:
    named = {"name": template, "persistentVolumeClaim": {"claimName": f"{template}-{pod_name}"}}
    return [*(volume for volume in volumes if volume.get("name") != template), named]


# --- kinds ------------------------------------------------------------------------------------------------------------


def _pod(body: Object, workload: Workload) -> PodSet:
    metadata = {name: value for name, value in body["metadata"].items() if name not in ("uid", "creationTimestamp")}
    template = {"metadata": metadata, "spec": body["spec"]}
    return PodSet(workload=workload, template=template, count=1, name=lambda number: _pod_name(workload.name, number))


def _pod_name(name: str, number: int) -> str:
    """The pod itself, then copies of it, for --fill."""
    return name if number == 0 else f"{name}-{number}"


def _deployment(body: Object, workload: Workload) -> PodSet:
    spec = body["spec"]
    text = orjson.dumps(spec["template"], option=orjson.OPT_SORT_KEYS)
    own = {HASH_LABEL: hashlib.sha256(text).hexdigest()[:10]}
    metadata = mapping(spec["template"].get("metadata"))
    labels = {**mapping(metadata.get("labels")), **own}
    selector = {**spec["selector"], "matchLabels": {**mapping(spec["selector"].get("matchLabels")), **own}}
    replica_set: Object = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{workload.name}-{own[HASH_LABEL]}",
            "namespace": workload.namespace,
            "uid": f"simulated-{workload.namespace}-{workload.name}-{own[HASH_LABEL]}",
            "ownerReferences": [_reference("apps/v1", "Deployment", body["metadata"])],
        },
        "spec": {"selector": selector},
    }
    return PodSet(
        workload=workload,
        template={**spec["template"], "metadata": {**metadata, "labels": labels}},
        count=int(spec["replicas"]),
        name=_generated(replica_set["metadata"]["name"]),
        owner=_reference("apps/v1", "ReplicaSet", replica_set["metadata"]),
        owners=(replica_set,),
    )


def _replicas(body: Object, workload: Workload) -> PodSet:
    """A ReplicaSet or a ReplicationController."""
    return PodSet(
        workload=workload,
        template=body["spec"]["template"],
        count=int(body["spec"]["replicas"]),
        name=_generated(workload.name),
        owner=_reference(body["apiVersion"], workload.kind, body["metadata"]),
        owners=(body,),
    )


def _stateful_set(body: Object, workload: Workload) -> PodSet:
    spec = body["spec"]
    return PodSet(
        workload=workload,
        template=spec["template"],
        count=int(spec["replicas"]),
        name=lambda number: f"{workload.name}-{number}",
        owner=_reference("apps/v1", "StatefulSet", body["metadata"]),
        first=int(mapping(spec.get("ordinals")).get("start") or 0),
        claims=tuple(items(spec.get("volumeClaimTemplates"))),
        owners=(body,),
    )


def _job(body: Object, workload: Workload) -> PodSet:
    spec = body["spec"]
    at_once = int(spec.get("parallelism", 1))
    count = min(at_once, int(spec["completions"])) if spec.get("completions") is not None else at_once
    return PodSet(
        workload=workload,
        template=spec["template"],
        count=0 if spec.get("suspend") else count,
        name=_generated(workload.name),
        owner=_reference("batch/v1", "Job", body["metadata"]),
    )


def _job_of(body: Body, workload: Workload) -> Object:
    """Returns the Job of one run, which the CronJob manages."""
    template = mapping(mapping(body.get("spec")).get("jobTemplate"))
    if not mapping(mapping(template.get("spec")).get("template")):
        raise CannotSimulate(f"{workload}: spec.jobTemplate.spec.template is required: it describes the pods")
    metadata = {
        **mapping(template.get("metadata")),
        "name": f"{workload.name}-run",
        "namespace": workload.namespace,
        "ownerReferences": [_reference("batch/v1", "CronJob", dict(body["metadata"]))],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def _cron_job(job: Object, workload: Workload) -> PodSet:
    made = _job(job, Workload("Job", workload.namespace, str(job["metadata"]["name"])))
    return replace(made, workload=workload, owners=(job,))


def _daemon_set(body: Object, workload: Workload) -> PodSet:
    """Its pods are counted by the nodes that it selects (`daemons`)."""
    template = mapping(mapping(body.get("spec")).get("template"))
    if not mapping(template.get("spec")):
        raise CannotSimulate(f"{workload}: spec.template.spec is required: it describes the pods")
    owner = _reference("apps/v1", "DaemonSet", body["metadata"])
    return PodSet(workload=workload, template=template, count=0, name=_generated(workload.name), owner=owner)


def _generated(name: str) -> Callable[[int], str]:
    return lambda number: f"{name[:LONGEST_GENERATED]}-{number:0{DIGITS}}"


def _reference(api_version: str, kind: str, metadata: Object) -> Object:
    uid = metadata.get("uid") or f"simulated-{metadata.get('namespace')}-{metadata['name']}"
    return {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": uid, "controller": True}


_MAKERS: Final[dict[str, Callable[[Object, Workload], PodSet]]] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
}
