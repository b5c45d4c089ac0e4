"""A pod that is beyond a bound is told so and holds up nobody; nothing stays of what a tenant multiplied."""

import asyncio
import gc
import itertools
import re
import tracemalloc
from collections.abc import Sequence

import pytest

from berth.model.bounds import BOUNDS, excesses
from scheduler.harness import Harness, running
from support.builders import Body, make_node, make_pod
from support.floods import HOSTNAME, POD_FLOODS, TENANT, Flood, container, pod_term

MANY = 40
MODES: tuple[Body, ...] = ({"node": "b"}, {}, {"scheduler": "another"})
MULTIPLIED = [flood for flood in POD_FLOODS if not flood.alone]
TOLD = re.compile(r"Pod flooding/flood: (metadata|spec|status)\.[\w.\[\]]+: has (more than )?[\d,]+ \w+, and a pod may")
_NOT_COUNTED = ("slots", "pod_questions", "wide_questions", "label_columns")
_versions = itertools.count(1)


def named(floods: Sequence[Flood]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("flood", floods, ids=[flood.name for flood in floods])


def beyond(flood: Flood) -> int:
    """More than a pod may have."""
    return next(count for count in (200, 2_000, 12_000) if list(excesses(flood.one(count))))


def tell(harness: Harness, body: Body) -> None:
    body["metadata"]["resourceVersion"] = str(next(_versions))
    harness.observe(body["kind"], body)


def remove(harness: Harness, body: Body) -> None:
    body["metadata"]["resourceVersion"] = str(next(_versions))
    harness.remove(body["kind"], body)


def nodes(harness: Harness) -> None:
    for name in "ab":
        harness.write(make_node(name, pods=20_000, labels={HOSTNAME: name}))


def counts(harness: Harness) -> dict[str, int]:
    state, cache = harness.cache.state, harness.cache
    found = {**state.table.statistics(), **state.volumes.statistics(), **harness.queue.statistics()}
    found |= cache.statistics()["objects"] | {"unreadable": len(cache.unreadable), "invalid": len(cache.invalid)}
    return {name: count for name, count in found.items() if name not in _NOT_COUNTED}


@named(MULTIPLIED)
async def test_a_pending_pod_beyond_a_bound_is_told_which_and_holds_up_nobody(flood: Flood) -> None:
    async with running() as harness:
        nodes(harness)
        tell(harness, flood.one(beyond(flood)))
        harness.write(make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web")
        assert [name for name, _ in harness.cluster.attempts] == ["web"]
        [note] = harness.notes("flood")
        assert TOLD.match(note), note


@named(MULTIPLIED)
async def test_a_bound_pod_beyond_a_bound_takes_its_room_and_holds_up_nobody(flood: Flood) -> None:
    async with running() as harness:
        nodes(harness)
        before = counts(harness)
        body = flood.one(beyond(flood), node="a")
        tell(harness, body)
        table = harness.cache.state.table
        assert table.used[:, table.row("a")][[0, 3]].tolist() == [0 if flood.name == "containers" else 1, 1]
        assert harness.cache.state.table.terms.statistics()["carried_terms"] == 0
        harness.write(make_pod("web", node_selector={HOSTNAME: "a"}))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"
        remove(harness, body)
        harness.cluster.delete("Pod", "default/web")
        await harness.go()
        assert counts(harness) == before


@named(POD_FLOODS)
async def test_many_pods_with_one_each_leave_nothing_behind(flood: Flood) -> None:
    async with running() as harness:
        nodes(harness)
        before, known = counts(harness), set(harness.cache.state.table.names())
        for changes in MODES:
            own = flood.pod([flood.item(0)])
            bodies = list(flood.many(MANY, **{key: value for key, value in changes.items() if key not in own}))
            for body in bodies:
                tell(harness, body)
            await harness.go()
            for body in bodies:
                remove(harness, body)
            await harness.go()
        assert counts(harness) == before
        assert set(harness.cache.state.table.names()) == known
        assert not harness.queue.counters.blamed


async def test_a_pod_within_all_bounds_is_placed() -> None:
    async with running() as harness:
        nodes(harness)
        for flood in MULTIPLIED:
            assert not list(excesses(flood.one(30)))
        harness.write(
            make_pod(
                "web",
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            pod_term(number, HOSTNAME) for number in range(32)
                        ]
                    }
                },
            )
        )
        await harness.go()
        assert harness.cluster.node_of("web")


async def test_what_a_bound_pod_uses_counts_however_many_containers_it_has() -> None:
    harness = Harness()
    nodes(harness)
    containers = [container(number) | {"resources": {"requests": {"cpu": "1m"}}} for number in range(3000)]
    tell(harness, make_pod("flood", namespace=TENANT, node="a", containers=containers))
    table = harness.cache.state.table
    assert table.used[0, table.row("a")] == 3000
    assert not harness.cache.invalid


async def test_of_a_bound_pod_only_the_list_that_is_too_long_is_left_out() -> None:
    harness = Harness()
    nodes(harness)
    labels = {f"k{number}": "v" for number in range(BOUNDS["metadata", "labels"] + 1)}
    monitors = {"name": "disk", "rbd": {"monitors": [f"m{number}" for number in range(51)], "image": "i"}}
    volumes = [monitors, {"name": "data", "gcePersistentDisk": {"pdName": "d"}}, {**monitors, "name": "other"}]
    terms = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pod_term(0, HOSTNAME)]}}
    tell(harness, make_pod("big", node="a", labels=labels, volumes=volumes, affinity=terms, ports=[80], cpu="2"))
    [pod] = harness.cache.state.table.pods_on("a").values()
    assert (pod.labels, [volume.name for volume in pod.volumes]) == ({}, ["data"])
    assert len(pod.pod_anti_affinity.required) == 1
    assert (pod.usage["cpu"], [port.port for port in pod.host_ports]) == (2000, [80])


async def test_a_node_with_too_many_taints_is_left_out_and_the_others_are_not() -> None:
    async with running() as harness:
        harness.write(make_node("a"), make_node("b", taints=[(f"t{n}", "", "PreferNoSchedule") for n in range(1001)]))
        harness.write(make_pod("web"))
        await harness.go()
        assert harness.cluster.node_of("web") == "a"
        assert "spec.taints" in str(harness.cache.invalid["Node", "b"])


def test_memory_returns_when_a_flood_is_gone() -> None:
    """What the second time left is what the first left: nothing grows with the floods that have been."""

    async def flooded(harness: Harness) -> int:
        nodes(harness)
        await round_trip(harness)
        await round_trip(harness)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        await round_trip(harness)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    async def round_trip(harness: Harness) -> None:
        for flood in POD_FLOODS:
            for changes in MODES[::2]:
                own = flood.pod([flood.item(0)])
                bodies = list(flood.many(4, **{key: value for key, value in changes.items() if key not in own}))
                for body in bodies:
                    tell(harness, body)
                for body in bodies:
                    remove(harness, body)

    tracemalloc.start()
    try:
        assert asyncio.run(flooded(Harness())) < 100_000
    finally:
        tracemalloc.stop()
