"""Preemption on an API server, with kubelets that end pods and a disruption controller that counts them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi
from berth.sim.actors.disruption import Disruption
from berth.sim.actors.kubelets import Kubelets
from control_plane.client import PODS, Client, Object
from control_plane.embedded import EmbeddedPlane
from control_plane.process import unverified_tls
from end_to_end.watching import EVENTS, Plane, Pods, StartBerth, bound, only_real, overfull_nodes, pending, refusal
from support.builders import make_node, make_pod

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
ROOM = 4  # pods on a node


@asynccontextmanager
async def actors(plane: Plane) -> AsyncIterator[None]:
    tls = None if isinstance(plane, EmbeddedPlane) else unverified_tls()
    async with HttpApi(plane.url, token=plane.token, tls=tls) as api:
        clock = RealClock()
        kubelets = Kubelets(api, clock, random.Random(7), start_seconds=(0.0, 0.1), stop_seconds=(0.1, 0.5))
        running = [(actor, asyncio.create_task(actor.run())) for actor in (kubelets, Disruption(api, clock))]
        try:
            yield
        finally:
            for actor, task in running:
                await actor.stop()
                await task


def classes() -> list[Object]:
    """Of five priorities, p1 the lowest."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**kind, "metadata": {"name": f"p{rank}"}, "value": 100 * rank} for rank in range(1, 6)]


def budget(guarded: str, least: int) -> Object:
    """At least so many pods of this group are to stay."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": guarded, "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"guarded": guarded}}},
    }


def pod(name: str, rank: int, node: str = "", guarded: str = "") -> Object:
    labels = {"guarded": guarded} if guarded else None
    body = make_pod(name, cpu="1", node=node, labels=labels, priorityClassName=f"p{rank}")
    del body["metadata"]["uid"], body["status"]
    return body


def rank_of(body: Object) -> int:
    return int(body["spec"]["priority"]) // 100


def is_leaving(body: Object) -> bool:
    return "deletionTimestamp" in body["metadata"]


async def settle_priorities(plane: Plane, api: Client, start: StartBerth, nodes: int, seconds: float) -> None:
    """A full cluster of three priorities meets as many pods of five; what comes of it is checked.

    The pods of the three upper ranks are three fifths of those that come, and have to push out as many of the two lower
    ranks, which are two thirds of those that are there. All of the lowest have to go, whatever protects them, because
    some of the second rank are left without a place; but of the second so many are not needed that two budgets among
    them need not be broken.
    """
    room = ROOM * nodes
    needed = room * 3 // 5
    guarded = room // 50
    names = [f"node-{i:03}" for i in range(nodes)]
    groups = ["", "guarded-1", "", "", "guarded-2", ""] * guarded + [""] * room
    there = [pod(f"there-{i:04}", i % 3 + 1, names[i // ROOM], groups[i]) for i in range(room)]
    await api.create_many(classes())
    await api.create_many([budget("guarded-1", guarded // 2), budget("guarded-2", guarded)])
    await api.create_many(make_node(name, cpu=str(ROOM)) for name in names)
    async with actors(plane):
        await api.create_many(there)
        made = await api.wait_until(PODS, _all_run, timeout_seconds=seconds)
        least = guarded - guarded // 2
        await api.wait_until(BUDGETS, lambda found: _allowed(found.values()) == least, timeout_seconds=seconds)
        start()
        seen: dict[str, Object] = {}

        def see(body: Object) -> None:
            seen[body["metadata"]["uid"]] = body

        for body in made.values():
            see(body)
        # As they are made: the first may have had to go again before the last is there.
        await api.create_many((pod(f"new-{i:04}", 5 - i * 5 // room) for i in range(room)), tell=see)

        def is_settled(pods: Pods) -> bool:
            for body in pods.values():
                see(body)
            return (
                len(bound(pods)) == room
                and not any(map(is_leaving, pods.values()))
                and all(refusal(body) and not body["status"].get("nominatedNodeName") for body in pending(pods))
                and min(map(rank_of, bound(pods))) >= max(map(rank_of, pending(pods)), default=0)
            )

        pods = await api.wait_until(PODS, is_settled, timeout_seconds=seconds)

    gone = set(seen) - {body["metadata"]["uid"] for body in pods.values()}
    # Events are written in the background: the last may come after the pods have settled.
    events = await api.wait_until(EVENTS, lambda found: gone <= _victims(found.values()), timeout_seconds=seconds)
    pushed = [event for event in events.values() if event["reason"] == "Preempted"]
    pairs = [(seen[event["regarding"]["uid"]], seen[event["related"]["uid"]]) for event in pushed]
    assert all(rank_of(victim) < rank_of(preemptor) for victim, preemptor in pairs)
    assert {victim["metadata"]["uid"] for victim, _ in pairs} == gone
    assert needed <= len(gone) <= needed * 1.25  # few went for one who had to go again
    assert Counter(map(rank_of, bound(pods)))[3] == room // 3 + room // 5  # nobody of the third rank had to go
    stayed = Counter(body["metadata"].get("labels", {}).get("guarded") for body in bound(pods))
    assert (stayed["guarded-1"] >= guarded // 2, stayed["guarded-2"]) == (True, guarded)
    assert await overfull_nodes(api) == []


def _victims(events: Iterable[Object]) -> set[str]:
    return {event["regarding"]["uid"] for event in events if event["reason"] == "Preempted"}


def _all_run(pods: Pods) -> bool:
    return all(body["status"].get("phase") == "Running" for body in pods.values())


def _allowed(budgets: Iterable[Object]) -> int:
    return sum(body.get("status", {}).get("disruptionsAllowed", -1000) for body in budgets)


async def test_pods_of_higher_priority_take_the_places_of_lower_ones(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await settle_priorities(control_plane, api, berth_process, nodes=30, seconds=60)


@only_real
async def test_two_thousand_pods_of_five_priorities_settle_on_a_full_cluster_of_five_hundred_nodes(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await settle_priorities(control_plane, api, berth_process, nodes=500, seconds=240)
