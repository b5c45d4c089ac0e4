"""Everybody else in the cluster: users, node operators, another scheduler, DaemonSets, kubelets, administrators.

Each act is one change of the store, at a moment that chance chooses. How likely which act is differs from seed to seed.
Acts prefer pods that Berth is about to bind, because that is when they hurt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from random import Random
from typing import Any

from berth.model import object_key, parse_node, parse_pod
from berth.sim.errors import StatusError
from berth.sim.resources import BUDGETS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, Resource
from berth.sim.store import Object
from berth.sim.virtual_clock import START
from simulation.budgets import keep_budgets
from simulation.policies import POLICY_NAMES, REFUSING_LABEL, draw_policy, spoil
from simulation.recording import RecordingStore
from simulation.volumes import Volumes

NAMESPACE_NAMES = ("red", "blue")
ZONES = ("east", "west")
APPS = ("web", "db", "job")
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}
CPUS = ("100m", "250m", "500m", "500m", "1", "1500m", "3500m")
MOST_NODES = 9
MOST_PODS = 45
FINISHED = ("Succeeded", "Failed")
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Actors:
    """`under_way` gives the keys of pods that are being bound at the moment, `held` the nodes that pods were given and
    are not bound to yet.
    """

    def __init__(
        self,
        seed: object,
        store: RecordingStore,
        under_way: Callable[[], list[str]],
        held: Callable[[], Collection[str]] = tuple,
        *,
        has_volumes: bool = False,
    ) -> None:
        self.random = Random(f"actors/{seed}")
        self.counts: Counter[str] = Counter()
        self._store = store
        self._under_way = under_way
        self._held = held
        self._volumes = Volumes(Random(f"volumes/{seed}"), store) if has_volumes else None
        self._struck = False  # a node that a pod was given, and is not bound to yet
        self._names = 0
        self._started = 0
        self._extended = self.random.random() < 0.4
        self._acts: dict[Callable[[], bool], float] = {}
        for act, weight in self._all_acts().items():
            if self.random.random() < 0.75:
                self._acts[act] = weight * self.random.choice((0.3, 1.0, 3.0))
        self._acts[self.create_pod] = max(self._acts.get(self.create_pod, 0.0), 12.0)

    def _all_acts(self) -> dict[Callable[[], bool], float]:
        volumes = self._volumes
        more: dict[Callable[[], bool], float] = {}
        if volumes is not None:
            more = {volumes.delete_claim: 2.0, volumes.add_volume: 1.5, volumes.remove_volume: 0.8}
        return {
            **more,
            self.create_pod: 16.0,
            self.delete_pod: 5.0,
            self.recreate_pod: 4.0,
            self.ungate_pod: 3.0,
            self.relabel_pod: 2.0,
            self.tolerate: 2.0,
            self.resize_pod: 2.5,
            self.bind_foreign_pod: 2.0,
            self.steal_pod: 1.5,
            self.run_daemon: 1.5,
            self.add_node: 1.5,
            self.remove_node: 0.8,
            self.replace_node: 0.8,
            self.resize_node: 2.0,
            self.taint_node: 1.5,
            self.cordon_node: 1.0,
            self.relabel_node: 1.5,
            self.edit_policy: 1.5,
            self.spoil_policy: 0.7,
            self.delete_policy: 0.5,
            self.relabel_namespace: 0.7,
            self.budget: 1.5,
        }

    # --- the play ----------------------------------------------------------------------------------------------------

    def furnish(self) -> None:
        """What is there before Berth is."""
        for name in NAMESPACE_NAMES:
            labels = {"team": self.random.choice("xyz")}
            self._store.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        for name, value in PRIORITIES.items():
            self._store.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        for _ in range(self.random.randint(2, 6)):
            self.add_node()
        if self._volumes is not None:
            self._volumes.furnish()
        for _ in range(self.random.randint(0, 10)):
            self.create_pod()
        if self.random.random() < 0.5:
            self.edit_policy()

    def act(self) -> None:
        act = self.random.choices(list(self._acts), list(self._acts.values()))[0]
        self._struck = False
        try:
            if act():
                self.counts[act.__name__.replace("_", " ")] += 1
                if self._struck:
                    self.counts[f"{act.__name__.replace('_', ' ')} between filter and bind"] += 1
        except StatusError as error:  # an act that the API server refuses
            self.counts[f"refused {error.code}"] += 1

    # --- users -------------------------------------------------------------------------------------------------------

    def create_pod(self) -> bool:
        if len(self._pods()) >= MOST_PODS:
            return False
        self._names += 1
        namespace = self.random.choice(NAMESPACE_NAMES)
        body = self._draw_pod(f"pod-{self._names}", namespace)
        for number in range(self.random.choice((1, 1, 1, 3))):
            made = {**body, "metadata": {**body["metadata"], "name": f"{body['metadata']['name']}-{number}"}}
            self._store.create(PODS, made, namespace=namespace)
        return True

    def delete_pod(self) -> bool:
        pod = self._pick(self._pods())
        if pod is None:
            return False
        self._delete(pod, self.random.choice((None, 0, 0)))
        return True

    def recreate_pod(self) -> bool:
        """Deleted and made again under its name in one moment."""
        pod = self._pick(pod for pod in self._pods() if not pod["metadata"].get("deletionTimestamp"))
        if pod is None:
            return False
        self._delete(pod, 0)
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self._store.create(PODS, self._draw_pod(name, namespace), namespace=namespace)
        return True

    def ungate_pod(self) -> bool:
        pod = self._choose(pod for pod in self._pods() if pod["spec"].get("schedulingGates"))
        return self._patch(PODS, pod, {"spec": {"schedulingGates": None}})

    def relabel_pod(self) -> bool:
        labels = {"app": self.random.choice(APPS), "tier": self.random.choice(("gold", None))}
        return self._patch(PODS, self._pick(self._pods()), {"metadata": {"labels": labels}})

    def tolerate(self) -> bool:
        pod = self._pick(pod for pod in self._pods() if not pod["spec"].get("nodeName"))
        if pod is None:
            return False
        tolerations = [*(pod["spec"].get("tolerations") or ()), {"key": "sick", "operator": "Exists"}]
        return self._patch(PODS, pod, {"spec": {"tolerations": tolerations}})

    def resize_pod(self) -> bool:
        """What it asks for is changed in place; what it has is what the kubelet makes of it, later."""
        running = (pod for pod in self._pods() if pod["status"].get("phase") == "Running")
        pod = self._choose(pod for pod in running if not pod["metadata"].get("deletionTimestamp"))
        if pod is None:
            return False
        if not pod["status"].get("containerStatuses"):
            self._report_resources(pod, pod["spec"]["containers"][0]["resources"]["requests"])
        container = pod["spec"]["containers"][0]
        asked = {**container["resources"]["requests"], "cpu": self.random.choice(CPUS)}
        resized = {**container, "resources": {**container["resources"], "requests": asked}}
        return self._patch(PODS, pod, {"spec": {"containers": [resized]}}, "resize")

    def _draw_pod(self, name: str, namespace: str) -> Object:
        random = self.random
        app = random.choice(APPS)
        spec: Object = {
            "schedulerName": random.choices(("berth", "batch", "foreign"), (8, 3, 1))[0],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/app:v1",
                    "resources": {
                        "requests": {
                            "cpu": random.choice(CPUS),
                            "memory": random.choice(("64Mi", "256Mi", "1Gi")),
                        }
                    },
                }
            ],
            "priorityClassName": random.choice(list(PRIORITIES)),
            "terminationGracePeriodSeconds": random.choice((0, 5, 30)),
        }
        if random.random() < 0.12:
            spec["schedulingGates"] = [{"name": "simulation.berth.dev/wait"}]
        if random.random() < 0.15:
            spec["nodeSelector"] = {ZONE: random.choice(ZONES)}
        if random.random() < 0.15:
            spec["tolerations"] = [{"key": "sick", "operator": "Exists"}]
        if random.random() < 0.1:
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": random.choice((8080, 8081))}]
        if random.random() < 0.15:
            spec["affinity"] = _affinity(
                random.choice(("podAntiAffinity", "podAffinity")), app, random.choice((HOST, ZONE))
            )
        if random.random() < 0.15:
            spec["topologySpreadConstraints"] = [_spread(app)]
        if self._volumes is not None and random.random() < 0.5:
            spec["volumes"] = [self._volumes.claim_for(namespace)]
        labels = {"app": app, **({"tier": "gold"} if random.random() < 0.3 else {})}
        return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}

    # --- rivals ------------------------------------------------------------------------------------------------------

    def bind_foreign_pod(self) -> bool:
        """The other scheduler looks at nothing."""
        return self._bind(self._choose(pod for pod in self._unbound() if pod["spec"]["schedulerName"] == "foreign"))

    def steal_pod(self) -> bool:
        """Somebody binds a pod that is ours."""
        return self._bind(self._pick(pod for pod in self._unbound() if pod["spec"]["schedulerName"] != "foreign"))

    def run_daemon(self) -> bool:
        """A pod that comes with its node."""
        node = self._choose(self._nodes())
        if node is None or len(self._pods()) >= MOST_PODS:
            return False
        self._names += 1
        body = self._draw_pod(f"daemon-{self._names}", "red")
        for name in ("schedulingGates", "affinity", "topologySpreadConstraints"):
            body["spec"].pop(name, None)
        body["spec"]["nodeName"] = node["metadata"]["name"]
        self._store.create(PODS, body, namespace="red")
        return True

    def _bind(self, pod: Object | None) -> bool:
        node = self._choose(self._nodes())
        if pod is None or node is None:
            return False
        metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        target = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        self._store.bind(metadata["namespace"], metadata["name"], binding)
        return True

    # --- nodes -------------------------------------------------------------------------------------------------------

    def add_node(self) -> bool:
        taken = {node["metadata"]["name"] for node in self._nodes()}
        free = [name for name in (f"node-{number}" for number in range(MOST_NODES)) if name not in taken]
        if not free:
            return False
        self._make_node(self.random.choice(free))
        return True

    def remove_node(self) -> bool:
        node = self._choose_node()
        if node is None or len(self._nodes()) < 2:
            return False
        self._remove_node(node)
        return True

    def replace_node(self) -> bool:
        """Deleted and made again under its name, with what was on it or without."""
        node = self._choose_node()
        if node is None:
            return False
        self._remove_node(node)
        self._make_node(node["metadata"]["name"])
        return True

    def resize_node(self) -> bool:
        room = self._draw_room()
        patch = {"status": {"allocatable": room, "capacity": room}}
        return self._patch(NODES, self._choose_node(), patch, "status")

    def taint_node(self) -> bool:
        effect = self.random.choice(("NoSchedule", "NoExecute"))
        taints = self.random.choice(([], [], [{"key": "sick", "value": "yes", "effect": effect}]))
        return self._patch(NODES, self._choose_node(), {"spec": {"taints": taints or None}})

    def cordon_node(self) -> bool:
        return self._patch(NODES, self._choose_node(), {"spec": {"unschedulable": self.random.random() < 0.4 or None}})

    def relabel_node(self) -> bool:
        labels = {
            ZONE: self.random.choice(ZONES),
            "retiring": self.random.choice(("yes", None, None)),
            REFUSING_LABEL: self.random.choice(("no", None, None)),
        }
        return self._patch(NODES, self._choose_node(), {"metadata": {"labels": labels}})

    def _make_node(self, name: str) -> None:
        labels = {HOST: name, ZONE: self.random.choice(ZONES)}
        room = self._draw_room()
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        self._store.create(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})

    def _remove_node(self, node: Object) -> None:
        self._store.delete(NODES, "", node["metadata"]["name"])
        if self.random.random() < 0.5:
            for pod in self._pods():
                if pod["spec"].get("nodeName") == node["metadata"]["name"]:
                    self._delete(pod, 0)

    def _draw_room(self) -> Object:
        cpu, pods = self.random.choice(("1", "2", "3", "4")), self.random.choice(("4", "8", "110"))
        return {"cpu": cpu, "memory": self.random.choice(("2Gi", "4Gi")), "pods": pods}

    # --- administrators ----------------------------------------------------------------------------------------------

    @property
    def _policy_kind(self) -> Resource:
        found = self._store.find("berth.dev", "v1alpha1", "schedulingpolicies")
        assert found is not None
        return found

    def edit_policy(self) -> bool:
        """Written anew, or for the first time; its scheduler name stays."""
        name = self.random.choice(POLICY_NAMES)
        before = self._policy(name)
        scheduler_name = before["spec"]["schedulerName"] if before else ""
        body = draw_policy(self.random, name, extended=self._extended, scheduler_name=scheduler_name)
        self._write_policy(before, body)
        return True

    def spoil_policy(self) -> bool:
        name = self.random.choice(POLICY_NAMES)
        before = self._policy(name)
        if before is None and self.random.random() < 0.7:
            return False
        body = before or draw_policy(self.random, name, extended=False)
        self._write_policy(before, spoil(self.random, body))
        return True

    def delete_policy(self) -> bool:
        policy = self._choose(self._store.list(self._policy_kind).items)
        if policy is None:
            return False
        self._store.delete(self._policy_kind, "", policy["metadata"]["name"])
        return True

    def relabel_namespace(self) -> bool:
        name = self.random.choice(NAMESPACE_NAMES)
        labels = {"team": self.random.choice("xyz")}
        return self._patch(NAMESPACES, self._store.get(NAMESPACES, "", name), {"metadata": {"labels": labels}})

    def budget(self) -> bool:
        """A disruption budget comes or goes."""
        namespace, name = self.random.choice(NAMESPACE_NAMES), f"budget-{self.random.choice(APPS)}"
        there = [body for body in self._store.list(BUDGETS, namespace).items if body["metadata"]["name"] == name]
        if there:
            self._store.delete(BUDGETS, namespace, name)
            return True
        selector = {"matchLabels": {"app": name.removeprefix("budget-")}}
        spec = {"minAvailable": self.random.choice((1, 1, 2, 4)), "selector": selector}
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        self._store.create(BUDGETS, body, namespace=namespace)
        return True

    def _policy(self, name: str) -> Object | None:
        found = [body for body in self._store.list(self._policy_kind).items if body["metadata"]["name"] == name]
        return found[0] if found else None

    def _write_policy(self, before: Object | None, body: Object) -> None:
        if before is None:
            self._store.create(self._policy_kind, body)
            return
        version = {"resourceVersion": before["metadata"]["resourceVersion"]}
        self._store.replace(
            self._policy_kind, "", body["metadata"]["name"], {**body, "metadata": {**body["metadata"], **version}}
        )

    # --- kubelets and the pod collector ------------------------------------------------------------------------------

    def keep_nodes(self, *, finishing: bool) -> None:
        """One look at every pod: start it, end it, or clear it away; and at what budgets allow then."""
        self._keep_pods(finishing=finishing)
        keep_budgets(self._store)
        if self._volumes is not None:
            self._volumes.keep(calm=not finishing)

    def _keep_pods(self, *, finishing: bool) -> None:
        names = {node["metadata"]["name"] for node in self._nodes()}
        for pod in self._store.list(PODS).items:
            metadata, node = pod["metadata"], pod["spec"].get("nodeName")
            if metadata.get("deletionTimestamp"):
                if self.random.random() < 0.4 or not finishing:
                    self._delete(pod, 0)
            elif node and node not in names:
                if self.random.random() < 0.3:
                    self._delete(pod, 0)
            elif node and pod["status"]["phase"] == "Pending":
                self._set_phase(pod, "Running")
            elif pod["status"]["phase"] == "Running" and finishing and self.random.random() < 0.02:
                self._set_phase(pod, self.random.choice(FINISHED))
            elif pod["status"]["phase"] in FINISHED and self.random.random() < 0.1:
                self._delete(pod, 0)
            elif pod["status"].get("containerStatuses") and self.random.random() < 0.3:
                self._resize(pod)

    def _resize(self, pod: Object) -> None:
        """The kubelet gives a pod what it asks for if it has that, and else says whether it ever could."""
        asked = pod["spec"]["containers"][0]["resources"]["requests"]
        if asked == pod["status"]["containerStatuses"][0]["allocatedResources"]:
            return
        name = pod["spec"]["nodeName"]
        node = next((parse_node(node) for node in self._nodes() if node["metadata"]["name"] == name), None)
        if node is None:
            return
        others = [parse_pod(other) for other in self._pods() if other["spec"].get("nodeName") == name]
        cpu, have = parse_pod(pod).requests["cpu"], node.allocatable.get("cpu", 0)
        taken = sum(other.usage.get("cpu", 0) for other in others if other.uid != pod["metadata"]["uid"])
        if cpu + taken <= have:
            self._report_resources(pod, asked)
        else:
            self._report_pending(pod, "Infeasible" if cpu > have else "Deferred")

    def _report_resources(self, pod: Object, amounts: Object) -> None:
        reported: Object = {"name": "main", "allocatedResources": amounts, "resources": {"requests": amounts}}
        reported |= {"image": "registry.example/app:v1", "imageID": "", "ready": True, "restartCount": 0}
        status = {"containerStatuses": [reported], "conditions": _without_resize(pod)}
        self._patch(PODS, pod, {"status": status}, "status")

    def _report_pending(self, pod: Object, reason: str) -> None:
        pending = {"type": "PodResizePending", "status": "True", "reason": reason}
        if not any(one.get("reason") == reason for one in pod["status"].get("conditions") or ()):
            self._patch(PODS, pod, {"status": {"conditions": [*_without_resize(pod), pending]}}, "status")

    def clear(self) -> None:
        """Every pod goes."""
        for pod in self._store.list(PODS).items:
            self._delete(pod, 0)

    def _set_phase(self, pod: Object, phase: str) -> None:
        """No two start in the same second: who of two as important pods has run for longer is never a tie."""
        metadata, status = pod["metadata"], {"phase": phase}
        if phase == "Running":
            self._started += 1
            status["startTime"] = (START + timedelta(seconds=self._started)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._store.patch(
            PODS, metadata["namespace"], metadata["name"], {"status": status}, "merge", subresource="status"
        )

    # --- small things ------------------------------------------------------------------------------------------------

    def _pods(self) -> list[Object]:
        return [pod for pod in self._store.list(PODS).items if pod["status"].get("phase") not in FINISHED]

    def _unbound(self) -> list[Object]:
        return [pod for pod in self._pods() if not pod["spec"].get("nodeName")]

    def _nodes(self) -> list[Object]:
        return self._store.list(NODES).items

    def _choose(self, bodies: Iterable[Object]) -> Object | None:
        listed = list(bodies)
        return self.random.choice(listed) if listed else None

    def _choose_node(self) -> Object | None:
        """A node, and rather one that a pod was given and is not bound to yet."""
        nodes, held = self._nodes(), self._held()
        hot = [node for node in nodes if node["metadata"]["name"] in held]
        node = self._choose(hot if hot and self.random.random() < 0.5 else nodes)
        self._struck = node in hot
        return node

    def _pick(self, pods: Iterable[Object]) -> Object | None:
        """One of these, and rather one that is being bound."""
        listed = list(pods)
        keys = set(self._under_way())
        hot = [pod for pod in listed if object_key(pod) in keys]
        return self._choose(hot if hot and self.random.random() < 0.6 else listed)

    def _patch(self, resource: Resource, body: Object | None, patch: Object, subresource: str = "") -> bool:
        if body is None:
            return False
        metadata = body["metadata"]
        self._store.patch(
            resource, metadata.get("namespace", ""), metadata["name"], patch, "merge", subresource=subresource
        )
        return True

    def _delete(self, pod: Object, grace_seconds: int | None) -> None:
        metadata = pod["metadata"]
        self._store.delete(PODS, metadata["namespace"], metadata["name"], grace_period_seconds=grace_seconds)


def _without_resize(pod: Object) -> list[Object]:
    conditions = pod["status"].get("conditions") or ()
    return [condition for condition in conditions if condition["type"] != "PodResizePending"]


def _affinity(kind: str, app: str, key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spread(app: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
