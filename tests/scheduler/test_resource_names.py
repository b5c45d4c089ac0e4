"""A tenant who names thousands of resources in a pod, or an administrator who gives them to a node, stops nobody."""

import logging
from typing import Any

import pytest

from berth.engine.state.resources import MOST_RESOURCES
from berth.scheduler import Cache
from berth.scheduler.dump import cache_lines
from scheduler.harness import Harness, running
from support.builders import make_node, make_pod

NAMES = {f"example.com/r{number}": "1" for number in range(20_000)}


def columns(harness: Harness) -> tuple[int, int]:
    table = harness.cache.state.table
    return len(table.used), table.static_version


async def test_a_bound_pod_with_20_000_resource_names_changes_nothing_for_other_pods() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_node("b"), make_pod("before", scheduler="berth", cpu="1"))
        await harness.go()
        known = columns(harness)
        large = make_pod("large", node="a", requests=NAMES, phase="Running")
        harness.write(large, make_pod("after", scheduler="berth", cpu="1"))
        await harness.go()
        assert columns(harness) == known
        assert {"before", "after"} <= {key.split("/")[1] for key in bound(harness)}
        harness.write({**large, "metadata": {**large["metadata"], "labels": {"app": "large"}}})
        await harness.go()
        assert columns(harness) == known
        harness.cluster.delete("Pod", "default/large")
        await harness.go()
        assert columns(harness) == known
        assert harness.cache.state.table.statistics()["resources_without_column"] == 0


async def test_a_pending_pod_with_20_000_resource_names_is_told_and_others_go_on() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_node("b"))
        harness.write(
            make_pod("large", scheduler="berth", requests=NAMES), make_pod("small", scheduler="berth", cpu="1")
        )
        await harness.go()
        assert {key.split("/")[1] for key in bound(harness)} == {"small"}
        assert any("Insufficient example.com/r" in note for note in harness.notes("large"))


def bound(harness: Harness) -> list[str]:
    return [key for key, body in harness.cluster.objects["Pod"].items() if body["spec"].get("nodeName")]


async def test_a_dump_of_a_node_has_what_pods_use_that_no_node_has() -> None:
    harness = Harness()
    harness.observe("Node", make_node("a"))
    harness.observe("Node", make_node("b", extended={"example.com/gpu": 2}))
    harness.observe("Pod", make_pod("web", node="a", requests={"example.com/odd": "3"}))
    said = [line for line in cache_lines(harness.cache) if "pods" in line]
    assert "example.com/odd 3 of 0" in said[0]
    assert "gpu" not in said[0]
    assert "example.com/gpu 0 of 2" in said[1]


def test_more_resources_of_nodes_than_are_counted_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    cache, version = Cache(), 0

    def observe(name: str, resources: dict[str, Any], cpu: str = "4") -> None:
        nonlocal version
        version += 1
        body = make_node(name, extended=resources, cpu=cpu)
        cache.observe("Node", {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}})

    with caplog.at_level(logging.WARNING):
        observe("a", dict.fromkeys(list(NAMES)[:MOST_RESOURCES], 1))
        observe("a", dict.fromkeys(list(NAMES)[:MOST_RESOURCES], 1), cpu="5")
        observe("b", {"example.com/other": 1})
    assert len(caplog.records) == 1
    assert f"more than {MOST_RESOURCES} different resources" in caplog.text
    with caplog.at_level(logging.WARNING):
        observe("a", {})
        observe("a", dict.fromkeys(NAMES, 1))
    assert len(caplog.records) == 2
