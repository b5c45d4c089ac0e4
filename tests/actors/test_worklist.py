"""The list of keys to look at."""

from __future__ import annotations

import asyncio

from berth.sim.actors.worklist import Worklist
from scheduler.virtual_clock import VirtualClock, settle


async def taken(work: Worklist[str], clock: VirtualClock, seconds: float = 0.0) -> str | None:
    """The next key within so many seconds."""
    take = asyncio.create_task(work.take())
    await settle()
    await clock.advance(seconds)
    if take.done():
        return take.result()
    take.cancel()
    await asyncio.gather(take, return_exceptions=True)
    return None


async def test_a_key_is_taken_when_its_time_has_come_and_the_earliest_time_wins() -> None:
    clock = VirtualClock()
    work: Worklist[str] = Worklist(clock)
    work.add("a", 10.0)
    work.add("a", 5.0)
    work.add("a", 20.0)

    assert await taken(work, clock, 4.0) is None
    assert await taken(work, clock, 1.0) == "a"
    work.done("a")
    assert await taken(work, clock, 100.0) is None


async def test_a_key_that_is_added_while_in_work_is_taken_again_after_it_is_done() -> None:
    clock = VirtualClock()
    work: Worklist[str] = Worklist(clock)
    work.add("a")
    assert await taken(work, clock) == "a"

    work.add("a")
    work.add("a")
    assert await taken(work, clock) is None
    work.done("a")

    assert await taken(work, clock) == "a"
    work.done("a")
    assert await taken(work, clock) is None
    assert len(work) == 0


async def test_keys_are_taken_in_the_order_of_their_times() -> None:
    clock = VirtualClock()
    work: Worklist[str] = Worklist(clock)
    for key, seconds in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
        work.add(key, seconds)
    await clock.advance(5.0)

    assert [await taken(work, clock) for _ in range(3)] == ["early", "middle", "late"]


async def test_one_who_waits_is_woken_by_a_key_that_is_added_now() -> None:
    clock = VirtualClock()
    work: Worklist[str] = Worklist(clock)
    work.add("far", 1000.0)
    take = asyncio.create_task(work.take())
    await settle()

    work.add("near")
    await settle()

    assert take.result() == "near"
