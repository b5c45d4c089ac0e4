"""Writes of which only the latest counts, one at a time for each key."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from berth.cluster.errors import Unreachable
from berth.cluster.outbox import Outbox
from edge.manual_clock import ManualClock
from edge.server import until


class Desk:
    """Writes that end when the test says so."""

    def __init__(self, clock: ManualClock) -> None:
        self.begun: list[str] = []
        self.answers: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.outbox: Outbox[str] = Outbox("letter", self._write, clock, workers=2)

    async def _write(self, key: str, item: str) -> None:
        self.begun.append(item)
        answer = await self.answers.get()
        if answer is not None:
            raise answer


@pytest.fixture
async def desk(clock: ManualClock) -> AsyncIterator[Desk]:
    desk = Desk(clock)
    desk.outbox.start()
    yield desk
    await desk.outbox.stop()


async def test_a_write_on_its_way_is_awaited_by_who_settles_the_key(desk: Desk) -> None:
    desk.outbox.put("k", "first")
    await until(lambda: desk.begun == ["first"])
    settling = asyncio.create_task(desk.outbox.settle("k"))
    await asyncio.sleep(0)
    assert not settling.done()
    desk.answers.put_nowait(None)
    await settling
    assert desk.outbox.counts == {"written": 1}


async def test_a_write_that_fails_while_the_key_is_settled_is_not_repeated(desk: Desk, clock: ManualClock) -> None:
    desk.outbox.put("k", "first")
    await until(lambda: desk.begun == ["first"])
    settling = asyncio.create_task(desk.outbox.settle("k"))
    await asyncio.sleep(0)
    desk.answers.put_nowait(Unreachable("cut"))
    await settling
    await until(lambda: len(desk.outbox) == 0)
    await clock.advance(60)
    assert desk.begun == ["first"]


async def test_the_latest_waits_for_the_one_on_its_way(desk: Desk) -> None:
    desk.outbox.put("k", "first")
    await until(lambda: desk.begun == ["first"])
    desk.outbox.put("k", "second")
    desk.outbox.put("k", "third")
    assert desk.begun == ["first"]
    desk.answers.put_nowait(None)
    desk.answers.put_nowait(None)
    await until(lambda: len(desk.outbox) == 0)
    assert desk.begun == ["first", "third"]


async def test_keys_do_not_wait_for_each_other(desk: Desk) -> None:
    desk.outbox.put("a", "to a")
    desk.outbox.put("b", "to b")
    await until(lambda: desk.begun == ["to a", "to b"])


async def test_a_key_that_is_settled_can_be_written_about_again(desk: Desk) -> None:
    desk.answers.put_nowait(None)
    await desk.outbox.settle("k")
    desk.outbox.put("k", "new")
    await until(lambda: desk.outbox.counts == {"written": 1})
