"""The themes: each fills a case and returns the pod that is to be placed."""

from __future__ import annotations

from collections.abc import Callable

from .case import APPS, NAMESPACES, Body, Case
from .profiles import fit_strategy, reweigh, switch_plugins
from .storage import CLASS_NAMES, add_shared_claims, add_storage, add_volume, want_volumes
from .wishes import (
    REQUIRED,
    TOPOLOGY_KEYS,
    host_ports,
    label_selector,
    node_term,
    tolerate,
    want_nodes,
    want_pods,
)
from .wishes import spread as want_spread

OWNERS = ["Service", "ReplicaSet", "StatefulSet", "ReplicationController", None]


def resources(case: Case) -> Body:
    case.make_nodes(extended=0.5)
    case.populate(rich=True)
    if case.chance(0.6):
        fit_strategy(case)
    return case.pod(rich=True)


def resize(case: Case) -> Body:
    """Running pods whose containers were resized in place: what counts is the larger of asked for and allocated."""
    case.make_nodes()

    def shape(pod: Body) -> None:
        if case.chance(0.6):
            status = {"name": "main", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
            status |= {"allocatedResources": case.requests(), "resources": {"requests": case.requests()}}
            pod["status"]["containerStatuses"] = [status]
            if case.chance(0.3):
                pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
                pod["status"]["conditions"] = [pending]

    case.populate(shape=shape)
    return case.pod()


def taints(case: Case) -> Body:
    case.make_nodes()
    case.taint_nodes(0.9)
    case.populate(count=case.number(0, 5))
    pod = case.pod()
    tolerate(case, pod)
    return pod


def nodeaffinity(case: Case) -> Body:
    case.make_nodes()
    if case.chance(0.3):
        term = node_term(case)
        added: Body = {REQUIRED: {"nodeSelectorTerms": [term]}} if term else {}
        if case.chance(0.5):
            wish = {"weight": 7, "preference": node_term(case)}
            added["preferredDuringSchedulingIgnoredDuringExecution"] = [wish]
        case.args["NodeAffinity"] = {"addedAffinity": added}
    pod = case.pod()
    want_nodes(case, pod)
    if case.chance(0.05):
        pod["spec"]["nodeName"] = ""
    return pod


def interpod(case: Case) -> Body:
    case.make_nodes()
    case.populate(shape=lambda pod: want_pods(case, pod, 0.35, 0.35) if case.chance(0.6) else None)
    if case.chance(0.4):
        case.args["InterPodAffinity"] = {
            "hardPodAffinityWeight": case.number(0, 100),
            "ignorePreferredTermsOfExistingPods": case.chance(0.5),
        }
    pod = case.pod()
    want_pods(case, pod)
    return pod


def spread(case: Case) -> Body:
    case.make_nodes()
    if case.chance(0.4):
        case.taint_nodes(0.4)
    case.populate(count=case.number(0, 5 * len(case.nodes)))
    pod = case.pod(labels={"app": case.pick(APPS), "rev": case.pick(["r1", "r2"])})
    want_spread(case, pod)
    if case.chance(0.3):
        want_nodes(case, pod)
    if case.chance(0.3):
        tolerate(case, pod)
    return pod


def defaultspread(case: Case) -> Body:
    """No constraints of the pod's own: the profile's defaults apply through its services and owners."""
    case.make_nodes()
    app, kind = case.pick(APPS), case.pick(OWNERS)
    labels = {"app": app}
    if kind == "Service":
        case.add("v1", kind, "svc", "default", spec={"selector": {"app": app}})
    elif kind:
        case.owner(kind, "default", app)
    if case.chance(0.6):
        constraints = [
            {
                "maxSkew": case.number(1, 2),
                "topologyKey": key,
                "whenUnsatisfiable": case.pick(["DoNotSchedule", "ScheduleAnyway"]),
            }
            for key in case.some(TOPOLOGY_KEYS, 1, 2)
        ]
        case.args["PodTopologySpread"] = {"defaultingType": "List", "defaultConstraints": constraints}
    case.populate(count=case.number(0, 4 * len(case.nodes)), labels=labels if case.chance(0.5) else None)
    pod = case.pod(labels=labels, namespace="default")
    if kind and kind != "Service":
        version = "v1" if kind == "ReplicationController" else "apps/v1"
        owner = {"apiVersion": version, "kind": kind, "name": "own", "uid": "u", "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]
    return pod


def ports(case: Case) -> Body:
    case.make_nodes()
    case.populate(shape=lambda pod: host_ports(case, pod, 0.7))
    pod = case.pod()
    host_ports(case, pod, 1)
    return pod


def images(case: Case) -> Body:
    case.make_nodes()
    case.image_nodes()
    case.populate(count=case.number(0, 8))
    return case.pod(rich=True)


def volumes(case: Case) -> Body:
    case.make_nodes()
    add_storage(case)
    shared = add_shared_claims(case)
    case.populate(count=case.number(0, 12), shape=lambda pod: want_volumes(case, pod, shared, 0.6))
    for index in range(case.number(0, 5)):
        add_volume(case, f"free{index}", case.pick(CLASS_NAMES), case.pick(["5Gi", "20Gi"]))
    pod = case.pod()
    want_volumes(case, pod, shared, 1)
    return pod


def preempt(case: Case) -> Body:
    """Nodes filled with pods of lower priority, some under disruption budgets, and a pod that fits nowhere."""
    case.make_nodes(cpu=(2, 4), memory=(8,), extended=0)
    for node in case.nodes:
        _fill(case, node)
    if case.chance(0.3):
        case.taint_nodes(0.3)
    for index in range(case.number(0, 3)):
        _add_budget(case, f"pdb{index}")
    if case.chance(0.3):
        for _ in range(case.number(1, 2)):
            other = case.pod(requests={"cpu": "1"}, priority=case.pick([10, 100, 5000]))
            other["status"]["nominatedNodeName"] = case.node_name()
            case.objects.append(other)
    requests = {"cpu": case.pick(["600m", "1500m", "2", "3"]), "memory": "512Mi"}
    pod = case.pod(requests=requests, priority=case.pick([0, 10, 100, 100, 1000, 1000]))
    if case.chance(0.1):
        pod["spec"]["preemptionPolicy"] = "Never"
    if case.chance(0.25):
        want_pods(case, pod, 0.6, 0)
    if case.chance(0.2):
        want_spread(case, pod)
    if case.chance(0.2):
        host_ports(case, pod, 1)
    if case.chance(0.3):
        tolerate(case, pod)
    return pod


def _fill(case: Case, node: Body) -> None:
    free_millicores = 1000 * int(node["status"]["allocatable"]["cpu"])
    while free_millicores > 500:
        taken = case.pick([amount for amount in (500, 1000, 1500) if amount <= free_millicores])
        free_millicores -= taken
        requests = {"cpu": f"{taken}m", "memory": "256Mi"}
        priority = case.pick([-5, 0, 0, 10, 100, 1000])
        case.objects.append(case.pod(node["metadata"]["name"], requests=requests, priority=priority))


def _add_budget(case: Case, name: str) -> None:
    namespace, selector = case.pick(NAMESPACES[:2]), label_selector(case)
    status = {
        "disruptionsAllowed": case.number(0, 2),
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "expectedPods": 3,
    }
    case.add("policy/v1", "PodDisruptionBudget", name, namespace, spec={"selector": selector}, status=status)


def mix(case: Case) -> Body:
    case.make_nodes(extended=0.3)
    if case.chance(0.5):
        case.taint_nodes(0.3)
    if case.chance(0.4):
        case.image_nodes()
    if case.chance(0.5):
        reweigh(case)
    if case.chance(0.3):
        fit_strategy(case)

    def shape(pod: Body) -> None:
        if case.chance(0.3):
            want_pods(case, pod, 0.3, 0.3)
        if case.chance(0.2):
            host_ports(case, pod)

    case.populate(shape=shape, rich=case.chance(0.5))
    pod = case.pod(rich=case.chance(0.5))
    for wish, probability in (
        (tolerate, 0.6),
        (want_nodes, 0.4),
        (want_pods, 0.4),
        (want_spread, 0.4),
        (host_ports, 0.3),
    ):
        if case.chance(probability):
            wish(case, pod)
    return pod


def config(case: Case) -> Body:
    """A mixed case under a profile that switches plugins off and on."""
    pod = mix(case)
    switch_plugins(case)
    return pod


THEMES: dict[str, Callable[[Case], Body]] = {
    theme.__name__: theme
    for theme in (
        resources,
        resize,
        taints,
        nodeaffinity,
        interpod,
        spread,
        defaultspread,
        ports,
        images,
        volumes,
        preempt,
        mix,
        config,
    )
}
