"""The kinds that the embedded cluster serves: what discovery says about each, and how it is stored.

A `Resource` is one served version of one kind. Versions of a kind share a `storage`: the two APIs for events are one
collection, and so are the versions of a custom resource. `subresources` are the ones that are served beside the object;
a resource with "status" among them keeps status and the rest apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS: Final = ("status",)


@dataclass(frozen=True, slots=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[str, ...] = ()
    list_kind: str = ""
    categories: tuple[str, ...] = ()
    custom: bool = False
    """Made by a CustomResourceDefinition."""
    returns_deleted: bool = False
    """Whether the answer to a delete that takes effect at once is the object, rather than a Status."""
    storage: str = ""
    """Which collection holds the objects: "plural.group"; the same for all versions of a kind."""
    group_resource: str = field(init=False, repr=False, compare=False)
    api_version: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        group_resource = f"{self.plural}.{self.group}" if self.group else self.plural
        object.__setattr__(self, "group_resource", group_resource)
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        if not self.list_kind:
            object.__setattr__(self, "list_kind", f"{self.kind}List")
        if not self.storage:
            object.__setattr__(self, "storage", group_resource)

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


def _core(plural: str, kind: str, namespaced: bool, *short: str, **more: object) -> Resource:
    return _resource("", "v1", plural, kind, namespaced, *short, **more)


def _resource(
    group: str, version: str, plural: str, kind: str, namespaced: bool, *short: str, **more: object
) -> Resource:
    return Resource(group, version, plural, kind, namespaced, kind.lower(), tuple(short), **more)  # type: ignore[arg-type]


ALL: Final = ("all",)

PODS: Final = _core(
    "pods", "Pod", True, "po", subresources=("status", "binding", "eviction"), categories=ALL, returns_deleted=True
)
NODES: Final = _core("nodes", "Node", False, "no", subresources=STATUS)
NAMESPACES: Final = _core(
    "namespaces",
    "Namespace",
    False,
    "ns",
    subresources=("status", "finalize"),
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    returns_deleted=True,
)
CLAIMS: Final = _core(
    "persistentvolumeclaims", "PersistentVolumeClaim", True, "pvc", subresources=STATUS, returns_deleted=True
)
VOLUMES: Final = _core("persistentvolumes", "PersistentVolume", False, "pv", subresources=STATUS, returns_deleted=True)
SERVICES: Final = _core("services", "Service", True, "svc", subresources=STATUS, categories=ALL, returns_deleted=True)
REPLICATION_CONTROLLERS: Final = _core(
    "replicationcontrollers", "ReplicationController", True, "rc", subresources=STATUS, categories=ALL
)
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap", True, "cm")
SECRETS: Final = _core("secrets", "Secret", True)
SERVICE_ACCOUNTS: Final = _core(
    "serviceaccounts", "ServiceAccount", True, "sa", subresources=("token",), returns_deleted=True
)
RESOURCE_QUOTAS: Final = _core(
    "resourcequotas", "ResourceQuota", True, "quota", subresources=STATUS, returns_deleted=True
)
LIMIT_RANGES: Final = _core("limitranges", "LimitRange", True, "limits")
ENDPOINTS: Final = _core("endpoints", "Endpoints", True, "ep")
EVENTS: Final = _core("events", "Event", True, "ev")
EVENTS_V1: Final = _resource("events.k8s.io", "v1", "events", "Event", True, "ev", storage=EVENTS.storage)
DEPLOYMENTS: Final = _resource(
    "apps", "v1", "deployments", "Deployment", True, "deploy", subresources=STATUS, categories=ALL
)
REPLICA_SETS: Final = _resource(
    "apps", "v1", "replicasets", "ReplicaSet", True, "rs", subresources=STATUS, categories=ALL
)
STATEFUL_SETS: Final = _resource(
    "apps", "v1", "statefulsets", "StatefulSet", True, "sts", subresources=STATUS, categories=ALL
)
DAEMON_SETS: Final = _resource("apps", "v1", "daemonsets", "DaemonSet", True, "ds", subresources=STATUS, categories=ALL)
CONTROLLER_REVISIONS: Final = _resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)
CRON_JOBS: Final = _resource("batch", "v1", "cronjobs", "CronJob", True, "cj", subresources=STATUS, categories=ALL)
JOBS: Final = _resource("batch", "v1", "jobs", "Job", True, subresources=STATUS, categories=ALL)
BUDGETS: Final = _resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, "pdb", subresources=STATUS
)
STORAGE_CLASSES: Final = _resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, "sc", returns_deleted=True
)
CSI_NODES: Final = _resource("storage.k8s.io", "v1", "csinodes", "CSINode", False, returns_deleted=True)
CSI_DRIVERS: Final = _resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, returns_deleted=True)
CSI_CAPACITIES: Final = _resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True)
PRIORITY_CLASSES: Final = _resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, "pc")
LEASES: Final = _resource("coordination.k8s.io", "v1", "leases", "Lease", True)
ENDPOINT_SLICES: Final = _resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
API_SERVICES: Final = _resource(
    "apiregistration.k8s.io",
    "v1",
    "apiservices",
    "APIService",
    False,
    subresources=STATUS,
    categories=("api-extensions",),
)
INGRESSES: Final = _resource("networking.k8s.io", "v1", "ingresses", "Ingress", True, "ing", subresources=STATUS)
INGRESS_CLASSES: Final = _resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False)
NETWORK_POLICIES: Final = _resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True, "netpol")
RBAC: Final = "rbac.authorization.k8s.io"
ROLES: Final = _resource(RBAC, "v1", "roles", "Role", True)
ROLE_BINDINGS: Final = _resource(RBAC, "v1", "rolebindings", "RoleBinding", True)
CLUSTER_ROLES: Final = _resource(RBAC, "v1", "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDINGS: Final = _resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
CRDS: Final = _resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    "crd",
    "crds",
    subresources=STATUS,
    categories=("api-extensions",),
)

BUILT_IN: Final[tuple[Resource, ...]] = (
    PODS,
    NODES,
    NAMESPACES,
    CLAIMS,
    VOLUMES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    ENDPOINTS,
    EVENTS,
    EVENTS_V1,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CONTROLLER_REVISIONS,
    JOBS,
    CRON_JOBS,
    BUDGETS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_CAPACITIES,
    PRIORITY_CLASSES,
    LEASES,
    ENDPOINT_SLICES,
    INGRESSES,
    INGRESS_CLASSES,
    NETWORK_POLICIES,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    CRDS,
    API_SERVICES,
)
