"""What has to wait waits aside, comes back in order, and not all at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from berth.cluster.delays import AT_ONCE, LONGEST_PAUSE_SECONDS, Delays, pause_seconds
from cluster.manual_clock import ManualClock
from cluster.server import until


class Harness:
    def __init__(self, clock: ManualClock) -> None:
        self.released: list[str] = []
        self.delays: Delays[str] = Delays(clock, self.released.append)


@pytest.fixture
async def harness(clock: ManualClock) -> AsyncIterator[Harness]:
    harness = Harness(clock)
    running = asyncio.create_task(harness.delays.run())
    yield harness
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_items_come_back_when_they_are_due(harness: Harness, clock: ManualClock) -> None:
    harness.delays.add("late", 5)
    await until(lambda: clock.sleeping == 1)
    harness.delays.add("early", 1)
    await clock.advance(0)
    await clock.advance(1)
    assert harness.released == ["early"]
    await clock.advance(4)
    assert (harness.released, len(harness.delays)) == (["early", "late"], 0)


async def test_thousands_that_are_due_together_come_back_in_steps(harness: Harness, clock: ManualClock) -> None:
    for number in range(3 * AT_ONCE):
        harness.delays.add(str(number), 1)
    await until(lambda: clock.sleeping == 1)
    released = []
    for seconds in (1.0, 0.5, 0.5):
        await clock.advance(seconds)
        released.append(len(harness.released))
    assert released == [AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE]


def test_pauses_double_and_heed_the_server_up_to_a_limit() -> None:
    assert [pause_seconds(failures) for failures in (1, 2, 3, 100)] == [0.5, 1.0, 2.0, LONGEST_PAUSE_SECONDS]
    assert pause_seconds(1, 7.0) == 7.0
    assert pause_seconds(4, 1.0) == 4.0
    assert pause_seconds(1, 3600.0) == LONGEST_PAUSE_SECONDS
