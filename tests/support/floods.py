"""Floods: everything that a user of the cluster can multiply, as pods and other objects that are made of it.

A flood says what one more of it is (`item`) and what a pod with some of them looks like (`pod`). It comes in three
shapes: one pod with as many as an API server accepts in one object, one with as many as a pod may have (berth.model's
bounds), and many pods with one each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.model.bounds import excesses
from support.builders import Body, make_object, make_pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OBJECT_BYTES = 1_400_000  # an API server refuses objects of more than 1.5 MiB
TENANT = "flooding"


@dataclass(frozen=True, slots=True)
class Flood:
    """`item` is the part of a pod that is multiplied, by its number; `pod` has arguments of `make_pod` for some items.

    `most`: no API server takes more of them in one pod. `alone`: only one fits into a pod.
    """

    name: str
    item: Callable[[int], Any]
    pod: Callable[[Sequence[Any]], Mapping[str, Any]]
    most: int = 10**9
    alone: bool = False

    def one(self, count: int | None = None, **changes: Any) -> Body:
        """A pod with so many, or as many as fit into one object."""
        number = self.capacity if count is None else count
        return self._made("flood", [self.item(i) for i in range(number)], changes)

    def many(self, count: int, **changes: Any) -> Iterator[Body]:
        """So many pods with one each."""
        return (self._made(f"flood-{i}", [self.item(i)], changes) for i in range(count))

    def edge(self, **changes: Any) -> Body:
        """A pod with as many as it may have."""
        few, many = 1, self.capacity + 1
        while many - few > 1:
            middle = (few + many) // 2
            beyond = next(excesses(self.one(middle, **changes)), None) is not None
            few, many = (few, middle) if beyond else (middle, many)
        return self.one(few, **changes)

    @property
    def capacity(self) -> int:
        return 1 if self.alone else min(self.most, OBJECT_BYTES // (len(json.dumps(self.item(100_000))) + 2))

    def _made(self, name: str, items: Sequence[Any], changes: Mapping[str, Any]) -> Body:
        arguments: dict[str, Any] = {"namespace": TENANT, "cpu": "1m", **self.pod(items), **changes}
        metadata = arguments.pop("metadata", {})
        body = make_pod(name, **arguments)
        body["metadata"] |= metadata
        return body


def pod_term(number: int, key: str, **selector: Any) -> Body:
    """A term about every pod of every namespace, but for its own number."""
    chosen = selector or {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"no-{number}"]}]}
    return {"labelSelector": chosen, "namespaceSelector": {}, "topologyKey": key}


def node_term(number: int) -> Body:
    return {"matchExpressions": [{"key": f"example.com/n-{number}", "operator": "DoesNotExist"}]}


def _pods(direction: str, strength: str) -> Callable[[Sequence[Any]], Mapping[str, Any]]:
    return lambda terms: {"affinity": {direction: {strength: list(terms)}}}


def _nodes(
    strength: str, wrapped: Callable[[Sequence[Any]], Any] = list
) -> Callable[[Sequence[Any]], Mapping[str, Any]]:
    return lambda items: {"affinity": {"nodeAffinity": {strength: wrapped(items)}}}


def _field(name: str) -> Callable[[Sequence[Any]], Mapping[str, Any]]:
    return lambda items: {name: list(items)}


def _weighted(number: int, key: str) -> Body:
    return {"weight": 1 + number % 100, "podAffinityTerm": pod_term(number, key)}


def _constraint(number: int, action: str) -> Body:
    return {
        "maxSkew": 1,
        "topologyKey": f"example.com/t-{number}",
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": f"a-{number}"}},
    }


def _selecting(requirements: Sequence[Body]) -> Mapping[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [pod_term(0, HOSTNAME, matchExpressions=list(requirements))]}}}


def _of_values(key: str, operator: str) -> Callable[[Sequence[Any]], Mapping[str, Any]]:
    return lambda values: _selecting([{"key": key, "operator": operator, "values": list(values)}])


def _in_namespaces(names: Sequence[str]) -> Mapping[str, Any]:
    term = {"labelSelector": {}, "namespaces": list(names), "topologyKey": HOSTNAME}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def container(number: int) -> Body:
    """With what an API server writes into each: that is part of what an object can hold."""
    return {
        "name": f"c{number}",
        "image": f"example.com/i-{number}",
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


def _ports(ports: Sequence[Body]) -> Mapping[str, Any]:
    return {"ports": list(ports)}


def _absent(number: int) -> str:
    return f"example.com/none-{number}"


POD_FLOODS: Sequence[Flood] = (
    Flood("label keys", lambda i: (f"example.com/k-{i}", "v"), lambda pairs: {"labels": dict(pairs)}),
    Flood("label values", lambda i: ("app", f"value-{i}"), lambda pairs: {"labels": dict(pairs)}, alone=True),
    Flood("keys of anti-affinity", lambda i: pod_term(i, _absent(i)), _pods("podAntiAffinity", REQUIRED)),
    Flood("anti-affinity", lambda i: pod_term(i, HOSTNAME), _pods("podAntiAffinity", REQUIRED)),
    Flood("affinity", lambda i: pod_term(i, HOSTNAME), _pods("podAffinity", REQUIRED)),
    Flood("keys of affinity", lambda i: pod_term(i, _absent(i)), _pods("podAffinity", REQUIRED)),
    Flood("preferred affinity", lambda i: _weighted(i, ZONE), _pods("podAffinity", PREFERRED)),
    Flood("preferred anti-affinity", lambda i: _weighted(i, HOSTNAME), _pods("podAntiAffinity", PREFERRED)),
    Flood("keys of preferences", lambda i: _weighted(i, _absent(i)), _pods("podAffinity", PREFERRED)),
    Flood("requirements", lambda i: {"key": f"k-{i}", "operator": "DoesNotExist"}, _selecting),
    Flood("values in a selector", lambda i: f"v-{i}", _of_values("app", "In")),
    Flood("values not in a selector", lambda i: f"v-{i}", _of_values("app", "NotIn")),
    Flood("namespaces of a term", lambda i: f"namespace-{i}", _in_namespaces),
    Flood("namespaces", lambda i: f"namespace-{i}", lambda names: {"namespace": names[0]}, alone=True),
    Flood("hard constraints", lambda i: _constraint(i, "DoNotSchedule"), _field("topologySpreadConstraints")),
    Flood("soft constraints", lambda i: _constraint(i, "ScheduleAnyway"), _field("topologySpreadConstraints")),
    Flood("node terms", node_term, _nodes(REQUIRED, lambda terms: {"nodeSelectorTerms": list(terms)})),
    Flood(
        "node expressions",
        lambda i: node_term(i)["matchExpressions"][0],
        _nodes(REQUIRED, lambda all_of: {"nodeSelectorTerms": [{"matchExpressions": list(all_of)}]}),
    ),
    Flood(
        "values of a node expression",
        lambda i: f"v-{i}",
        _nodes(
            REQUIRED,
            lambda values: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": list(values)}]}
                ]
            },
        ),
    ),
    Flood("preferred nodes", lambda i: {"weight": 1, "preference": node_term(i)}, _nodes(PREFERRED)),
    Flood("node selector", lambda i: (f"example.com/s-{i}", "v"), lambda pairs: {"node_selector": dict(pairs)}),
    Flood("tolerations", lambda i: {"key": f"t-{i}", "operator": "Exists"}, _field("tolerations")),
    Flood("host ports", lambda i: {"hostPort": 1 + i % 65535, "containerPort": 1, "protocol": "TCP"}, _ports, 65535),
    Flood("addresses", lambda i: {"hostPort": 1, "containerPort": 1, "hostIP": f"10.{i % 250}.{i // 250}.1"}, _ports),
    Flood("node names", lambda i: f"nowhere-{i}", lambda names: {"node": names[0]}, alone=True),
    Flood("containers", container, _field("containers")),
    Flood("init containers", container, _field("initContainers")),
    Flood(
        "claims",
        lambda i: {"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"claim-{i}"}},
        _field("volumes"),
    ),
    Flood("disks", lambda i: {"name": f"v{i}", "gcePersistentDisk": {"pdName": f"disk-{i}"}}, _field("volumes")),
    Flood("ephemeral volumes", lambda i: {"name": f"v{i}", "ephemeral": {}}, _field("volumes")),
    Flood(
        "monitors",
        lambda i: f"m-{i}",
        lambda monitors: {"volumes": [{"name": "v", "rbd": {"monitors": list(monitors), "image": "i"}}]},
    ),
    Flood("gates", lambda i: {"name": f"example.com/g-{i}"}, _field("schedulingGates")),
    Flood("resource claims", lambda i: {"name": f"r-{i}"}, _field("resourceClaims")),
    Flood(
        "owners",
        lambda i: {"apiVersion": "v1", "kind": f"Kind{i}", "name": f"o-{i}", "uid": f"u-{i}", "controller": i == 0},
        lambda owners: {"metadata": {"ownerReferences": list(owners)}},
    ),
    Flood(
        "conditions",
        lambda i: {"type": f"example.com/c-{i}", "status": "True"},
        lambda conditions: {"status": {"conditions": list(conditions)}},
    ),
    Flood("scheduler names", lambda i: f"scheduler-{i}", lambda names: {"scheduler": names[0]}, alone=True),
    Flood("priorities", lambda i: i, lambda numbers: {"priority": numbers[0]}, alone=True),
    Flood("priority classes", lambda i: f"class-{i}", lambda names: {"priorityClassName": names[0]}, alone=True),
)


def services(count: int) -> Iterator[Body]:
    """Services of one namespace that all select the same pods."""
    for i in range(count):
        yield make_object("Service", f"s-{i}", namespace=TENANT, spec={"selector": {"app": "flood"}})


def replica_sets(count: int) -> Iterator[Body]:
    for i in range(count):
        selector = {"matchExpressions": [{"key": f"k-{i}", "operator": "DoesNotExist"}]}
        yield make_object("ReplicaSet", f"r-{i}", namespace=TENANT, spec={"selector": selector})
