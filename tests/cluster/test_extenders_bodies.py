"""Pods and nodes in full, for extenders: what is kept, what is read, and that nothing old is shown."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from berth.cluster.api import Api
from berth.cluster.bodies import ObjectBodies
from berth.cluster.clock import RealClock
from berth.cluster.fence import OpenFence
from berth.cluster.port import KubernetesCluster
from berth.model import Node, Pod, parse_node, parse_pod
from berth.policy.records import Extender, Mode, Policy
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.extenders.extender_protocol import needs_of
from berth.scheduler.object_events import observed, removed
from berth.scheduler.ports import Unavailable
from cluster.server import Answer, Seen, Server, listed, refusal
from support.builders import make_node, make_pod

Body = dict[str, Any]
NODES = "/api/v1/nodes"


def policy(*extenders: Extender, scheduler_name: str = "berth") -> Policy:
    return Policy("p", "uid", 1, scheduler_name, (), (), extenders=extenders)


class Harness:
    """Bodies under policies that a test can change."""

    def __init__(self, api: Api) -> None:
        self.policies: list[Policy] = []
        cluster = KubernetesCluster(api, RealClock(), "test", ErrorLog(), OpenFence())
        self.bodies = ObjectBodies(api, cluster, lambda: needs_of(self.policies))

    def apply(self, *policies: Policy) -> None:
        self.policies = list(policies)
        self.bodies.follow_policies()

    def observe(self, kind: str, body: Body) -> None:
        self.bodies.on_event(observed(kind, body))

    def remove(self, kind: str, body: Body) -> None:
        self.bodies.on_event(removed(kind, body))

    async def pod(self, pod: Pod) -> Any:
        found = await self.bodies.pod(pod)
        return None if found is None else orjson.loads(orjson.dumps(found))

    async def nodes(self, *nodes: Node) -> Any:
        return orjson.loads(orjson.dumps(await self.bodies.nodes(nodes)))


@pytest.fixture
def harness(api: Api) -> Harness:
    return Harness(api)


def node_list(*nodes: Body, token: str = "") -> Answer:
    return listed("Node", *nodes, token=token)


def with_managed_fields(body: Body) -> Body:
    return {**body, "metadata": {**body["metadata"], "managedFields": [{"manager": "kubelet"}]}}


def records(bodies: Iterable[Body]) -> list[Node]:
    return [parse_node(body) for body in bodies]


async def test_a_pod_that_the_watch_showed_is_not_read(harness: Harness, server: Server) -> None:
    harness.apply(policy(Extender("http://a")))
    body = make_pod("web")
    harness.observe("Pod", with_managed_fields(body))
    assert await harness.pod(parse_pod(body)) == {key: body[key] for key in body if key not in ("kind", "apiVersion")}
    assert server.requests == []


async def test_a_pod_is_shown_in_the_version_that_came_last(harness: Harness) -> None:
    harness.apply(policy(Extender("http://a")))
    harness.observe("Pod", make_pod("web"))
    harness.observe("Pod", make_pod("web", labels={"new": "yes"}))
    assert (await harness.pod(parse_pod(make_pod("web"))))["metadata"]["labels"] == {"new": "yes"}


async def test_a_pod_that_came_before_the_policy_is_read(harness: Harness, server: Server) -> None:
    body = make_pod("web")
    harness.observe("Pod", body)
    harness.apply(policy(Extender("http://a")))
    server.answer("GET", "/api/v1/namespaces/default/pods/web", Answer(body=body))
    assert (await harness.pod(parse_pod(body)))["metadata"]["name"] == "web"
    assert len(server.requests) == 1


async def test_a_pod_that_is_gone_is_nothing(harness: Harness, server: Server) -> None:
    harness.apply(policy(Extender("http://a")))
    body = make_pod("web")
    harness.observe("Pod", body)
    harness.remove("Pod", body)
    server.answer("GET", "/api/v1/namespaces/default/pods/web", refusal(404, "NotFound", "no such pod"))
    assert await harness.pod(parse_pod(body)) is None


async def test_only_pods_that_extenders_may_be_asked_about_are_kept(harness: Harness) -> None:
    harness.apply(policy(Extender("http://a")), policy(scheduler_name="plain"))
    harness.observe("Pod", make_pod("bound", node="a"))
    harness.observe("Pod", make_pod("plain", scheduler="plain"))
    harness.observe("Pod", make_pod("web"))
    assert harness.bodies.statistics() == {"pods": 1, "nodes": 0}
    harness.observe("Pod", make_pod("web", node="a"))
    assert harness.bodies.statistics() == {"pods": 0, "nodes": 0}


async def test_nothing_is_kept_without_a_need(harness: Harness) -> None:
    harness.apply(policy(Extender("http://a")))
    harness.observe("Node", make_node("a"))
    harness.observe("Pod", make_pod("web"))
    harness.apply(policy(), replace(policy(Extender("http://a")), mode=Mode.SHADOW))
    harness.observe("Pod", make_pod("other"))
    harness.observe("Node", make_node("a"))
    assert harness.bodies.statistics() == {"pods": 0, "nodes": 0}


async def test_nodes_are_listed_once_and_then_followed(harness: Harness, server: Server) -> None:
    bodies = [make_node("a"), make_node("b")]
    harness.apply(policy(Extender("http://a", node_cache_capable=False)))
    server.answer(
        "GET",
        NODES,
        lambda seen: (
            node_list(with_managed_fields(bodies[1]))
            if seen.query.get("continue")
            else node_list(bodies[0], token="more")
        ),
    )
    shown = await harness.nodes(*records(bodies))
    assert shown == {
        name: {k: v for k, v in body.items() if k not in ("kind", "apiVersion")}
        for name, body in zip("ab", bodies, strict=True)
    }
    harness.observe("Node", make_node("a", labels={"new": "yes"}))
    harness.observe("Node", make_node("c"))
    shown = await harness.nodes(*records([*bodies, make_node("c")]))
    assert sorted(shown) == ["a", "b", "c"]
    assert shown["a"]["metadata"]["labels"] == {"new": "yes"}
    assert len(server.requests) == 2


async def test_a_node_is_known_by_its_uid(harness: Harness, server: Server) -> None:
    harness.apply(policy(Extender("http://a")))
    server.answer("GET", NODES, node_list())
    harness.observe("Node", make_node("a", uid="second"))
    assert await harness.nodes(parse_node(make_node("a", uid="first"))) == {}
    harness.remove("Node", make_node("a", uid="first"))
    assert list(await harness.nodes(parse_node(make_node("a", uid="second")))) == ["a"]
    harness.remove("Node", make_node("a", uid="second"))
    assert await harness.nodes(parse_node(make_node("a", uid="second"))) == {}


async def test_the_watch_is_newer_than_a_list_that_was_under_way(harness: Harness, server: Server) -> None:
    harness.apply(policy(Extender("http://a")))

    def list_late(seen: Seen) -> Answer:
        harness.observe("Node", make_node("a", labels={"new": "yes"}))
        harness.remove("Node", make_node("b"))
        return node_list(make_node("a"), make_node("b"), make_node("c"))

    server.answer("GET", NODES, list_late)
    shown = await harness.nodes(*records([make_node("a"), make_node("b"), make_node("c")]))
    assert sorted(shown) == ["a", "c"]
    assert shown["a"]["metadata"]["labels"] == {"new": "yes"}


async def test_many_who_ask_at_once_share_one_list(harness: Harness, server: Server) -> None:
    harness.apply(policy(Extender("http://a")))
    server.answer("GET", NODES, node_list(make_node("a")))
    await asyncio.gather(*(harness.nodes(parse_node(make_node("a"))) for _ in range(5)))
    assert len(server.requests) == 1


async def test_nodes_that_cannot_be_listed_are_unavailable(harness: Harness, server: Server) -> None:
    harness.apply(policy(Extender("http://a")))
    server.answer("GET", NODES, refusal(500, "InternalError", "etcd is away"))
    with pytest.raises(Unavailable, match="etcd is away"):
        await harness.nodes(parse_node(make_node("a")))


async def test_a_list_that_expires_is_begun_again(harness: Harness, server: Server) -> None:
    harness.apply(policy(Extender("http://a")))
    server.answer("GET", NODES, refusal(410, "Expired", "too old"), node_list(make_node("a")))
    assert list(await harness.nodes(parse_node(make_node("a")))) == ["a"]
