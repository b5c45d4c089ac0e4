"""The seeded loop: time that nobody waits for, chance that repeats itself, and processes that can be killed."""

import asyncio

import pytest

from berth.sim.loop import Process, SeededLoop, Stuck
from berth.sim.virtual_clock import START, VirtualClock


def order_of(seed: int) -> list[int]:
    loop, seen = SeededLoop(seed), list[int]()

    async def main() -> None:
        for number in range(10):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1.0)

    loop.run_until_complete(main())
    loop.close()
    return seen


def test_what_is_ready_runs_in_an_order_that_the_seed_decides() -> None:
    assert order_of(1) == order_of(1)
    assert order_of(1) != order_of(2)
    assert sorted(order_of(1)) == list(range(10))


def test_an_hour_passes_at_once() -> None:
    loop = SeededLoop()
    clock = VirtualClock(loop)
    loop.run_until_complete(clock.sleep(3600.0))
    assert clock.now() == 3600.0
    assert (clock.wall() - START).total_seconds() == 3600.0
    loop.close()


def test_the_time_of_day_may_jump_back_and_the_monotonic_time_does_not() -> None:
    loop = SeededLoop()
    clock = VirtualClock(loop)
    clock.jump(-60.0)
    assert (clock.wall() - START).total_seconds() == -60.0
    assert clock.now() == 0.0
    loop.close()


def test_a_killed_process_does_nothing_more_not_even_at_its_end() -> None:
    loop, done = SeededLoop(), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(10.0)
            done.append("worked")
        finally:
            done.append("cleared away")

    async def main() -> None:
        process = Process(loop, "berth-0")
        process.start(work())
        await asyncio.sleep(5.0)
        process.kill()
        await asyncio.sleep(20.0)
        assert done == []
        process.exhume()
        await asyncio.wait(process.tasks())

    loop.run_until_complete(main())
    assert done == ["worked", "cleared away"]
    loop.close()


def test_what_a_killed_process_had_sent_arrives_all_the_same() -> None:
    loop, arrived = SeededLoop(), list[str]()

    async def send() -> None:
        loop.call_outside(3.0, arrived.append, "request")

    async def main() -> None:
        process = Process(loop, "berth-0")
        process.start(send())
        await asyncio.sleep(1.0)
        process.kill()
        await asyncio.sleep(5.0)
        process.exhume()

    loop.run_until_complete(main())
    assert arrived == ["request"]
    loop.close()


def test_a_paused_process_goes_on_late() -> None:
    loop, times = SeededLoop(), list[float]()

    async def tick() -> None:
        while len(times) < 2:
            await asyncio.sleep(1.0)
            times.append(loop.time())

    async def main() -> None:
        process = Process(loop, "berth-0")
        ticking = process.start(tick())
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(10.0)
        process.resume()
        await ticking

    loop.run_until_complete(main())
    assert times == [1.0, 11.5]
    loop.close()


def test_a_wait_that_nothing_can_end_is_noticed() -> None:
    loop = SeededLoop()
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())
    loop.close()
