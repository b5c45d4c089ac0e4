"""The columns that `kubectl get` shows of the built-in kinds: one function a kind, from an object to its cells.

A kind that has none here is shown with its name and age. Columns of priority 1 are those of `-o wide`. Workloads are
in `workload_columns`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from berth.sim.server.printers.durations import age
from berth.sim.server.printers.layouts import (
    NONE,
    UNKNOWN,
    Body,
    Layout,
    column,
    created_age,
    layout,
    name_of,
    pairs,
    selector_text,
    spec_of,
    status_of,
)
from berth.sim.server.printers.workload_columns import WORKLOADS

# -- pods and nodes -------------------------------------------------------------------------------------------------


def _pod(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    states = status.get("containerStatuses") or []
    ready = sum(bool(state.get("ready")) for state in states)
    return [
        name_of(body),
        f"{ready}/{len(spec.get('containers') or [])}",
        pod_status(body),
        str(sum(int(state.get("restartCount", 0)) for state in states)),
        created_age(body, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def pod_status(body: Body) -> str:
    """What kubectl shows as STATUS: the phase, unless something more telling is known."""
    status = status_of(body)
    said = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            said = "SchedulingGated"
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        detail = state.get("waiting") or state.get("terminated") or {}
        said = detail.get("reason") or said
    return "Terminating" if body["metadata"].get("deletionTimestamp") else str(said)


def _readiness_gates(spec: Body, status: Body) -> str:
    gates = [gate.get("conditionType") for gate in spec.get("readinessGates") or []]
    if not gates:
        return NONE
    true = {found.get("type") for found in status.get("conditions") or [] if found.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def _node(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    info = status.get("nodeInfo") or {}
    addresses = {found.get("type"): found.get("address") for found in status.get("addresses") or []}
    return [
        name_of(body),
        _node_status(spec, status),
        _node_roles(body["metadata"].get("labels") or {}),
        created_age(body, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(spec: Body, status: Body) -> str:
    conditions = {found.get("type"): found.get("status") for found in status.get("conditions") or []}
    known = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{known},SchedulingDisabled" if spec.get("unschedulable") else known


def _node_roles(labels: Body) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = [key.removeprefix(prefix) for key in labels if key.startswith(prefix)]
    return ",".join(sorted(role for role in roles if role)) or NONE


# -- the rest -------------------------------------------------------------------------------------------------------


def _event(body: Body, now: datetime) -> list[Any]:
    about = body.get("involvedObject") or body.get("regarding") or {}
    source = body.get("source") or body.get("deprecatedSource") or {}
    last = body.get("lastTimestamp") or body.get("deprecatedLastTimestamp") or body.get("eventTime")
    first = body.get("firstTimestamp") or body.get("deprecatedFirstTimestamp") or body.get("eventTime")
    series = body.get("series") or {}
    return [
        age(series.get("lastObservedTime") or last, now),
        body.get("type", ""),
        body.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        source.get("component") or body.get("reportingComponent") or body.get("reportingController") or "",
        body.get("message") or body.get("note") or "",
        age(first, now),
        series.get("count") or body.get("count") or body.get("deprecatedCount") or 1,
        name_of(body),
    ]


def _claim(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    phase = "Terminating" if body["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        name_of(body),
        phase,
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if spec.get("volumeName") else "",
        _access_modes(status.get("accessModes") if spec.get("volumeName") else None),
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        created_age(body, now),
        spec.get("volumeMode", ""),
    ]


def _volume(body: Body, now: datetime) -> list[Any]:
    spec, status = spec_of(body), status_of(body)
    claim = spec.get("claimRef") or {}
    return [
        name_of(body),
        (spec.get("capacity") or {}).get("storage", ""),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if body["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        created_age(body, now),
        spec.get("volumeMode", ""),
    ]


def _access_modes(modes: list[str] | None) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(mode, mode) for mode in modes or [])


def _storage_class(body: Body, now: datetime) -> list[Any]:
    annotations = body["metadata"].get("annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        f"{name_of(body)} (default)" if is_default else name_of(body),
        body.get("provisioner", ""),
        body.get("reclaimPolicy", "Delete"),
        body.get("volumeBindingMode", "Immediate"),
        bool(body.get("allowVolumeExpansion")),
        created_age(body, now),
    ]


def _service(body: Body, now: datetime) -> list[Any]:
    spec = spec_of(body)
    ports = ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or [])
    return [
        name_of(body),
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        ",".join(spec.get("externalIPs") or []) or NONE,
        ports or NONE,
        created_age(body, now),
        pairs(spec.get("selector")),
    ]


def _namespace(body: Body, now: datetime) -> list[Any]:
    return [name_of(body), status_of(body).get("phase", "Active"), created_age(body, now)]


def _priority_class(body: Body, now: datetime) -> list[Any]:
    policy = body.get("preemptionPolicy", "PreemptLowerPriority")
    return [name_of(body), body.get("value", 0), bool(body.get("globalDefault")), created_age(body, now), policy]


def _lease(body: Body, now: datetime) -> list[Any]:
    return [name_of(body), spec_of(body).get("holderIdentity", ""), created_age(body, now)]


def _created(body: Body, now: datetime) -> list[Any]:
    return [name_of(body), body["metadata"].get("creationTimestamp", "")]


def _api_service(body: Body, now: datetime) -> list[Any]:
    service = spec_of(body).get("service")
    where = f"{service['namespace']}/{service['name']}" if service else "Local"
    conditions = [one for one in status_of(body).get("conditions") or [] if one["type"] == "Available"]
    condition = conditions[0] if conditions else {}
    available = str(condition.get("status", "Unknown"))
    if available != "True" and condition:
        available = f"{available} ({condition.get('reason', '')})"
    return [name_of(body), where, available, created_age(body, now)]


def _endpoint_slice(body: Body, now: datetime) -> list[Any]:
    ports = [str(port.get("port")) for port in body.get("ports") or []]
    addresses = [address for endpoint in body.get("endpoints") or [] for address in endpoint.get("addresses") or []]
    shown = [",".join(found) or "<unset>" for found in (ports, addresses)]
    return [name_of(body), body.get("addressType", ""), *shown, created_age(body, now)]


def _config_map(body: Body, now: datetime) -> list[Any]:
    count = len(body.get("data") or {}) + len(body.get("binaryData") or {})
    return [name_of(body), count, created_age(body, now)]


def _secret(body: Body, now: datetime) -> list[Any]:
    return [name_of(body), body.get("type", "Opaque"), len(body.get("data") or {}), created_age(body, now)]


def _csi_node(body: Body, now: datetime) -> list[Any]:
    return [name_of(body), len(spec_of(body).get("drivers") or []), created_age(body, now)]


def _ingress(body: Body, now: datetime) -> list[Any]:
    spec = spec_of(body)
    hosts = ",".join(rule.get("host") or "*" for rule in spec.get("rules") or []) or "*"
    ports = "80, 443" if spec.get("tls") else "80"
    return [name_of(body), spec.get("ingressClassName") or NONE, hosts, "", ports, created_age(body, now)]


def _network_policy(body: Body, now: datetime) -> list[Any]:
    return [name_of(body), selector_text(spec_of(body).get("podSelector")), created_age(body, now)]


def _role_binding(body: Body, now: datetime) -> list[Any]:
    role = body.get("roleRef") or {}
    return [name_of(body), f"{role.get('kind')}/{role.get('name')}", created_age(body, now)]


def _quota(body: Body, now: datetime) -> list[Any]:
    used = status_of(body).get("used") or {}
    hard = spec_of(body).get("hard") or {}
    shown = [f"{name}: {used.get(name, 0)}/{amount}" for name, amount in sorted(hard.items())]
    requests = ", ".join(text for text in shown if not text.startswith("limits."))
    return [
        name_of(body),
        requests,
        ", ".join(text for text in shown if text.startswith("limits.")),
        created_age(body, now),
    ]


def _named(body: Body, now: datetime) -> list[Any]:
    return [name_of(body), created_age(body, now)]


DEFAULT: Final = layout(_named, "Age")
LAYOUTS: Final[Mapping[str, Layout]] = {
    **WORKLOADS,
    "pods": layout(_pod, "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"),
    "nodes": layout(
        _node,
        "Status",
        "Roles",
        "Age",
        "Version",
        "Internal-IP+",
        "External-IP+",
        "OS-Image+",
        "Kernel-Version+",
        "Container-Runtime+",
    ),
    "namespaces": layout(_namespace, "Status", "Age"),
    "ingresses.networking.k8s.io": layout(_ingress, "Class", "Hosts", "Address", "Ports", "Age"),
    "networkpolicies.networking.k8s.io": layout(_network_policy, "Pod-Selector", "Age"),
    "roles.rbac.authorization.k8s.io": layout(_created, "Created At"),
    "clusterroles.rbac.authorization.k8s.io": layout(_created, "Created At"),
    "rolebindings.rbac.authorization.k8s.io": layout(_role_binding, "Role", "Age"),
    "clusterrolebindings.rbac.authorization.k8s.io": layout(_role_binding, "Role", "Age"),
    "resourcequotas": layout(_quota, "Request", "Limit", "Age"),
    "limitranges": layout(_created, "Created At"),
    "events": Layout(
        tuple(
            column(text)
            for text in (
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "Subobject+",
                "Source+",
                "Message",
                "First Seen+",
                "Count:integer+",
                "Name+",
            )
        ),
        _event,
    ),
    "persistentvolumeclaims": layout(
        _claim,
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        "Age",
        "VolumeMode+",
    ),
    "persistentvolumes": layout(
        _volume,
        "Capacity",
        "Access Modes",
        "Reclaim Policy",
        "Status",
        "Claim",
        "StorageClass",
        "VolumeAttributesClass",
        "Reason",
        "Age",
        "VolumeMode+",
    ),
    "storageclasses.storage.k8s.io": layout(
        _storage_class,
        "Provisioner",
        "ReclaimPolicy",
        "VolumeBindingMode",
        "AllowVolumeExpansion:boolean",
        "Age",
    ),
    "services": layout(_service, "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+"),
    "priorityclasses.scheduling.k8s.io": layout(
        _priority_class, "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"
    ),
    "leases.coordination.k8s.io": layout(_lease, "Holder", "Age"),
    "customresourcedefinitions.apiextensions.k8s.io": layout(_created, "Created At"),
    "configmaps": layout(_config_map, "Data:integer", "Age"),
    "secrets": layout(_secret, "Type", "Data:integer", "Age"),
    "csinodes.storage.k8s.io": layout(_csi_node, "Drivers:integer", "Age"),
}
