"""Under the storm's faults of events a watch still carries every change, and in order."""

from __future__ import annotations

import asyncio

import orjson

from berth.sim.actors import HttpApi, Refused, ServerUnreachable
from berth.sim.faults import Double, DropWatch, Faults, Late, Rule
from berth.sim.resources import NODES
from berth.sim.server import SimServer
from faults.world import RecordingStore
from support.builders import make_node

CHANGES = 150


async def test_one_who_resumes_from_the_last_version_seen_misses_nothing_and_meets_nothing_new_out_of_order() -> None:
    store = RecordingStore()
    store.create(NODES, make_node("n"))
    start = store.revision
    rules = [Rule(DropWatch(0.05, 0.3)), Rule(Double(0.1, 0.2), probability=0.3), Rule(Late(0.0, 0.1), probability=0.3)]
    server = SimServer(store, faults=Faults(rules, seed=3))
    await server.start()
    try:
        async with HttpApi(server.url) as api, asyncio.timeout(60):
            writing = asyncio.create_task(write(store))
            seen = await follow(api, start, start + CHANGES)
            await writing
    finally:
        await server.stop()

    first_sightings = list(dict.fromkeys(seen))
    assert first_sightings == sorted(first_sightings)
    assert set(range(start + 1, start + CHANGES + 1)) <= set(seen)
    assert len(seen) > CHANGES


async def write(store: RecordingStore) -> None:
    for number in range(CHANGES):
        store.patch(NODES, "", "n", {"metadata": {"labels": {"number": str(number)}}}, "merge")
        await asyncio.sleep(0.01)


async def follow(api: HttpApi, version: int, last: int) -> list[int]:
    """The versions in the order of their arrival, resuming from the last one as kopf does, until the last is seen."""
    seen: list[int] = []
    while last not in seen:
        query = {"watch": "true", "resourceVersion": str(seen[-1] if seen else version)}
        try:
            async with api.stream("/api/v1/nodes", query) as events:
                async for event in events:
                    assert event["type"] != "ERROR", orjson.dumps(event)
                    seen.append(int(event["object"]["metadata"]["resourceVersion"]))
        except (Refused, ServerUnreachable):
            continue
    return seen
