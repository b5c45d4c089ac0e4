"""State: everything that a scheduling decision reads, in one place.

Nodes and the pods on them are columns (`table`). All other kinds are records by key, "namespace/name" or "name". The
scheduler's cache writes the state, plugins read it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from berth.engine.state.node_table import NodeTable
from berth.engine.state.nominated_pods import NominatedPods
from berth.engine.state.owners import OWNER_KINDS, OwnerIndex
from berth.engine.state.pod_counts import LabelIndex
from berth.engine.state.volume_index import STORAGE_KINDS, VolumeIndex
from berth.model import KINDS, Claim, Namespace, Pod, Service, StorageClass, Volume, selector_from_labels


class State:
    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {kind.name: {} for kind in KINDS if kind.name not in ("Pod", "Node")}
        self.volumes = VolumeIndex(self)
        self.table = NodeTable(self.namespace_labels, self.volumes)
        self.owners = OwnerIndex()
        self.nominated: dict[str, dict[str, Pod]] = {}
        self._nominated_to: dict[str, str] = {}
        self.nominated_pods = NominatedPods(self.table, self.namespace_labels)  # the nominated pods as columns
        self.disrupting: dict[str, set[str]] = {}  # by budget key: UIDs of evicted pods that its status does not show
        self.changes = 0  # counts changes of objects that are neither nodes nor pods
        self.selectors_revision = 0  # moves with every change of a service, or of a controller that owns pods
        self._revisions: Counter[str] = Counter()
        self._services: dict[str, LabelIndex[str]] = {}  # keys, by namespace

    # --- objects -----------------------------------------------------------------------------------------------------

    def put(self, kind: str, key: str, record: Any, changed: bool = True) -> None:
        """Stores a new version of an object; without `changed`, it differs in nothing that decisions read."""
        before = self.objects[kind].get(key)
        self.objects[kind][key] = record
        if changed:
            self._changed(kind, key, before, record)

    def drop(self, kind: str, key: str) -> Any:
        """Removes an object, and returns its last version, or None if there was none."""
        before = self.objects[kind].pop(key, None)
        if before is not None:
            self._changed(kind, key, before, None)
        return before

    def revision(self, kind: str) -> int:
        """Returns a number that moves with every change of an object of this kind."""
        return self._revisions[kind]

    def _changed(self, kind: str, key: str, before: Any, after: Any) -> None:
        self._revisions[kind] += 1
        self.changes += 1
        if kind == "Namespace" and (before is None or after is None or before.labels != after.labels):
            self.table.counts.namespace_changed()
            self.table.terms.namespace_changed()
            self.nominated_pods.namespace_changed()
        elif kind == "Service":
            self.selectors_revision += 1
            self._index_service(key, before, after)
        elif kind in OWNER_KINDS:
            self.selectors_revision += 1
            self.owners.changed(kind, key, after)
        elif kind in STORAGE_KINDS:
            self.volumes.changed(kind, key)

    # --- reading -----------------------------------------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> Claim | None:
        return self.objects["PersistentVolumeClaim"].get(f"{namespace}/{name}")

    def volume(self, name: str) -> Volume | None:
        return self.objects["PersistentVolume"].get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.objects["StorageClass"].get(name)

    def namespace(self, name: str) -> Namespace | None:
        return self.objects["Namespace"].get(name)

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        namespace = self.namespace(name)
        return None if namespace is None else namespace.labels

    def services_of(self, pod: Pod) -> Iterator[Service]:
        """Yields the services whose selector matches the pod, sorted by name."""
        index = self._services.get(pod.namespace)
        for key in sorted(index.candidates(pod.labels)) if index is not None else ():
            service: Service = self.objects["Service"][key]
            if all(pod.labels.get(label) == value for label, value in service.selector.items()):
                yield service

    def _index_service(self, key: str, before: Service | None, after: Service | None) -> None:
        """Indexes a service by the labels that its selector requires; without a selector it matches no pod."""
        if before is not None and before.selector:
            index = self._services[before.namespace]
            index.discard(key, (selector_from_labels(before.selector),))
            if not index:
                del self._services[before.namespace]
        if after is not None and after.selector:
            index = self._services.setdefault(after.namespace, LabelIndex())
            index.add(key, (selector_from_labels(after.selector),))

    # --- nominations -------------------------------------------------------------------------------------------------

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Nominates the pod to the node on which preemption makes room for it: others must count it there."""
        self.withdraw(pod.uid)
        self.nominated.setdefault(node_name, {})[pod.uid] = pod
        self._nominated_to[pod.uid] = node_name
        self.nominated_pods.add(pod, node_name)

    def nominated_node(self, uid: str) -> str:
        """Returns the name of the node that the pod is nominated to, "" if it is nominated to none."""
        return self._nominated_to.get(uid, "")

    def withdraw(self, uid: str) -> None:
        """Clears the nomination of the pod, if it has one."""
        node_name = self._nominated_to.pop(uid, None)
        if node_name is not None:
            self.nominated_pods.remove(uid)
            del self.nominated[node_name][uid]
            if not self.nominated[node_name]:
                del self.nominated[node_name]
