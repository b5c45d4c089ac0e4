"""A tenant who names thousands of resources in a pod, or an administrator who gives them to a node, stops nobody."""

import logging
from typing import Any

import pytest

from berth.engine.state.resources import MOST_RESOURCES
from berth.scheduler import Cache
from berth.scheduler.dump import cache_lines
from scheduler.house import House, running
from support.builders import make_node, make_pod

NAMES = {f"example.com/r{number}": "1" for number in range(20_000)}


def columns(house: House) -> tuple[int, int]:
    table = house.cache.state.table
    return len(table.used), table.static_version


async def test_a_bound_pod_with_20_000_resource_names_changes_nothing_for_other_pods() -> None:
    async with running() as house:
        house.write(make_node("a"), make_node("b"), make_pod("before", scheduler="berth", cpu="1"))
        await house.go()
        known = columns(house)
        large = make_pod("large", node="a", requests=NAMES, phase="Running")
        house.write(large, make_pod("after", scheduler="berth", cpu="1"))
        await house.go()
        assert columns(house) == known
        assert {"before", "after"} <= {key.split("/")[1] for key in bound(house)}
        house.write({**large, "metadata": {**large["metadata"], "labels": {"app": "large"}}})
        await house.go()
        assert columns(house) == known
        house.cluster.delete("Pod", "default/large")
        await house.go()
        assert columns(house) == known
        assert house.cache.state.table.statistics()["resources_without_column"] == 0


async def test_a_pending_pod_with_20_000_resource_names_is_told_and_others_go_on() -> None:
    async with running() as house:
        house.write(make_node("a"), make_node("b"))
        house.write(make_pod("large", scheduler="berth", requests=NAMES), make_pod("small", scheduler="berth", cpu="1"))
        await house.go()
        assert {key.split("/")[1] for key in bound(house)} == {"small"}
        assert any("Insufficient example.com/r" in note for note in house.notes("large"))


def bound(house: House) -> list[str]:
    return [key for key, body in house.cluster.objects["Pod"].items() if body["spec"].get("nodeName")]


async def test_a_dump_of_a_node_has_what_pods_use_that_no_node_has() -> None:
    house = House()
    house.scheduler.observe("Node", make_node("a"))
    house.scheduler.observe("Node", make_node("b", extended={"example.com/gpu": 2}))
    house.scheduler.observe("Pod", make_pod("web", node="a", requests={"example.com/odd": "3"}))
    said = [line for line in cache_lines(house.cache) if "pods" in line]
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
