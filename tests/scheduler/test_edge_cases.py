"""Cases that have bitten kube-scheduler, on the whole loop: each needs more than one part of it to go right."""

import logging
import sys
from types import FrameType
from typing import Any

import pytest

from berth.engine.events import ANY
from engine.storage import make_claim, make_class, make_volume, pod_with
from scheduler.harness import Harness, running
from support.builders import Body, make_node, make_pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OTHER = "other"


def near(key: str, selector: Body, *, kind: str = "podAffinity") -> Body:
    term = {"labelSelector": selector, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def node_of(harness: Harness, name: str) -> str | None:
    found: str | None = harness.cluster.objects["Pod"][f"default/{name}"]["spec"].get("nodeName")
    return found


async def test_a_label_given_to_the_target_of_an_affinity_brings_back_who_waits_for_it() -> None:
    async with running() as harness:
        harness.write(make_node("a", labels={HOSTNAME: "a"}), make_pod("db", node="a", scheduler=OTHER))
        harness.write(make_pod("web", affinity=near(HOSTNAME, {"matchLabels": {"app": "db"}})))
        await harness.go()
        assert node_of(harness, "web") is None
        harness.write(make_pod("db", node="a", scheduler=OTHER, labels={"app": "db"}))
        await harness.pass_time(2)
        assert node_of(harness, "web") == "a"


async def test_a_nominated_pod_that_asks_for_less_brings_back_who_waits_for_its_room() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="4"), make_pod("first", cpu="4", scheduler=OTHER, nominated="a"))
        harness.write(make_pod("web", cpu="2"))
        await harness.go()
        assert node_of(harness, "web") is None
        harness.write(make_pod("first", cpu="1", scheduler=OTHER, nominated="a"))
        await harness.pass_time(2)
        assert node_of(harness, "web") == "a"


async def test_a_gated_pod_holds_the_room_that_it_is_nominated_to() -> None:
    async with running() as harness:
        harness.write(make_node("a", cpu="4"), make_pod("first", cpu="4", gates=["wait"], nominated="a"))
        harness.write(make_pod("web", cpu="2"))
        await harness.pass_time(2)
        assert node_of(harness, "web") is None
        harness.cluster.delete("Pod", "default/first")
        await harness.pass_time(2)
        assert node_of(harness, "web") == "a"


async def test_an_anti_affinity_pod_that_goes_brings_back_whom_it_kept_away() -> None:
    hermit = make_pod(
        "hermit",
        node="a",
        scheduler=OTHER,
        affinity=near(HOSTNAME, {"matchLabels": {"app": "web"}}, kind="podAntiAffinity"),
    )
    async with running() as harness:
        harness.write(make_node("a", labels={HOSTNAME: "a"}), hermit, make_pod("web", labels={"app": "web"}))
        await harness.go()
        assert node_of(harness, "web") is None
        harness.cluster.delete("Pod", "default/hermit")
        await harness.pass_time(2)
        assert node_of(harness, "web") == "a"


async def test_a_static_volume_that_appears_brings_back_the_pod_that_waits_for_one() -> None:
    async with running() as harness:
        by_hand = make_class(provisioner="kubernetes.io/no-provisioner")
        harness.write(make_node("a", labels={"zone": "z1"}), by_hand, make_claim("data"), pod_with("data", name="db"))
        await harness.go()
        assert harness.scheduler.statistics()["volumes"]["waiting"] == 0
        harness.write(make_volume("disk", "z1"))
        await harness.pass_time(2)
        assert harness.cluster.objects["PersistentVolume"]["disk"]["spec"]["claimRef"]["name"] == "data"


async def test_a_cordoned_node_is_an_empty_domain_to_spread_over() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    async with running() as harness:
        harness.write(make_node("a", labels={ZONE: "z1"}), make_node("b", labels={ZONE: "z2"}, unschedulable=True))
        harness.write(make_pod("one", node="a", scheduler=OTHER, labels={"app": "web"}))
        harness.write(make_pod("two", labels={"app": "web"}, topologySpreadConstraints=[spread]))
        await harness.go()
        assert node_of(harness, "two") is None
        assert "didn't match pod topology spread constraints" in harness.notes("two")[-1]
        harness.write(make_node("b", labels={ZONE: "z2"}))
        await harness.pass_time(2)
        assert node_of(harness, "two") == "b"


async def test_an_empty_selector_means_every_pod_of_the_namespace_and_of_no_other() -> None:
    async with running() as harness:
        harness.write(make_node("a", labels={HOSTNAME: "a"}), make_node("b", labels={HOSTNAME: "b"}))
        harness.write(make_pod("any", node="a", scheduler=OTHER))
        harness.write(make_pod("far", node="b", namespace="elsewhere", scheduler=OTHER))
        harness.write(make_pod("web", affinity=near(HOSTNAME, {})))
        harness.write(make_pod("shy", affinity=near(HOSTNAME, {}, kind="podAntiAffinity")))
        await harness.go()
        assert (node_of(harness, "web"), node_of(harness, "shy")) == ("a", "b")


async def test_a_claim_for_one_pod_is_taken_until_the_pod_that_terminates_is_gone() -> None:
    claim, volume = make_claim("data", "disk", modes=["ReadWriteOncePod"]), make_volume("disk", claim="data")
    async with running() as harness:
        harness.write(make_node("a"), make_class(), claim, volume)
        harness.write(pod_with("data", name="old", node="a", scheduler=OTHER, deleting=True))
        harness.write(pod_with("data", name="new"))
        await harness.go()
        assert node_of(harness, "new") is None
        harness.cluster.delete("Pod", "default/old")
        await harness.pass_time(2)
        assert node_of(harness, "new") == "a"


async def test_a_decision_over_many_nodes_writes_no_log_line_for_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running() as harness:
        harness.write(*(make_node(f"n{number}", cpu="1") for number in range(200)))
        harness.write(make_pod("small", cpu="1"), make_pod("big", cpu="2"))
        await harness.go()
        assert node_of(harness, "small") is not None
        assert len(caplog.records) < 10


async def test_ten_thousand_gated_pods_cost_nothing_whatever_happens() -> None:
    harness = Harness()
    for number in range(10_000):
        harness.observe("Pod", make_pod(f"gated-{number}", gates=["wait"]))
    harness.observe("Pod", make_pod("web"))
    harness.scheduler.open()
    calls = 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        item = await harness.queue.pop()
        harness.queue.add_unschedulable(item, ANY)
        harness.observe("Node", make_node("a"))
        await harness.clock.advance(10)
        assert (await harness.queue.pop()) is item
    finally:
        sys.setprofile(None)
    assert calls < 5_000
