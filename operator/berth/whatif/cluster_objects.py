"""The objects that a simulation begins with: those of a cluster, of a snapshot or of manifests.

What decisions read goes into the scheduler's own cache. Kept beside it are policies, what the API server reads when it
creates a pod (classes, limit ranges, namespaces), and workloads, whose pods may be scaled. Objects without a UID get
one, because manifests that people write have none.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.model import KIND, Pod, object_key
from berth.policy.fields.spec_fields import GROUP as POLICY_GROUP
from berth.policy.fields.spec_fields import KIND as POLICY
from berth.scheduler.cache.cache import Cache
from berth.whatif.errors import CannotSimulate
from berth.whatif.workloads import GROUPS, Workload, controller_of

Body = Mapping[str, Any]

# What the API server reads when it creates pods and claims, by the API group of the kind.
ADMISSION_KINDS: Final[Mapping[str, str]] = {
    "Namespace": "",
    "LimitRange": "",
    "PriorityClass": "scheduling.k8s.io",
    "RuntimeClass": "node.k8s.io",
    "StorageClass": "storage.k8s.io",
}
CLUSTER_SCOPED: Final = frozenset(
    {"PriorityClass", "RuntimeClass", POLICY, *(kind.name for kind in KIND.values() if not kind.namespaced)}
)


class ClusterObjects:
    """See the module's text."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.policies: dict[str, Body] = {}
        self.admission: dict[str, dict[str, Body]] = {kind: {} for kind in ADMISSION_KINDS}  # by kind, then key
        self.workloads: dict[Workload, Body] = {}
        self.controllers: dict[Workload, Workload] = {}
        self.left_out: Counter[str] = Counter()  # objects of kinds that nothing here reads, by kind
        self.not_allowed: set[str] = set()  # kinds of `admission` that the user may not list

    def take(self, body: Body) -> None:
        """Takes an object in; one of a kind that nothing reads is counted in `left_out`."""
        kind, group = identify(body)
        body = with_allocatable(body) if kind == "Node" else body
        body = with_uid(body, kind)
        if ADMISSION_KINDS.get(kind) == group:
            self.admission[kind][object_key(body)] = body
        elif kind == POLICY and group == POLICY_GROUP:
            self.policies[object_key(body)] = body
        elif GROUPS.get(kind) == group and kind != "Pod":
            self._take_workload(kind, body)
        elif not is_read(kind, group):
            self.left_out[f"{kind}.{group}" if group else kind] += 1
        if is_read(kind, group):
            self.cache.observe(kind, body)

    def take_controller(self, kind: str, body: Body) -> None:
        """Notes who manages a ReplicaSet or a Job."""
        manager = controller_of(body)
        if manager is not None:
            self.controllers[_workload(kind, body)] = manager

    def _take_workload(self, kind: str, body: Body) -> None:
        self.workloads[_workload(kind, body)] = body
        self.take_controller(kind, body)

    def placed(self) -> Iterator[tuple[Pod, str]]:
        """Yields the pods that have a node, with its name, sorted by the node's name."""
        table = self.cache.state.table
        for name in sorted(table.names()):
            for pod in table.pods_on(name).values():
                yield pod, name


def identify(body: Body) -> tuple[str, str]:
    """Returns kind and API group, or raises CannotSimulate if the object is none."""
    kind, version, metadata = body.get("kind"), body.get("apiVersion"), body.get("metadata")
    if not isinstance(kind, str) or not isinstance(version, str):
        raise CannotSimulate(f"{object_key(body)}: apiVersion and kind are required: add them, as kubectl needs them")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise CannotSimulate(f"{kind} {object_key(body)}: metadata.name is required: give the object a name")
    return kind, version.rpartition("/")[0]


def is_read(kind: str, group: str) -> bool:
    """Whether decisions read objects of this kind."""
    return kind in KIND and KIND[kind].group == group


def with_uid(body: Body, kind: str) -> Body:
    """Returns the object with a UID, and with a namespace if its kind has one."""
    metadata = dict(body["metadata"])
    if kind not in CLUSTER_SCOPED:
        metadata.setdefault("namespace", "default")
    if not metadata.get("uid"):
        metadata["uid"] = f"{kind}/{object_key({'metadata': metadata})}"
    return body if metadata == body["metadata"] else {**body, "metadata": metadata}


def with_allocatable(node: Body) -> Body:
    """Returns a node with allocatable resources: those of its capacity if it has none, as the API server does it."""
    status = node.get("status")
    if not isinstance(status, Mapping) or status.get("allocatable") or not status.get("capacity"):
        return node
    return {**node, "status": {**status, "allocatable": status["capacity"]}}


def _workload(kind: str, body: Body) -> Workload:
    return Workload(kind, str(body["metadata"]["namespace"]), str(body["metadata"]["name"]))
