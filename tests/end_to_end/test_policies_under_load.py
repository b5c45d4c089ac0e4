"""Policies that change while pods keep coming: one generation judges each pod, at once the new one, and none is lost.

Every generation of a policy lets its pods onto the nodes of a pool of its own, and pods carry the generation that
placed them: a pod that two generations had a hand in would be on the wrong nodes.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

from control_plane.client import PODS, POLICIES, Client, Object, key_of
from end_to_end.policing import GENERATION, LIMIT_SECONDS, NAME, apply, node_of, policy, pool, wait_for_condition
from end_to_end.watching import Plane, StartBerth, bound_twice
from support.builders import make_node, make_pod

SWAP_SECONDS = 1.0
POOLS = 9
WAITING = 50  # pods at most, so that what is seen is soon after what was done
Judge = tuple[str, int]  # name and generation of a policy


class Traffic:
    """Pods made one after the other, as fast as they are placed, and what became of each."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self._loop = asyncio.get_running_loop()
        self.made = 0
        self.placed: dict[str, tuple[Judge | None, str]] = {}  # by pod: who placed it, and where
        self.first: dict[Judge, float] = {}  # when the first pod was seen that a generation placed
        self.changed = asyncio.Condition()

    @asynccontextmanager
    async def flowing(self, *schedulers: str) -> AsyncIterator[None]:
        """Pods of these scheduler names come until the end of the block."""
        _, version = await self._api.list_with_version(PODS)
        watching = asyncio.create_task(self._watch(version))
        streams = [asyncio.create_task(self._stream(scheduler)) for scheduler in schedulers]
        try:
            yield
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)
            await self.wait(lambda: len(self.placed) >= self.made)
        finally:
            for task in (watching, *streams):
                task.cancel()
            await asyncio.gather(watching, *streams, return_exceptions=True)

    async def wait(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_SECONDS), self.changed:
            await self.changed.wait_for(holds)

    async def first_after(self, change: Awaitable[object], judge: Judge) -> tuple[float, float]:
        """From before and from after the change: seconds until a pod is seen that the generation placed."""
        self.first.pop(judge, None)
        before = self._loop.time()
        await change
        after = self._loop.time()
        await self.wait(lambda: judge in self.first)
        return self.first[judge] - before, max(self.first[judge] - after, 0.0)

    async def _stream(self, scheduler: str) -> None:
        for number in count():
            pod = make_pod(f"{scheduler}-{number}", cpu="1m", memory="1Mi", scheduler=scheduler)
            self.made += 1
            await asyncio.shield(self._api.create(pod))
            await self.wait(lambda: self.made - len(self.placed) < WAITING)

    async def _watch(self, version: str) -> None:
        async for events in self._api.follow(PODS, version):
            async with self.changed:
                for _, pod in events:
                    self._see(pod)
                self.changed.notify_all()

    def _see(self, pod: Object) -> None:
        node, annotations = node_of(pod), pod["metadata"].get("annotations", {})
        if not node:
            return
        judge = (annotations[NAME], int(annotations[GENERATION])) if NAME in annotations else None
        seen = self.placed.setdefault(key_of(pod), (judge, node))
        assert seen == (judge, node)
        if judge is not None:
            self.first.setdefault(judge, self._loop.time())


async def test_each_pod_is_judged_by_one_generation_and_the_newest_within_a_second(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    pools = {f"n{number}": f"p{number}" for number in range(1, POOLS + 1)}
    await api.create_many(
        make_node(name, cpu=1000, memory="1000Gi", pods=100_000, labels={"pool": value})
        for name, value in pools.items()
    )
    await apply(control_plane, api, pool("mine", "mine", 1), pool("zzz", "mine", 9))
    rules: dict[Judge, str] = {("mine", 1): "p1", ("zzz", 1): "p9"}
    swaps: list[tuple[float, float]] = []
    traffic = Traffic(api)
    berth_process()

    async def change(manifest: Object, generation: int, number: int) -> None:
        judge = (manifest["metadata"]["name"], generation)
        rules[judge] = f"p{number}"
        swaps.append(await traffic.first_after(apply(control_plane, api, manifest), judge))
        await more_pods()

    async def more_pods() -> None:
        enough = len(traffic.placed) + 2 * WAITING
        await traffic.wait(lambda: len(traffic.placed) >= enough)

    async with traffic.flowing("mine", "berth"):
        await traffic.wait(lambda: ("mine", 1) in traffic.first)
        for generation in (2, 3, 4):  # edited
            await change(pool("mine", "mine", generation), generation, generation)
        await apply(control_plane, api, policy("mine", "mine", {"name": "Astrology"}))  # broken: generation 5
        await wait_for_condition(api, "mine", "Accepted", "False", "Invalid")
        await more_pods()  # the last good one goes on
        await change(pool("mine", "mine", 5), 6, 5)  # repaired
        rules["aaa", 1], rules["mine", 7] = "p6", "p7"  # two at once: one that comes first, and an edit of the other
        await traffic.first_after(
            apply(control_plane, api, pool("aaa", "mine", 6), pool("mine", "mine", 7)), ("aaa", 1)
        )
        swaps.append(await traffic.first_after(api.delete(f"{POLICIES}/aaa"), ("mine", 7)))
        swaps.append(await traffic.first_after(api.delete(f"{POLICIES}/mine"), ("zzz", 1)))

    wrong = {
        pod: (judge, node)
        for pod, (judge, node) in traffic.placed.items()
        if (judge is not None) != pod.startswith("default/mine-") or (judge and rules.get(judge) != pools[node])
    }
    assert not wrong
    assert {judge for judge, _ in traffic.placed.values() if judge} == rules.keys()
    assert len(traffic.placed) == traffic.made == len(await api.list(PODS))
    assert await bound_twice(api) == []
    print(f"\n{traffic.made} pods, {len(rules)} generations; seconds from the change to the first pod placed by it:")
    print(
        "  asked for", *(f"{asked:.3f}" for asked, _ in swaps), " acknowledged", *(f"{done:.3f}" for _, done in swaps)
    )
    assert statistics.median(done for _, done in swaps) < SWAP_SECONDS
