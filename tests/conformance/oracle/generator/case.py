"""A case under construction: its random stream, its objects, nodes and pods, and its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

Body = dict[str, Any]
T = TypeVar("T")

ZONES = ["z1", "z2", "z3"]
REGION = "r1"
APPS = ["web", "db", "cache", "batch"]
NAMESPACES = ["default", "team-a", "team-b"]
NODE_LABELS = {"disk": ["ssd", "hdd"], "gen": ["1", "2", "10", "x"], "arch": ["amd64", "arm64"]}
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
TAINTED = ("dedicated", "gpu", "spot")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
SIDE_IMAGE = "registry.example/side"
MEBIBYTE = 1024**2

QUANTITIES = {
    "cpu": ["50m", "100m", "250m", "500m", "1", "1500m", "0"],
    "memory": ["64Mi", "128Mi", "500M", "512Mi", "1Gi", "1.5Gi", "2e9", "0"],
    "ephemeral-storage": ["1Gi", "4Gi", "100Mi"],
}


class Case:
    """One cluster, with the random stream that shapes it."""

    def __init__(self, theme: str, seed: str, number: int, size: int) -> None:
        self.random = Random(f"{theme}/{seed}/{number}")
        self.id = f"{theme}-{seed}-{number}"
        self.size = size
        self.objects: list[Body] = []
        self.nodes: list[Body] = []
        self.serial = 0
        self.args: dict[str, Body] = {}
        self.weights: dict[str, int] = {}
        self.plugins: Body = {}
        self.policy: Body | None = None
        for namespace in NAMESPACES:
            labels = {"team": namespace, "kubernetes.io/metadata.name": namespace}
            self.add("v1", "Namespace", namespace, None, labels=labels)

    # --- draws -------------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def some(self, choices: Sequence[T], least: int = 0, most: int | None = None) -> list[T]:
        return self.random.sample(choices, self.random.randint(least, min(len(choices), most or len(choices))))

    def number(self, lowest: int, highest: int) -> int:
        return self.random.randint(lowest, highest)

    def node_name(self) -> str:
        return str(self.pick(self.nodes)["metadata"]["name"])

    # --- objects -----------------------------------------------------------------------------------------------------

    def add(
        self,
        version: str,
        kind: str,
        name: str,
        namespace: str | None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **body: Any,
    ) -> Body:
        metadata: Body = {"name": name, "uid": f"{kind.lower()}-{name}"}
        for field, value in (("namespace", namespace), ("labels", labels), ("annotations", annotations)):
            if value:
                metadata[field] = value
        made = {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
        self.objects.append(made)
        return made

    def owner(self, kind: str, namespace: str, app: str) -> None:
        """A workload object called "own" that owns the pods of an app."""
        if kind == "ReplicationController":
            self.add("v1", kind, "own", namespace, spec={"selector": {"app": app}})
            return
        template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": []}}
        spec = {"selector": {"matchLabels": {"app": app}}, "template": template}
        self.add("apps/v1", kind, "own", namespace, spec=spec)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def make_nodes(
        self,
        cpu: Sequence[int] = (2, 4, 8),
        memory: Sequence[int] = (4, 8, 16),
        extended: float = 0.2,
        missing: float = 0.1,
    ) -> None:
        """`extended` is the chance of a GPU, `missing` that of a node without zone, or without rack."""
        for index in range(self.number(3, self.size)):
            name = f"n{index:02d}"
            labels = self._node_labels(name, missing)
            room = self._room(cpu, memory, extended)
            status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
            self.nodes.append(self.add("v1", "Node", name, None, labels=labels, spec={}, status=status))

    def _node_labels(self, name: str, missing: float) -> dict[str, str]:
        labels = {HOSTNAME: name, "topology.kubernetes.io/region": REGION}
        if not self.chance(missing):
            labels[ZONE] = self.pick(ZONES)
        if not self.chance(missing):
            labels["rack"] = f"rack{self.number(0, 4)}"
        for key, values in NODE_LABELS.items():
            if self.chance(0.6):
                labels[key] = self.pick(values)
        return labels

    def _room(self, cpu: Sequence[int], memory: Sequence[int], extended: float) -> dict[str, str]:
        room = {
            "cpu": str(self.pick(cpu)),
            "memory": f"{self.pick(memory)}Gi",
            "pods": str(self.pick([5, 10, 110])),
            "ephemeral-storage": f"{self.pick([10, 50])}Gi",
        }
        if self.chance(extended):
            room["example.com/gpu"] = str(self.number(1, 4))
        return room

    def taint_nodes(self, probability: float) -> None:
        for node in self.nodes:
            taints = [
                {"key": key, "value": self.pick(["a", "b", ""]), "effect": self.pick(EFFECTS)}
                for key in TAINTED
                if self.chance(probability * 0.5)
            ]
            if self.chance(0.1):
                node["spec"]["unschedulable"] = True
                taints.append({"key": UNSCHEDULABLE, "effect": "NoSchedule"})
            if taints:
                node["spec"]["taints"] = taints

    def image_nodes(self) -> None:
        images = [f"registry.example/{app}:v{version}" for app in APPS for version in (1, 2)]
        images.append(f"{SIDE_IMAGE}:latest")
        for node in self.nodes:
            node["status"]["images"] = [
                {
                    "names": [image, image.split(":")[0] + "@sha256:" + "0" * 64],
                    "sizeBytes": self.number(5, 1500) * MEBIBYTE,
                }
                for image in self.some(images, 0, 5)
            ]

    # --- pods --------------------------------------------------------------------------------------------------------

    def quantity(self, resource: str) -> str:
        return self.pick(QUANTITIES[resource]) if resource in QUANTITIES else str(self.number(0, 2))

    def requests(self, rich: bool = False) -> dict[str, str]:
        chances = {
            "cpu": 0.8,
            "memory": 0.8,
            "ephemeral-storage": 0.3 if rich else 0.05,
            "example.com/gpu": 0.15 if rich else 0.02,
        }
        return {name: self.quantity(name) for name, probability in chances.items() if self.chance(probability)}

    def pod(
        self,
        node: str | None = None,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        rich: bool = False,
        requests: Mapping[str, str] | None = None,
        priority: int | None = None,
    ) -> Body:
        """A pod, on the node if one is given; `rich` ones may have more containers, overhead and pod-level requests."""
        self.serial += 1
        serial = self.serial
        namespace = namespace or (self.pick(NAMESPACES) if self.chance(0.4) else "default")
        labels = self._pod_labels() if labels is None else labels
        metadata = {
            "name": f"p{serial:03d}",
            "namespace": namespace,
            "uid": f"pod-{serial:03d}",
            "labels": labels,
            "creationTimestamp": f"2026-01-01T00:{serial // 60:02d}:{serial % 60:02d}Z",
        }
        spec = self._pod_spec(labels.get("app", "web"), rich, requests)
        if priority is not None:
            spec["priority"] = priority
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        if node:
            self._run(made, node)
        return made

    def _pod_labels(self) -> dict[str, str]:
        labels = {"app": self.pick(APPS)}
        if self.chance(0.5):
            labels["tier"] = self.pick("12")
        if self.chance(0.5):
            labels["rev"] = self.pick(["r1", "r2"])
        return labels

    def _pod_spec(self, app: str, rich: bool, requests: Mapping[str, str] | None) -> Body:
        image = f"registry.example/{app}:v{self.number(1, 2)}"
        containers = [self._container("main", image, self.requests(rich) if requests is None else requests)]
        if rich and self.chance(0.4):
            containers.append(self._container("side", SIDE_IMAGE, self.requests(rich)))
        spec: Body = {"containers": containers, "schedulerName": "default-scheduler"}
        if rich and self.chance(0.3):
            spec["initContainers"] = [self._init_container(index) for index in range(self.number(1, 3))]
        if rich and self.chance(0.15):
            spec["overhead"] = {"cpu": "50m", "memory": "100Mi"}
        if rich and self.chance(0.15):
            spec["resources"] = {"requests": {"cpu": self.pick(["1", "2"]), "memory": self.pick(["1Gi", "3Gi"])}}
        return spec

    def _container(self, name: str, image: str, requests: Mapping[str, str]) -> Body:
        return {"name": name, "image": image, "resources": {"requests": requests}}

    def _init_container(self, index: int) -> Body:
        made = self._container(f"init{index}", f"{SIDE_IMAGE}:latest", self.requests(rich=True))
        return made | ({"restartPolicy": "Always"} if self.chance(0.4) else {})

    def _run(self, pod: Body, node: str) -> None:
        pod["spec"]["nodeName"] = node
        started = f"2026-01-01T01:{self.number(0, 59):02d}:{self.number(0, 59):02d}Z"
        pod["status"] = {"phase": "Running", "startTime": started}
        if self.chance(0.06):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
            pod["metadata"]["finalizers"] = ["example.com/wait"]

    def populate(self, count: int | None = None, shape: Callable[[Body], object] | None = None, **kind: Any) -> None:
        """Running pods on random nodes; `shape` may change each."""
        for _ in range(self.number(0, 3 * len(self.nodes)) if count is None else count):
            pod = self.pod(self.node_name(), **kind)
            if shape:
                shape(pod)
            self.objects.append(pod)

    # --- configuration -----------------------------------------------------------------------------------------------

    def config(self) -> Body:
        if self.policy:
            return {"apiVersion": "v1", "kind": "Policy", **self.policy}
        version = "kubescheduler.config.k8s.io/v1"
        profile: Body = {"schedulerName": "default-scheduler"}
        if self.args:
            profile["pluginConfig"] = [
                {"name": name, "args": {"apiVersion": version, "kind": f"{name}Args", **args}}
                for name, args in sorted(self.args.items())
            ]
        if self.weights:
            weighed = [{"name": name, "weight": weight} for name, weight in sorted(self.weights.items())]
            profile["plugins"] = {"multiPoint": {"enabled": weighed}}
        if self.plugins:
            profile["plugins"] = self.plugins
        return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
