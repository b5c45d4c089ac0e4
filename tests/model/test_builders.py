"""The builders that other tests stand on give valid objects that say what they were asked to say."""

from __future__ import annotations

from berth.model import HostPort, Taint, parse_node, parse_pod
from support.builders import make_node, make_object, make_pod


def test_a_plain_pod_is_pending_and_berths_own() -> None:
    pod = parse_pod(make_pod("p"))
    assert (pod.uid, pod.key, pod.scheduler_name) == ("pod-default-p", "default/p", "berth")
    assert (pod.phase, pod.node_name, pod.requests) == ("Pending", "", {})


def test_a_pod_with_a_node_is_running() -> None:
    pod = parse_pod(make_pod("p", node="n1", cpu="1", requests={"example.com/gpu": 1}, ports=[80], uid="u"))
    assert (pod.phase, pod.node_name, pod.uid) == ("Running", "n1", "u")
    assert pod.requests == {"cpu": 1000, "example.com/gpu": 1}
    assert pod.host_ports == (HostPort("0.0.0.0", "TCP", 80),)


def test_whatever_else_goes_into_the_spec() -> None:
    assert make_pod("p", hostNetwork=True)["spec"]["hostNetwork"] is True
    assert make_node("n", providerID="x")["spec"] == {"providerID": "x"}


def test_a_plain_node_has_room() -> None:
    node = parse_node(make_node("n", taints=[("k", "v", "NoSchedule")], images={"i:v1": 5}))
    assert (node.uid, node.allocatable) == ("node-n", {"cpu": 4000, "memory": 16 * 1024**3, "pods": 110})
    assert (node.taints, node.images) == ((Taint("k", "v", "NoSchedule"),), {"i:v1": 5})


def test_builders_share_nothing_between_calls() -> None:
    labels = {"a": "b"}
    one, other = make_pod("p", labels=labels), make_pod("p", labels=labels)
    one["metadata"]["labels"]["a"] = "c"
    one["spec"]["containers"].clear()
    assert other == make_pod("p", labels={"a": "b"})
    assert make_object("Service", "s", namespace="a")["metadata"] == {"name": "s", "uid": "service-s", "namespace": "a"}
