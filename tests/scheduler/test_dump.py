"""What a dump says of nodes, placed pods and the queue."""

import asyncio

import pytest

from berth.scheduler.dump import LINE, LINES_AT_ONCE, cache_lines, queue_lines, write
from scheduler.harness import Harness
from scheduler.virtual_clock import VirtualClock
from support.builders import make_node, make_pod


def lines_of(harness: Harness) -> list[str]:
    return [
        *cache_lines(harness.cache),
        *queue_lines(harness.queue, harness.cache, harness.policies.serves, harness.clock.now),
    ]


@pytest.fixture
async def harness() -> Harness:
    harness = Harness()
    harness.queue.open()
    return harness


async def test_a_node_is_dumped_with_what_it_has_what_is_taken_and_by_whom(harness: Harness) -> None:
    node = make_node(
        "a", unschedulable=True, taints=[("dedicated", "x", "NoSchedule")], extended={"example.com/gpu": 2}
    )
    harness.observe("Node", node)
    harness.observe("Pod", make_pod("web", node="a", cpu="1", memory="1536Mi"))
    assert list(cache_lines(harness.cache)) == [
        "Node a: cpu 1000m of 4000m, memory 1536Mi of 16Gi, pods 1 of 110, example.com/gpu 0 of 2, cordoned, "
        "taint dedicated=x:NoSchedule",
        "Node a runs: default/web [pod-default-web]",
    ]


async def test_pods_on_a_node_that_is_not_known_are_dumped_too(harness: Harness) -> None:
    harness.observe("Pod", make_pod("web", node="gone"))
    assert list(cache_lines(harness.cache)) == [
        "Node gone: is not known; bound to it: 1 pod",
        "Node gone runs: default/web [pod-default-web]",
    ]


async def test_assumed_and_nominated_pods_are_dumped_with_what_they_wait_for(harness: Harness) -> None:
    harness.observe("Pod", make_pod("one", scheduler="other"))
    harness.observe("Pod", make_pod("two", scheduler="other", nominated="b"))
    harness.cache.assume(harness.cache.pending["pod-default-one"], "a")
    assert lines_of(harness)[:4] == [
        "Node a: is not known; bound to it: 1 pod",
        "Node a runs: default/one [pod-default-one] (assumed)",
        "Assumed: default/one [pod-default-one] on a, not acknowledged by the API server yet",
        "Nominated: default/two [pod-default-two] to b",
    ]
    harness.cache.confirm("pod-default-one")
    assert lines_of(harness)[2].endswith("acknowledged by the API server, not shown by the watch yet")


async def test_an_object_that_makes_no_sense_is_named(harness: Harness) -> None:
    harness.observe("Node", make_node("a", cpu="lots"))
    assert "Invalid, left out of decisions: Node a" in lines_of(harness)


async def test_every_pod_of_the_queue_says_why_it_waits(harness: Harness) -> None:
    for name, gates in (("tried", ()), ("parked", ()), ("failed", ()), ("gated", ("wait", "longer")), ("held", ())):
        harness.observe("Pod", make_pod(name, gates=gates))
    taken = {item.pod.name: item for item in [await harness.queue.pop() for _ in range(4)]}
    harness.queue.add_unschedulable(taken["parked"], frozenset())
    harness.queue.fail(taken["failed"])
    harness.queue.hold(taken["held"])
    harness.observe("Pod", make_pod("active", priority=7))
    await harness.clock.advance(0.25)
    said = {line.split(" [")[0]: line.split(": ")[-1] for line in lines_of(harness)[1:]}
    assert said == {
        "In flight: default/tried": "it is being tried",
        "Unschedulable: default/parked": "no node fits, tried again in 300 s or after nothing else",
        "Backoff: default/failed": "the last attempt failed, its backoff ends in 0.8 s",
        "Gated: default/gated": "it is gated by wait, longer",
        "Held: default/held": "it waits for its turn to ask an extender",
        "Active: default/active": "it waits for its turn",
    }
    assert any(
        "default/active [pod-default-active] of berth, priority 7, attempts 0" in line for line in lines_of(harness)
    )


async def test_a_pod_that_the_queue_has_lost_is_named(harness: Harness) -> None:
    harness.observe("Pod", make_pod("web"))
    harness.observe("Pod", make_pod("foreign", scheduler="other"))
    harness.observe("Pod", make_pod("leaving", deleting=True))
    harness.queue.remove("pod-default-web")
    assert lines_of(harness)[-1] == "Pending pods that are missing from the queue: default/web [pod-default-web]"


async def test_no_line_is_long_and_nothing_is_left_out(harness: Harness) -> None:
    harness.observe("Node", make_node("a", pods=1000))
    for number in range(300):
        harness.observe("Pod", make_pod(f"web-{number}", node="a"))
    lines = lines_of(harness)
    assert max(map(len, lines)) <= LINE + 10
    assert sum(line.count("default/web-") for line in lines) == 300


async def test_nothing_of_a_pod_is_told_but_names_and_states(harness: Harness) -> None:
    secret = {"name": "main", "image": "i", "env": [{"name": "TOKEN", "value": "hush"}], "command": ["hush"]}
    pod = make_pod("web", labels={"app": "hush"}, containers=[secret])
    pod["metadata"]["annotations"] = {"note": "hush"}
    harness.observe("Pod", pod)
    harness.observe("Pod", pod | {"spec": pod["spec"] | {"nodeName": "a"}, "metadata": pod["metadata"] | {"uid": "u"}})
    assert "hush" not in "\n".join(lines_of(harness))


async def test_others_have_their_turn_between_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    turns: list[int] = []

    async def take_turns() -> None:
        while True:
            turns.append(len(caplog.messages))
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    await write((f"line {number}" for number in range(4 * LINES_AT_ONCE)), VirtualClock())
    other.cancel()
    assert len(caplog.messages) == 4 * LINES_AT_ONCE
    assert len(set(turns)) >= 3


async def test_what_goes_while_it_is_dumped_is_left_out(harness: Harness) -> None:
    for name in ("a", "b"):
        harness.observe("Node", make_node(name))
        harness.observe("Pod", make_pod(name, gates=["wait"]))
    lines = cache_lines(harness.cache)
    assert next(lines).startswith("Node a:")
    harness.remove("Node", make_node("b"))
    assert list(lines) == []
    waiting = queue_lines(harness.queue, harness.cache, harness.policies.serves, harness.clock.now)
    assert next(waiting).startswith("Queue:")
    assert next(waiting).startswith("Gated: default/a")
    harness.remove("Pod", make_pod("b"))
    assert list(waiting) == []
