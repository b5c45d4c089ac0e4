"""The actors in bad weather: they come to the same end as in good weather."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from actors.worlds import budget, deployment, job, template
from berth.cluster.clock import RealClock
from berth.sim.actors import Controller, Disruption, HttpApi, Kubelets, Workloads
from berth.sim.faults import CutAfter, Double, DropWatch, Expire, Fail, Faults, Late, Rule
from berth.sim.resources import BUDGETS, DEPLOYMENTS, JOBS, NODES, PODS
from berth.sim.server import SimServer
from berth.sim.store import Store
from faults.world import RecordingStore
from support.builders import make_node

LIMIT_SECONDS = 60.0
SOON = (0.0, 0.2)


def bad_weather() -> Faults:
    return Faults(
        [
            Rule(Fail(500), probability=0.1),
            Rule(CutAfter(), probability=0.1),
            Rule(DropWatch(0.2, 1.0)),
            Rule(Expire(2.0)),
            Rule(Double(0.3, 0.8), probability=0.1),
            Rule(Late(0.0, 0.3), probability=0.1),
        ],
        seed=7,
    )


@asynccontextmanager
async def acting(store: Store) -> AsyncIterator[list[Controller]]:
    server = SimServer(store, faults=bad_weather())
    await server.start()
    clock = RealClock()
    async with HttpApi(server.url) as api:
        kubelets = Kubelets(api, clock, Random(1), start_seconds=SOON, stop_seconds=SOON, job_seconds=SOON)
        actors: list[Controller] = [kubelets, Workloads(api, clock), Disruption(api, clock)]
        tasks = [asyncio.create_task(actor.run()) for actor in actors]
        try:
            yield actors
        finally:
            for actor in actors:
                await actor.stop()
            await asyncio.gather(*tasks)
            await server.stop()


async def test_a_deployment_a_job_and_a_budget_end_up_as_they_should() -> None:
    store = RecordingStore()
    store.create(NODES, make_node("n", cpu="1000", pods=1000))
    store.create(DEPLOYMENTS, deployment("web", 20, template=template(nodeName="n")), namespace="default")
    body = job("count", completions=10, parallelism=4)
    body["spec"]["template"]["spec"]["nodeName"] = "n"
    store.create(JOBS, body, namespace="default")
    store.create(BUDGETS, budget("b", minAvailable="90%"), namespace="default")

    async with acting(store):
        await until(lambda: statuses(store) == (20, "True", 10, 2))

    owners = [pod["metadata"]["ownerReferences"][0]["kind"] for pod in store.objects(PODS)]
    assert sorted(owners) == ["Job"] * 10 + ["ReplicaSet"] * 20


def statuses(store: Store) -> tuple[int | None, str | None, int | None, int | None]:
    """Ready pods of the Deployment, whether it is available, pods of the Job that succeeded, evictions allowed."""
    web = store.get(DEPLOYMENTS, "default", "web").get("status") or {}
    count = store.get(JOBS, "default", "count").get("status") or {}
    allowed = (store.get(BUDGETS, "default", "b").get("status") or {}).get("disruptionsAllowed")
    available = next((c["status"] for c in web.get("conditions") or () if c["type"] == "Available"), None)
    over = any(condition["type"] == "Complete" for condition in count.get("conditions") or ())
    return web.get("readyReplicas"), available, count.get("succeeded") if over else None, allowed


async def until(condition: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():  # noqa: ASYNC110 - it is about state that many things change
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"not after {LIMIT_SECONDS:g} s")
