"""Random clusters with random faults: once these stop, what can be placed is placed, once, and the rest says why."""

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.harness import Harness, running
from scheduler.memory_cluster import Fault, Hang, Refusal
from support.builders import make_node, make_pod

CORES = {"a": 1, "b": 2, "c": 4}  # a node that came back smaller would be too full by no fault of ours
PODS = tuple(f"p{number}" for number in range(8))
REFUSALS = (Refusal(500, "no"), Refusal(409, "conflict"), Refusal(404, "page not found"))
FAULTS = (Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.BROKEN, *REFUSALS, "hang", None)


class Life:
    """One random course of events."""

    def __init__(self, harness: Harness, data: st.DataObject) -> None:
        self.harness = harness
        self.cluster = harness.cluster
        self.data = data
        self.generation = 0
        self.hangs: list[Hang] = []

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self.data.draw(strategy)

    async def step(self) -> None:
        steps = [self.create, self.create, self.create, self.delete, self.break_a_bind, self.add_node, self.remove_node]
        self.draw(st.sampled_from([*steps, self.break_reads, self.tell_something]))()
        await self.harness.clock.advance(self.draw(st.sampled_from([0, 0, 0.5, 3])))

    def create(self) -> None:
        name = self.draw(st.sampled_from(PODS))
        if f"default/{name}" not in self.cluster.objects["Pod"]:
            self.generation += 1
            cpu = self.draw(st.sampled_from(["500m", "1", "2", "9"]))
            self.cluster.write("Pod", make_pod(name, cpu=cpu, uid=f"{name}-{self.generation}"))

    def delete(self) -> None:
        if self.cluster.objects["Pod"]:
            self.cluster.delete("Pod", self.draw(st.sampled_from(sorted(self.cluster.objects["Pod"]))))

    def add_node(self) -> None:
        name = self.draw(st.sampled_from(sorted(CORES)))
        node = make_node(name, cpu=CORES[name])
        if name not in self.cluster.objects["Node"]:
            self.generation += 1
            node["metadata"]["uid"] = f"{name}-{self.generation}"
            self.cluster.write("Node", node)

    def remove_node(self) -> None:
        if self.cluster.objects["Node"]:
            self.cluster.delete("Node", self.draw(st.sampled_from(sorted(self.cluster.objects["Node"]))))

    def break_a_bind(self) -> None:
        name = self.draw(st.sampled_from(PODS))
        fault = self.draw(st.sampled_from(FAULTS))
        self.cluster.faults.pop(name, None)
        if fault == "hang":
            self.hangs.append(Hang())
            self.cluster.faults[name] = self.hangs[-1]
        elif fault is not None:
            self.cluster.faults[name] = fault

    def break_reads(self) -> None:
        self.cluster.reads_fail = not self.cluster.reads_fail

    def tell_something(self) -> None:
        for _ in range(self.draw(st.integers(0, len(self.cluster.feed)))):
            number = self.draw(st.integers(0, len(self.cluster.feed) - 1))
            self.cluster.hand_over(self.harness.scheduler, self.cluster.feed.pop(number))

    async def end_all_faults(self) -> None:
        self.cluster.faults.clear()
        self.cluster.reads_fail = False
        for hang in self.hangs:
            hang.released.set()
        await self.harness.pass_time(1)
        await self.harness.pass_time(700, step=10)


@given(st.data())
@settings(max_examples=60)
def test_once_the_faults_stop_every_pod_is_placed_once_or_says_why_not(data: st.DataObject) -> None:
    asyncio.run(live(data))


async def live(data: st.DataObject) -> None:
    async with running(bind_limit=3) as harness:
        life = Life(harness, data)
        life.add_node()
        for _ in range(data.draw(st.integers(1, 30))):
            await life.step()
            nothing_is_bound_twice(harness)
        await life.end_all_faults()
        nothing_is_bound_twice(harness)
        everybody_is_where_he_should_be(harness)


def nothing_is_bound_twice(harness: Harness) -> None:
    assert all(count == 1 for count in Counter(uid for uid, _ in harness.cluster.bound).values())


def everybody_is_where_he_should_be(harness: Harness) -> None:
    statistics = harness.scheduler.statistics()
    assert not harness.cache.assumed()
    assert statistics["echo_missing"] == 0
    assert set(harness.cache.known("Pod")) == {
        body["metadata"]["uid"] for body in harness.cluster.objects["Pod"].values()
    }
    waiting = [body for body in harness.cluster.objects["Pod"].values() if not body["spec"].get("nodeName")]
    for body in waiting:
        uid = body["metadata"]["uid"]
        assert harness.queue.part_of(uid) == "unschedulable"
        assert harness.cluster.conditions[uid][0] == "Unschedulable"
        assert all(free_millicores(harness, node) < asked(body) for node in harness.cluster.objects["Node"])
    assert sum(statistics["queue"].values()) == len(waiting)
    assert all(free_millicores(harness, node) >= 0 for node in harness.cluster.objects["Node"])


def free_millicores(harness: Harness, node: str) -> int:
    pods = [body for body in harness.cluster.objects["Pod"].values() if body["spec"].get("nodeName") == node]
    known = harness.cache.state.table.node(node)
    assert known is not None
    return known.allocatable["cpu"] - sum(map(asked, pods))


def asked(body: dict[str, Any]) -> int:
    cpu = body["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)
