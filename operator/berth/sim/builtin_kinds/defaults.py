"""What the API server fills in when an object of a built-in kind is written: defaults, and what admission adds.

Only what Berth, kopf, kubectl and the simulated actors read is filled in, with the same values as kube-apiserver. A
function here gets a body of its own and may change it.

    complete(storage, body)     the kind's defaults: at every write
    begin(storage, body)        status and bookkeeping of a new object
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from berth.model import parse_quantity
from berth.sim.objects import Object, items, mapping
from berth.sim.resources import RBAC

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
TOLERATED_SECONDS: Final = 300
TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def complete(storage: str, body: Object) -> None:
    if (filler := _COMPLETE.get(storage)) is not None:
        filler(body)


def begin(storage: str, body: Object, now: str) -> None:
    if (filler := _BEGIN.get(storage)) is not None:
        filler(body, now)


# -- pods --------------------------------------------------------------------------------------------------------------


def complete_pod_spec(spec: Object) -> None:
    for container in (*items(spec.get("initContainers")), *items(spec.get("containers"))):
        if isinstance(container, dict):
            _complete_container(container)
    spec.setdefault("restartPolicy", "Always")
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"


def _complete_container(container: Object) -> None:
    image = str(container.get("image", ""))
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", "Always" if _is_latest(image) else "IfNotPresent")
    for port in items(container.get("ports")):
        port.setdefault("protocol", "TCP")


def _complete_conditions(body: Object, *times: str) -> None:
    """Conditions have their times, null if unknown."""
    for condition in items(mapping(body.get("status")).get("conditions")):
        for time in times:
            condition.setdefault(time, None)


def complete_status(storage: str, body: Object) -> None:
    """The defaults of a status that is written by itself."""
    if storage == "pods":
        _complete_conditions(body, "lastProbeTime", "lastTransitionTime")
    elif storage == "nodes":
        _complete_node(body)


def _is_latest(image: str) -> bool:
    tag = image.rpartition("/")[2].partition(":")[2]
    return "@" not in image and tag in ("", "latest")


def _complete_pod(body: Object) -> None:
    spec = body.setdefault("spec", {})
    complete_pod_spec(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    for container in (*items(spec.get("initContainers")), *items(spec.get("containers"))):
        _request_limits(container)
        if spec.get("hostNetwork"):
            for port in items(container.get("ports")):
                port.setdefault("hostPort", port.get("containerPort"))


def _request_limits(container: Object) -> None:
    """What is limited and not requested is requested."""
    resources = mapping(container.get("resources"))
    if limits := mapping(resources.get("limits")):
        container["resources"] = {**resources, "requests": {**limits, **mapping(resources.get("requests"))}}


def tolerate_absent_nodes(spec: Object) -> None:
    """As the admission plugin DefaultTolerationSeconds."""
    tolerations = items(spec.get("tolerations"))
    for key in TOLERATED:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
            tolerations = [*tolerations, added]
    spec["tolerations"] = tolerations


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def _begin_pod(body: Object, now: str) -> None:
    status: Object = {"phase": "Pending", "qosClass": quality_of_service(body["spec"])}
    if body["spec"].get("schedulingGates"):
        status["conditions"] = [scheduled_condition("False", now, reason="SchedulingGated", message=GATED)]
    body["status"] = status


def scheduled_condition(status: str, now: str, **why: str) -> Object:
    return {"type": "PodScheduled", "status": status, "lastProbeTime": None, "lastTransitionTime": now, **why}


def quality_of_service(spec: Mapping[str, Any]) -> str:
    containers = [*items(spec.get("initContainers")), *items(spec.get("containers"))]
    asked = [_compute(container, "requests") for container in containers]
    limits = [_compute(container, "limits") for container in containers]
    if not any(asked) and not any(limits):
        return "BestEffort"
    whole = all(set(limit) == {"cpu", "memory"} for limit in limits)
    return "Guaranteed" if whole and asked == limits else "Burstable"


def _compute(container: Mapping[str, Any], which: str) -> dict[str, int]:
    amounts = mapping(mapping(container.get("resources")).get(which))
    compared = {name: _nanos(amount) for name, amount in amounts.items() if name in ("cpu", "memory")}
    return {name: nanos for name, nanos in compared.items() if nanos}


def _nanos(amount: object) -> int:
    """What is no quantity is refused by the validation, not here."""
    try:
        return parse_quantity(amount)
    except ValueError:
        return 0


# -- nodes and namespaces ----------------------------------------------------------------------------------------------


def _complete_node(body: Object) -> None:
    body.setdefault("spec", {})
    status = body.setdefault("status", {})
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status["nodeInfo"] = {**dict.fromkeys(NODE_INFO, ""), **mapping(status.get("nodeInfo"))}
    _complete_conditions(body, "lastHeartbeatTime", "lastTransitionTime")


def _complete_namespace(body: Object) -> None:
    metadata = body["metadata"]
    metadata["labels"] = {**mapping(metadata.get("labels")), "kubernetes.io/metadata.name": metadata.get("name", "")}
    body.setdefault("spec", {})


def _begin_namespace(body: Object, now: str) -> None:
    body["spec"] = {**mapping(body.get("spec")), "finalizers": ["kubernetes"]}
    body["status"] = {"phase": "Active"}


# -- workloads ---------------------------------------------------------------------------------------------------------


def _complete_template(body: Object) -> Object:
    spec: Object = body.setdefault("spec", {})
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    complete_pod_spec(template.setdefault("spec", {}))
    return spec


def _complete_deployment(body: Object) -> None:
    spec = _complete_template(body)
    _setdefaults(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _setdefaults(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")


def _complete_replica_set(body: Object) -> None:
    _setdefaults(_complete_template(body), replicas=1)


def _complete_stateful_set(body: Object) -> None:
    spec = _complete_template(body)
    _setdefaults(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {"partition": 0})
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})


def _complete_daemon_set(body: Object) -> None:
    spec = _complete_template(body)
    _setdefaults(spec, revisionHistoryLimit=10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _setdefaults(strategy.setdefault("rollingUpdate", {}), maxUnavailable=1, maxSurge=0)


def _complete_cron_job(body: Object) -> None:
    spec: Object = body.setdefault("spec", {})
    _setdefaults(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template = spec.setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    pods = template.setdefault("spec", {}).setdefault("template", {})
    pods.setdefault("metadata", {})
    complete_pod_spec(pods.setdefault("spec", {}))


def _complete_replication_controller(body: Object) -> None:
    spec = _complete_template(body)
    _setdefaults(spec, replicas=1)
    labels = mapping(spec["template"]["metadata"].get("labels"))
    if labels:
        spec.setdefault("selector", dict(labels))
        body["metadata"].setdefault("labels", dict(labels))


def _complete_job(body: Object) -> None:
    spec = _complete_template(body)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    _setdefaults(
        spec,
        parallelism=1,
        backoffLimit=6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed",
        manualSelector=False,
    )


def _begin_job(body: Object, now: str) -> None:
    spec, metadata = body["spec"], body["metadata"]
    body["status"] = {}
    if spec.get("manualSelector"):
        return
    uid, name = metadata["uid"], metadata["name"]
    controller = {"batch.kubernetes.io/controller-uid": uid}
    labels = {**controller, "batch.kubernetes.io/job-name": name, "controller-uid": uid, "job-name": name}
    template = spec["template"]["metadata"]
    template["labels"] = {**mapping(template.get("labels")), **labels}
    metadata["labels"] = {**template["labels"], **mapping(metadata.get("labels"))}
    spec["selector"] = {"matchLabels": controller}


def _begin_empty(body: Object, now: str) -> None:
    body["status"] = {}


def _begin_replicas(body: Object, now: str) -> None:
    body["status"] = {"replicas": 0}


def _begin_stateful_set(body: Object, now: str) -> None:
    body["status"] = {"replicas": 0, "availableReplicas": 0}


def _begin_daemon_set(body: Object, now: str) -> None:
    numbers = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    body["status"] = dict.fromkeys(numbers, 0)


def _begin_budget(body: Object, now: str) -> None:
    body["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


# -- storage, services, the rest ---------------------------------------------------------------------------------------


def _complete_claim(body: Object) -> None:
    body.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _begin_claim(body: Object, now: str) -> None:
    body["status"] = {"phase": "Pending"}
    _protect(body, "kubernetes.io/pvc-protection")


def _complete_volume(body: Object) -> None:
    spec = body.setdefault("spec", {})
    _setdefaults(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if isinstance(spec.get("hostPath"), dict):
        spec["hostPath"].setdefault("type", "")


def _begin_volume(body: Object, now: str) -> None:
    body["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}
    _protect(body, "kubernetes.io/pv-protection")


def _protect(body: Object, finalizer: str) -> None:
    """As the admission plugin StorageObjectInUseProtection."""
    finalizers = items(body["metadata"].get("finalizers"))
    if finalizer not in finalizers:
        body["metadata"]["finalizers"] = [*finalizers, finalizer]


def _complete_storage_class(body: Object) -> None:
    _setdefaults(body, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _complete_driver(body: Object) -> None:
    _setdefaults(
        body.setdefault("spec", {}),
        attachRequired=True,
        podInfoOnMount=False,
        volumeLifecycleModes=["Persistent"],
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
    )


def _complete_service(body: Object) -> None:
    spec = body.setdefault("spec", {})
    _setdefaults(spec, type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in items(spec.get("ports")):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _begin_service(body: Object, now: str) -> None:
    body["status"] = {"loadBalancer": {}}


def _complete_api_service(body: Object) -> None:
    service = mapping(body.setdefault("spec", {}).get("service"))
    if service:
        service.setdefault("port", 443)


def _complete_endpoint_slice(body: Object) -> None:
    for port in items(body.get("ports")):
        _setdefaults(port, name="", protocol="TCP")


def _complete_priority_class(body: Object) -> None:
    body.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _complete_secret(body: Object) -> None:
    body.setdefault("type", "Opaque")
    plain = mapping(body.pop("stringData", None))
    if plain:
        encoded = {key: b64encode(str(value).encode()).decode() for key, value in plain.items()}
        body["data"] = {**mapping(body.get("data")), **encoded}


def _complete_role_binding(body: Object) -> None:
    role = mapping(body.get("roleRef"))
    role.setdefault("apiGroup", RBAC)
    for subject in items(body.get("subjects")):
        if isinstance(subject, dict) and subject.get("kind") != "ServiceAccount":
            subject.setdefault("apiGroup", RBAC)


def _setdefaults(body: Object, **defaults: Any) -> None:
    for key, value in defaults.items():
        if body.get(key) is None:
            body[key] = value


_COMPLETE: Final[Mapping[str, Callable[[Object], None]]] = {
    "pods": _complete_pod,
    "nodes": _complete_node,
    "namespaces": _complete_namespace,
    "deployments.apps": _complete_deployment,
    "replicasets.apps": _complete_replica_set,
    "statefulsets.apps": _complete_stateful_set,
    "daemonsets.apps": _complete_daemon_set,
    "cronjobs.batch": _complete_cron_job,
    "replicationcontrollers": _complete_replication_controller,
    "jobs.batch": _complete_job,
    "persistentvolumeclaims": _complete_claim,
    "persistentvolumes": _complete_volume,
    "storageclasses.storage.k8s.io": _complete_storage_class,
    "csidrivers.storage.k8s.io": _complete_driver,
    "services": _complete_service,
    "priorityclasses.scheduling.k8s.io": _complete_priority_class,
    "secrets": _complete_secret,
    "apiservices.apiregistration.k8s.io": _complete_api_service,
    "endpointslices.discovery.k8s.io": _complete_endpoint_slice,
    "rolebindings.rbac.authorization.k8s.io": _complete_role_binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _complete_role_binding,
}
_BEGIN: Final[Mapping[str, Callable[[Object, str], None]]] = {
    "pods": _begin_pod,
    "namespaces": _begin_namespace,
    "deployments.apps": _begin_empty,
    "replicasets.apps": _begin_replicas,
    "statefulsets.apps": _begin_stateful_set,
    "daemonsets.apps": _begin_daemon_set,
    "cronjobs.batch": _begin_empty,
    "resourcequotas": _begin_empty,
    "ingresses.networking.k8s.io": _begin_service,
    "replicationcontrollers": _begin_replicas,
    "jobs.batch": _begin_job,
    "poddisruptionbudgets.policy": _begin_budget,
    "persistentvolumeclaims": _begin_claim,
    "persistentvolumes": _begin_volume,
    "services": _begin_service,
    "apiservices.apiregistration.k8s.io": _begin_empty,
}
