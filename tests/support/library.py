"""The policies of policies/, each with a small cluster on which it does what it is there for.

A `Scene` has the nodes, what is on them, the pods in the order in which they come, and what the policy promises of the
places that they get. `play` decides offline, with the engine; the end-to-end tests make the same pods on an API server.

A pod's name begins with its sign, one letter for all pods of its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import yaml

from berth.engine.pipeline import Placement
from berth.engine.testing import cluster
from berth.model import parse_pod
from berth.policy import PolicyStore
from support.builders import Body, make_node, make_object, make_pod

FOLDER = Path(__file__).parents[2] / "policies"
SERVED = "berth"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
AVOID = "scheduler.alpha.kubernetes.io/preferAvoidPods"

Places = Sequence[tuple[str, str]]  # the sign of each pod with its node, "" where it waits


@dataclass(frozen=True)
class Scene:
    """`bar`: what a sign in a picture of a node stands for, and how much of it."""

    policy: str
    title: str
    promise: Callable[[Places], bool]
    nodes: Sequence[Body]
    pods: Sequence[Body]
    there: Sequence[Body] = ()  # pods that run already, and whatever else there is
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bar: tuple[str, str] = ("cpu", "1")

    @property
    def scheduler_name(self) -> str:
        name: str = read_policies(self.policy)[0]["spec"]["schedulerName"]
        return name


def read_policies(name: str) -> list[dict[str, Any]]:
    """The manifests of a file of the library."""
    return [*yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def make_store(policies: Sequence[dict[str, Any]], **spec: Any) -> PolicyStore:
    """With these policies in force as an API server would show them; `spec` is added where they are silent."""
    store = PolicyStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for manifest in policies:
        metadata = {**manifest["metadata"], "uid": f"uid-{manifest['metadata']['name']}", "generation": 1}
        store.observe({**manifest, "metadata": metadata, "spec": {**spec, **manifest["spec"]}})
    return store


def play(scene: Scene, store: PolicyStore, scheduler_name: str, seed: int = 0) -> Places:
    """Where the pods go, one after the other, when they ask for this scheduler name."""
    state, random = cluster([*scene.nodes, *scene.there]), Random(seed)
    places = []
    for body in scene.pods:
        pod = parse_pod({**body, "spec": {**body["spec"], "schedulerName": scheduler_name}})
        active = store.for_pod(pod, scene.namespaces.get(pod.namespace, {}))
        assert active is not None, f"{pod.name} is nobody's"
        verdict = active.pipeline.decide(pod, state, random)
        node = verdict.node if isinstance(verdict, Placement) else ""
        if node:
            state.table.add_pod(pod, node)
        places.append((sign_of(body), node))
    return places


def sign_of(body: Body) -> str:
    return str(body["metadata"]["name"][0])


def by_node(places: Places) -> Mapping[str, Counter[str]]:
    """How many pods of each sign a node has; "" has those that wait."""
    found: dict[str, Counter[str]] = {}
    for sign, node in places:
        found.setdefault(node, Counter())[sign] += 1
    return found


# --- the scenes ------------------------------------------------------------------------------------------------------


def _node(name: str, units: int = 8, **node: Any) -> Body:
    """Cpu and memory in one proportion, so that no node is more balanced than another."""
    labels = {HOSTNAME: name, **node.pop("labels", {})}
    return make_node(name, cpu=units, memory=f"{units * 4}Gi", labels=labels, **node)


def _pods(sign: str, count: int, units: int = 1, *, start: int = 1, **pod: Any) -> list[Body]:
    return [
        make_pod(f"{sign}-{number}", cpu=units, memory=f"{units * 4}Gi", **pod)
        for number in range(start, start + count)
    ]


def _with_gpus(count: int, pods: Sequence[Body]) -> Sequence[Body]:
    """Requested and limited, as the API server insists for such resources."""
    for pod in pods:
        resources = pod["spec"]["containers"][0]["resources"]
        resources["requests"][GPU] = resources.setdefault("limits", {})[GPU] = str(count)
    return pods


def _owned(kind: str, version: str) -> dict[str, Any]:
    owner = {"apiVersion": version, "kind": kind, "name": "web", "uid": f"{kind.lower()}-web", "controller": True}
    return {"labels": {"app": "web"}, "owner": owner}


def _owner(kind: str, version: str, selector: Mapping[str, Any]) -> Body:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:v1"}]},
    }
    spec = {"replicas": 0, "selector": selector, "template": template}
    return {**make_object(kind, "web", namespace="default", spec=spec), "apiVersion": version}


def _spread_evenly(places: Places) -> bool:
    return sorted(node for _, node in places) == sorted(["free-1", "free-2"] * 4)


def _packed(places: Places) -> bool:
    return sorted(Counter(node for _, node in places).values()) == [2, 8]


def _two_in_each_zone(places: Places) -> bool:
    return Counter(node[0] for _, node in places) == Counter(a=2, b=2, c=2)


def _cheapest_first(places: Places) -> bool:
    return by_node(places) == {
        "spot-20": Counter(p=8),
        "spot-40": Counter(p=2),
        "fixed-60": Counter(k=2),
    }


def _room_for_the_big_one(places: Places) -> bool:
    found = by_node(places)
    dense = [dict(signs) for node, signs in found.items() if node.startswith("gpu-")]
    plain = [dict(signs) for node, signs in found.items() if node.startswith("plain-")]
    return len(found) == 3 and sorted(dense, key=str) == [{"g": 3}, {"j": 1}] and plain == [{"w": 4}]


def _each_in_its_tier(places: Places) -> bool:
    return {(sign, node.rpartition("-")[0]) for sign, node in places} == {("b", "high"), ("s", "usual")}


def _by_conditions(places: Places) -> bool:
    return Counter(node for _, node in places) == Counter({"good-1": 3, "good-2": 3})


def _teams(places: Places) -> bool:
    found = {node: dict(signs) for node, signs in by_node(places).items()}
    serving = sorted((found.pop(node) for node in ("serving-1", "serving-2")), key=len)
    return found == {"work-1": {"b": 8}, "": {"b": 1}} and serving == [{"d": 2}, {"d": 2, "u": 2}]


REPLICAS = _owned("ReplicaSet", "apps/v1")
CONTROLLED = _owned("ReplicationController", "v1")
AVOIDED = (
    '{"preferAvoidPods": [{"podSignature": {"podController": {"apiVersion": "v1", "kind": "ReplicationController", '
    '"name": "web", "uid": "replicationcontroller-web", "controller": true}}}]}'
)

SCENES = {
    scene.policy: scene
    for scene in (
        Scene(
            "default",
            "8 pods (p) come to 4 nodes, one half full (x), one cordoned",
            _spread_evenly,
            [_node("busy"), _node("cordoned", unschedulable=True), _node("free-1"), _node("free-2")],
            _pods("p", 8),
            there=_pods("x", 4, node="busy"),
        ),
        Scene(
            "binpack",
            "10 pods (p) come to 4 empty nodes",
            _packed,
            [_node(f"node-{number}") for number in range(1, 5)],
            _pods("p", 10),
        ),
        Scene(
            "spread-zones",
            "6 pods (p) of one ReplicaSet come to 3 zones; in zone c there is one node, and it is busy (x)",
            _two_in_each_zone,
            [_node(name, labels={ZONE: name[0]}) for name in ("a-1", "a-2", "a-3", "b-1", "b-2", "c-1")],
            _pods("p", 6, **REPLICAS),
            there=[
                _owner("ReplicaSet", "apps/v1", {"matchLabels": {"app": "web"}}),
                *_pods("x", 5, node="c-1", labels={"app": "other"}),
            ],
        ),
        Scene(
            "cost-saver",
            "2 pods that must not be interrupted (k) and 10 others (p) come to nodes named after kind and price",
            _cheapest_first,
            [
                _node("fixed-60", labels={"example.com/price": "60"}),
                _node("fixed-80", labels={"example.com/price": "80"}),
                _node("spot-20", labels={"example.com/price": "20", "example.com/capacity": "spot"}),
                _node("spot-40", labels={"example.com/price": "40", "example.com/capacity": "spot"}),
            ],
            [*_pods("k", 2, labels={"example.com/interruptible": "false"}), *_pods("p", 10)],
        ),
        Scene(
            "gpu-dense",
            "3 pods with a GPU each (g), 4 without (w), a job with four (j) come to 3 nodes with 4 GPUs, 2 without",
            _room_for_the_big_one,
            [
                *(_node(f"gpu-{number}", extended={GPU: 4}) for number in (1, 2, 3)),
                *(_node(f"plain-{number}") for number in (1, 2)),
            ],
            [*_with_gpus(1, _pods("g", 3)), *_pods("w", 4), *_with_gpus(4, _pods("j", 1, 4))],
        ),
        Scene(
            "memory-tiered",
            "8 small pods (s) and 3 big ones (b) come to nodes of two sizes; a sign is 8Gi",
            _each_in_its_tier,
            [
                _node("high-1", 32, labels={"example.com/memory-tier": "high"}),
                *(_node(f"usual-{number}", 16) for number in (1, 2)),
            ],
            [*_pods("s", 8, 2), *_pods("b", 3, 8)],
            bar=("memory", "8Gi"),
        ),
        Scene(
            "legacy-1.9",
            "6 pods (p) of a ReplicationController come to 4 nodes; one is not ready, one asks not to get them",
            _by_conditions,
            [
                _node("asks-not", annotations={AVOID: AVOIDED}),
                _node("good-1"),
                _node("good-2"),
                _node("not-ready", ready=False),
            ],
            _pods("p", 6, **CONTROLLED),
            there=[_owner("ReplicationController", "v1", {"app": "web"})],
        ),
        Scene(
            "team-namespaces",
            "9 pods of the batch team (b), 4 of others (d) and 2 urgent ones of the batch team (u) come to 3 nodes",
            _teams,
            [
                *(_node(f"serving-{number}", labels={"example.com/serving": "true"}) for number in (1, 2)),
                _node("work-1"),
            ],
            [
                *_pods("b", 9, namespace="crunch"),
                *_pods("d", 4, namespace="shop"),
                *_pods("u", 2, namespace="crunch", labels={"urgent": "true"}),
            ],
            namespaces={"crunch": {"team": "batch"}, "shop": {}},
        ),
        Scene(
            "shadow-canary",
            "6 pods (p) come to 3 empty nodes",
            lambda places: sorted(Counter(node for _, node in places).values()) == [2, 2, 2],
            [_node(f"node-{number}") for number in range(1, 4)],
            _pods("p", 6),
        ),
    )
}
