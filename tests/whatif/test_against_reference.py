"""Simulations against a naive version: pods placed one at a time by the reference engine, ties to the first by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.model import Pod
from policy.builders import make_policy
from reference.engine import judge
from reference.profile import default_profile
from reference.world import World
from support.builders import Body, make_node, make_pod
from whatif.clusters import HOSTNAME, ZONE, ask, cluster, make_deployment, places, priority_class

PROFILE = default_profile()
# Without preemption, which the reference engine judges but does not carry out.
FIRST = make_policy("berth", tieBreak="First", preemption={"enabled": False})
CLASSES = {name: priority_class(name, value) for name, value in (("low", -10), ("high", 10))}

nodes = st.lists(
    st.builds(
        lambda cpu, pods, zone, tainted, disk: {
            "cpu": cpu,
            "pods": pods,
            "labels": {ZONE: zone, "disk": disk},
            "taints": [("dedicated", "x", "NoSchedule")] if tainted else [],
        },
        st.integers(0, 4),
        st.integers(1, 4),
        st.sampled_from("ab"),
        st.integers(0, 5).map(lambda number: number == 0),
        st.sampled_from(["ssd", "hdd"]),
    ),
    min_size=1,
    max_size=5,
)


def _apart(app: str) -> Body:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(app: str) -> Body:
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **selector}
    return {"topologySpreadConstraints": [rule]}


def _beside(app: str) -> Body:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


WISHES: list[Body] = [{}, _apart("web"), _spread("web"), _beside("db"), {"node_selector": {"disk": "ssd"}}]
asks = st.sampled_from(WISHES)


def bodies(found: list[dict[str, Any]]) -> list[Body]:
    return [
        make_node(f"n{place}", **{**each, "labels": {HOSTNAME: f"n{place}", **each["labels"]}})
        for place, each in enumerate(found)
    ]


class Naive:
    """A cluster in which pods are placed one after another."""

    def __init__(self, objects: list[Body]) -> None:
        self.world = World.of(objects)

    def place(self, pod: Pod) -> str:
        """The node, "" if none fits."""
        best = judge(self.world, PROFILE, pod).get("best")
        if not best:
            return ""
        placed = [*self.world.pods, (pod, best[0])]
        self.world = World(self.world.nodes, placed, (), self.world.objects)
        return str(best[0])


@settings(max_examples=60, deadline=None)
@given(nodes, st.sampled_from(["200m", 1, 2]), asks)
def test_fill_places_as_many_as_fit_one_at_a_time(found: list[dict[str, Any]], cpu: Any, wish: Body) -> None:
    objects = bodies(found)
    pod = make_pod("web", cpu=cpu, labels={"app": "web"}, **wish)
    result = ask(cluster(objects, FIRST), pod, fill=True)
    assert result.filled is not None
    naive, expected = Naive(objects), list[str]()
    parsed = ask(cluster(objects, FIRST), pod).entries[0].pod
    while node := naive.place(_named(parsed, len(expected))):
        expected.append(node)
    assert sorted(result.filled.spread.nodes.elements()) == sorted(expected)
    assert result.filled.message


def _named(pod: Pod, number: int) -> Pod:
    return replace(pod, name=f"{pod.name}-{number}", uid=f"{pod.uid}-{number}")


apps = st.lists(
    st.tuples(
        st.sampled_from(["web", "db"]),
        st.integers(1, 3),
        st.sampled_from(["500m", 1, 2]),
        asks,
        st.sampled_from(["", "low", "high"]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(nodes, apps)
def test_pods_go_where_they_go_one_at_a_time_by_priority_and_order(found: list[Any], wanted: list[Any]) -> None:
    objects = [*bodies(found), *CLASSES.values()]
    manifests = [
        make_deployment(f"{app}-{place}", count, labels={"app": app}, cpu=cpu, **wish, **_class(name))
        for place, (app, count, cpu, wish, name) in enumerate(wanted)
    ]
    result = ask(cluster(objects, FIRST), *manifests)
    waiting = sorted(result.entries, key=lambda entry: (-entry.pod.priority, entry.sequence))
    naive = _naive(bodies(found), manifests)
    assert places(result) == _placed_one_by_one(naive, [entry.pod for entry in waiting])


def _class(name: str) -> Body:
    return {"priorityClassName": name} if name else {}


def _naive(objects: list[Body], manifests: list[Body]) -> Naive:
    """With the ReplicaSets of the Deployments, by which the profile spreads their pods."""
    made = cluster(objects)
    ask(made, *CLASSES.values(), *manifests)
    naive = Naive(objects)
    naive.world = World(naive.world.nodes, (), (), {"ReplicaSet": made.cache.state.objects["ReplicaSet"]})
    return naive


def _placed_one_by_one(naive: Naive, pods: list[Pod]) -> dict[str, str]:
    """All pods in their order, and those without a node again until none of them gets one."""
    found = dict.fromkeys((pod.name for pod in pods), "")
    left, changed = pods, True
    while left and changed:
        for pod in left:
            found[pod.name] = naive.place(pod)
        before, left = left, [pod for pod in left if not found[pod.name]]
        changed = len(left) < len(before)
    return found
