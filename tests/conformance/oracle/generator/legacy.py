"""The theme of predicates and priorities that only old kube-schedulers had; for the oracle of v1.17."""

from __future__ import annotations

import json

from .case import APPS, REGION, ZONE, Body, Case
from .themes import OWNERS
from .wishes import tolerate

NAMESPACE = "default"
DISKS = [("awsElasticBlockStore", "volumeID"), ("gcePersistentDisk", "pdName"), ("azureDisk", "diskName")]
DISKS += [("cinder", "volumeID")]
LIMITS = ("aws-ebs", "gce-pd", "azure-disk", "cinder")
PREDICATES = [
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxAzureDiskVolumeCount",
    "MaxCinderVolumeCount",
    "PodToleratesNodeNoExecuteTaints",
]
PRIORITIES = ["SelectorSpreadPriority", "NodePreferAvoidPodsPriority", "ResourceLimitsPriority", "EqualPriority"]


def legacy(case: Case) -> Body:
    case.make_nodes(missing=0.25)
    case.taint_nodes(0.5)
    app, kind = case.pick(APPS), case.pick(OWNERS)
    labels = {"app": app}
    if kind in ("Service", None) or case.chance(0.4):
        case.add("v1", "Service", "svc", NAMESPACE, spec={"selector": {"app": app}})
    if kind not in ("Service", None):
        case.owner(kind, NAMESPACE, app)
    for node in case.nodes:
        _age(case, node)
    placed = case.number(0, 3 * len(case.nodes))
    placed_labels = labels if case.chance(0.6) else None
    case.populate(count=placed, namespace=NAMESPACE, labels=placed_labels, shape=lambda pod: _disks(case, pod))
    predicates, priorities = _predicates(case), _priorities(case)
    pod = _pod(case, labels, kind)
    if case.chance(0.3):
        predicates.append(_service_affinity(case, app, pod))
    case.policy = {"predicates": predicates, "priorities": priorities}
    return pod


def _age(case: Case, node: Body) -> None:
    """Zones under the label that schedulers of that time read, pods to avoid, and limits on attached volumes."""
    labels = node["metadata"]["labels"]
    zone = labels.get(ZONE)
    if zone and case.chance(0.8):
        labels["failure-domain.beta.kubernetes.io/zone"] = zone
        labels["failure-domain.beta.kubernetes.io/region"] = REGION
    if case.chance(0.3):
        controller = {
            "kind": case.pick(["ReplicaSet", "ReplicationController"]),
            "name": "own",
            "uid": case.pick(["own-uid", "other-uid"]),
            "apiVersion": "apps/v1",
            "controller": True,
        }
        avoided = {"preferAvoidPods": [{"podSignature": {"podController": controller}, "reason": "some"}]}
        annotation = {"scheduler.alpha.kubernetes.io/preferAvoidPods": json.dumps(avoided)}
        node["metadata"]["annotations"] = annotation
    for kind in LIMITS:
        if case.chance(0.6):
            node["status"]["allocatable"][f"attachable-volumes-{kind}"] = str(case.number(1, 3))


def _disks(case: Case, pod: Body) -> None:
    volumes = []
    for index in range(case.number(0, 3)):
        kind, key = case.pick(DISKS)
        body = {key: f"disk{case.number(0, 5)}"} | ({"diskURI": "uri"} if kind == "azureDisk" else {})
        volumes.append({"name": f"v{index}", kind: body})
    if volumes:
        pod["spec"]["volumes"] = volumes


def _predicates(case: Case) -> list[Body]:
    found: list[Body] = [{"name": name} for name in case.some(PREDICATES, 1)]
    if case.chance(0.3):
        argument = {"labels": case.some(["disk", "gen", "arch"], 1, 2), "presence": case.chance(0.5)}
        found.append({"name": "CheckNodeLabelPresence", "argument": {"labelsPresence": argument}})
    return found


def _priorities(case: Case) -> list[Body]:
    found: list[Body] = [{"name": name, "weight": case.number(1, 5)} for name in case.some(PRIORITIES, 1)]
    if case.chance(0.4):
        found.append({"name": "RackSpread", "weight": 2, "argument": {"serviceAntiAffinity": {"label": "rack"}}})
    if case.chance(0.4):
        argument = {"label": "disk", "presence": case.chance(0.5)}
        found.append({"name": "SsdFirst", "weight": 3, "argument": {"labelPreference": argument}})
    return found


def _pod(case: Case, labels: Body, owner_kind: str | None) -> Body:
    pod = case.pod(labels=labels, namespace=NAMESPACE)
    version = "v1" if owner_kind == "ReplicationController" else "apps/v1"
    kind = owner_kind or "ReplicaSet"
    owner = {"apiVersion": version, "kind": kind, "name": "own", "uid": "own-uid", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    _disks(case, pod)
    tolerate(case, pod)
    if case.chance(0.6):
        limits = {"cpu": case.pick(["1", "3", "6"]), "memory": case.pick(["1Gi", "6Gi", "12Gi"])}
        pod["spec"]["containers"][0]["resources"]["limits"] = limits
    return pod


def _service_affinity(case: Case, app: str, pod: Body) -> Body:
    """With at most one pod of the service placed, so that which one is looked at first does not matter."""
    mine = [body for body in case.objects if body["kind"] == "Pod" and body["metadata"]["labels"].get("app") == app]
    for body in mine[1:]:
        case.objects.remove(body)
    labels = case.some(["rack", "arch"], 1)
    if case.chance(0.3):
        pod["spec"]["nodeSelector"] = {"rack": "rack1"}
    return {"name": "CheckServiceAffinity", "argument": {"serviceAffinity": {"labels": labels}}}
