"""State: everything that a decision reads, in one place.

Nodes and the pods on them are columns (`table`); all other kinds are records under their keys, "namespace/name" or
"name". The cache writes it, plugins read it.
"""

from collections.abc import Iterator
from typing import Any

from berth.engine.table import NodeTable
from berth.model import KINDS, Claim, Namespace, Pod, Service, StorageClass, Volume


class State:
    def __init__(self) -> None:
        self.table = NodeTable()
        self.objects: dict[str, dict[str, Any]] = {kind.name: {} for kind in KINDS if kind.name not in ("Pod", "Node")}

    def claim(self, namespace: str, name: str) -> Claim | None:
        return self.objects["PersistentVolumeClaim"].get(f"{namespace}/{name}")

    def volume(self, name: str) -> Volume | None:
        return self.objects["PersistentVolume"].get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.objects["StorageClass"].get(name)

    def namespace(self, name: str) -> Namespace | None:
        return self.objects["Namespace"].get(name)

    def services_of(self, pod: Pod) -> Iterator[Service]:
        """The services whose selector matches the pod."""
        for service in self.objects["Service"].values():
            mine = service.namespace == pod.namespace and service.selector
            if mine and all(pod.labels.get(key) == value for key, value in service.selector.items()):
                yield service
