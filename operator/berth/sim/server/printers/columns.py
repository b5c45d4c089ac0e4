"""The columns that `kubectl get` shows of the built-in kinds: one function a kind, from an object to its cells.

A kind that has none here is shown with its name and age. Columns of priority 1 are those of `-o wide`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from berth.sim.server.printers.durations import age, human_duration

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"

Body = Mapping[str, Any]
Cells = Callable[[Body, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Layout:
    columns: tuple[Column, ...]
    cells: Cells


NAME: Final = Column("Name", format="name", description="Name must be unique within a namespace.")
AGE: Final = Column("Age")


def created_age(body: Body, now: datetime) -> str:
    return age(body["metadata"].get("creationTimestamp"), now)


def _layout(cells: Cells, *columns: str) -> Layout:
    """Name, the given ones ("Ready", "Restarts:integer", "IP+" for wide), and age where "Age" stands."""
    return Layout((NAME, *(_column(text) for text in columns)), cells)


def _column(text: str) -> Column:
    name, _, kind = text.removesuffix("+").partition(":")
    return Column(name, kind or "string", priority=int(text.endswith("+")))


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _spec(body: Body) -> Body:
    return body.get("spec") or {}


def _status(body: Body) -> Body:
    return body.get("status") or {}


def _pairs(labels: Body | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def _selector(selector: Body | None) -> str:
    return _pairs((selector or {}).get("matchLabels"))


def _containers(body: Body) -> tuple[str, str]:
    containers = ((_spec(body).get("template") or {}).get("spec") or {}).get("containers") or []
    return ",".join(str(one["name"]) for one in containers), ",".join(str(one.get("image", "")) for one in containers)


# -- pods and nodes -------------------------------------------------------------------------------------------------


def _pod(body: Body, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    states = status.get("containerStatuses") or []
    ready = sum(bool(state.get("ready")) for state in states)
    return [
        _name(body),
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
    status = _status(body)
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
    spec, status = _spec(body), _status(body)
    info = status.get("nodeInfo") or {}
    addresses = {found.get("type"): found.get("address") for found in status.get("addresses") or []}
    return [
        _name(body),
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


# -- workloads ------------------------------------------------------------------------------------------------------


def _deployment(body: Body, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    names, images = _containers(body)
    return [
        _name(body),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        created_age(body, now),
        names,
        images,
        _selector(spec.get("selector")),
    ]


def _replica_set(body: Body, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    selector = spec.get("selector") or {}
    return [
        _name(body),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        created_age(body, now),
        *_containers(body),
        _selector(selector) if "matchLabels" in selector else _pairs(selector),
    ]


def _stateful_set(body: Body, now: datetime) -> list[Any]:
    ready = f"{_status(body).get('readyReplicas', 0)}/{_spec(body).get('replicas', 1)}"
    return [_name(body), ready, created_age(body, now), *_containers(body)]


def _job(body: Body, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    conditions = [found.get("type") for found in status.get("conditions") or [] if found.get("status") == "True"]
    names, images = _containers(body)
    return [
        _name(body),
        next((kind for kind in ("Complete", "Failed", "Suspended") if kind in conditions), "Running"),
        f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}",
        _job_duration(status, now),
        created_age(body, now),
        names,
        images,
        _selector(spec.get("selector")),
    ]


def _job_duration(status: Body, now: datetime) -> str:
    started, ended = status.get("startTime"), status.get("completionTime")
    if not started:
        return ""
    if not ended:
        return age(started, now)
    took = datetime.fromisoformat(ended) - datetime.fromisoformat(started)
    return human_duration(took.total_seconds())


def _budget(body: Body, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    return [
        _name(body),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        created_age(body, now),
    ]


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
        _name(body),
    ]


def _claim(body: Body, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    phase = "Terminating" if body["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        _name(body),
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
    spec, status = _spec(body), _status(body)
    claim = spec.get("claimRef") or {}
    return [
        _name(body),
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
        f"{_name(body)} (default)" if is_default else _name(body),
        body.get("provisioner", ""),
        body.get("reclaimPolicy", "Delete"),
        body.get("volumeBindingMode", "Immediate"),
        bool(body.get("allowVolumeExpansion")),
        created_age(body, now),
    ]


def _service(body: Body, now: datetime) -> list[Any]:
    spec = _spec(body)
    ports = ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or [])
    return [
        _name(body),
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        ",".join(spec.get("externalIPs") or []) or NONE,
        ports or NONE,
        created_age(body, now),
        _pairs(spec.get("selector")),
    ]


def _namespace(body: Body, now: datetime) -> list[Any]:
    return [_name(body), _status(body).get("phase", "Active"), created_age(body, now)]


def _priority_class(body: Body, now: datetime) -> list[Any]:
    policy = body.get("preemptionPolicy", "PreemptLowerPriority")
    return [_name(body), body.get("value", 0), bool(body.get("globalDefault")), created_age(body, now), policy]


def _lease(body: Body, now: datetime) -> list[Any]:
    return [_name(body), _spec(body).get("holderIdentity", ""), created_age(body, now)]


def _definition(body: Body, now: datetime) -> list[Any]:
    return [_name(body), body["metadata"].get("creationTimestamp", "")]


def _api_service(body: Body, now: datetime) -> list[Any]:
    service = _spec(body).get("service")
    where = f"{service['namespace']}/{service['name']}" if service else "Local"
    conditions = [one for one in _status(body).get("conditions") or [] if one["type"] == "Available"]
    condition = conditions[0] if conditions else {}
    available = str(condition.get("status", "Unknown"))
    if available != "True" and condition:
        available = f"{available} ({condition.get('reason', '')})"
    return [_name(body), where, available, created_age(body, now)]


def _endpoint_slice(body: Body, now: datetime) -> list[Any]:
    ports = [str(port.get("port")) for port in body.get("ports") or []]
    addresses = [address for endpoint in body.get("endpoints") or [] for address in endpoint.get("addresses") or []]
    shown = [",".join(found) or "<unset>" for found in (ports, addresses)]
    return [_name(body), body.get("addressType", ""), *shown, created_age(body, now)]


def _config_map(body: Body, now: datetime) -> list[Any]:
    count = len(body.get("data") or {}) + len(body.get("binaryData") or {})
    return [_name(body), count, created_age(body, now)]


def _secret(body: Body, now: datetime) -> list[Any]:
    return [_name(body), body.get("type", "Opaque"), len(body.get("data") or {}), created_age(body, now)]


def _csi_node(body: Body, now: datetime) -> list[Any]:
    return [_name(body), len(_spec(body).get("drivers") or []), created_age(body, now)]


def _named(body: Body, now: datetime) -> list[Any]:
    return [_name(body), created_age(body, now)]


_CONTAINERS: Final = ("Containers+", "Images+")
_WORKLOAD: Final = (*_CONTAINERS, "Selector+")
_REPLICAS: Final = ("Desired:integer", "Current:integer", "Ready:integer", "Age", *_WORKLOAD)

DEFAULT: Final = _layout(_named, "Age")
LAYOUTS: Final[Mapping[str, Layout]] = {
    "pods": _layout(_pod, "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"),
    "nodes": _layout(
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
    "namespaces": _layout(_namespace, "Status", "Age"),
    "deployments.apps": _layout(_deployment, "Ready", "Up-to-date", "Available", "Age", *_WORKLOAD),
    "replicasets.apps": _layout(_replica_set, *_REPLICAS),
    "replicationcontrollers": _layout(_replica_set, *_REPLICAS),
    "statefulsets.apps": _layout(_stateful_set, "Ready", "Age", *_CONTAINERS),
    "jobs.batch": _layout(_job, "Status", "Completions", "Duration", "Age", *_WORKLOAD),
    "poddisruptionbudgets.policy": _layout(
        _budget, "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"
    ),
    "events": Layout(
        tuple(
            _column(text)
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
    "persistentvolumeclaims": _layout(
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
    "persistentvolumes": _layout(
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
    "storageclasses.storage.k8s.io": _layout(
        _storage_class,
        "Provisioner",
        "ReclaimPolicy",
        "VolumeBindingMode",
        "AllowVolumeExpansion:boolean",
        "Age",
    ),
    "services": _layout(_service, "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+"),
    "priorityclasses.scheduling.k8s.io": _layout(
        _priority_class, "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"
    ),
    "leases.coordination.k8s.io": _layout(_lease, "Holder", "Age"),
    "customresourcedefinitions.apiextensions.k8s.io": _layout(_definition, "Created At"),
    "apiservices.apiregistration.k8s.io": _layout(_api_service, "Service", "Available", "Age"),
    "endpointslices.discovery.k8s.io": _layout(_endpoint_slice, "AddressType", "Ports", "Endpoints", "Age"),
    "configmaps": _layout(_config_map, "Data:integer", "Age"),
    "secrets": _layout(_secret, "Type", "Data:integer", "Age"),
    "csinodes.storage.k8s.io": _layout(_csi_node, "Drivers:integer", "Age"),
}
"""By the name of the storage, so that both APIs for events have the same columns."""
