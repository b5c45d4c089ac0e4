"""Writes of which only the latest counts, one at a time for each key."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from berth.cluster import outbox as outbox_module
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.gate import BIND, WriteGate
from berth.cluster.outbox import Outbox
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import NotLeading
from cluster.manual_clock import ManualClock
from cluster.server import until


class Harness:
    """Writes that end when the test says so."""

    def __init__(self, clock: ManualClock) -> None:
        self.begun: list[str] = []
        self.faults = ErrorLog()
        self.answers: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.gate = WriteGate(clock)
        self.outbox: Outbox[str] = Outbox("letter", self.write, clock, self.faults, self.gate)

    async def write(self, key: str, item: str) -> None:
        self.begun.append(item)
        answer = await self.answers.get()
        if answer is not None:
            raise answer


@pytest.fixture
async def harness(clock: ManualClock) -> AsyncIterator[Harness]:
    harness = Harness(clock)
    harness.gate.start()
    harness.outbox.start()
    yield harness
    await harness.outbox.stop()
    await harness.gate.stop()


async def test_a_write_on_its_way_is_awaited_by_who_settles_the_key(harness: Harness) -> None:
    harness.outbox.put("k", "first")
    await until(lambda: harness.begun == ["first"])
    settling = asyncio.create_task(harness.outbox.settle("k"))
    await asyncio.sleep(0)
    assert not settling.done()
    harness.answers.put_nowait(None)
    await settling
    assert harness.outbox.counts == {"written": 1}


async def test_a_write_that_fails_while_the_key_is_settled_is_not_repeated(
    harness: Harness, clock: ManualClock
) -> None:
    harness.outbox.put("k", "first")
    await until(lambda: harness.begun == ["first"])
    settling = asyncio.create_task(harness.outbox.settle("k"))
    await asyncio.sleep(0)
    harness.answers.put_nowait(Unreachable("cut"))
    await settling
    await until(lambda: len(harness.outbox) == 0)
    await clock.advance(60)
    assert harness.begun == ["first"]


async def test_the_latest_waits_for_the_one_on_its_way(harness: Harness) -> None:
    harness.outbox.put("k", "first")
    await until(lambda: harness.begun == ["first"])
    harness.outbox.put("k", "second")
    harness.outbox.put("k", "third")
    assert harness.begun == ["first"]
    harness.answers.put_nowait(None)
    harness.answers.put_nowait(None)
    await until(lambda: len(harness.outbox) == 0)
    assert harness.begun == ["first", "third"]


async def test_keys_do_not_wait_for_each_other(harness: Harness) -> None:
    harness.outbox.put("a", "to a")
    harness.outbox.put("b", "to b")
    await until(lambda: harness.begun == ["to a", "to b"])


async def test_a_key_that_is_settled_can_be_written_about_again(harness: Harness) -> None:
    harness.answers.put_nowait(None)
    await harness.outbox.settle("k")
    harness.outbox.put("k", "new")
    await until(lambda: harness.outbox.counts == {"written": 1})


async def test_keys_that_fail_do_not_hold_up_the_others(harness: Harness, clock: ManualClock) -> None:
    for number in range(5):
        harness.answers.put_nowait(ApiError(503, "Unavailable", "x"))
        harness.outbox.put(f"bad-{number}", f"bad-{number}")
    await until(lambda: harness.outbox.counts["retried"] == 5)
    harness.answers.put_nowait(None)
    harness.outbox.put("good", "good")
    await until(lambda: harness.outbox.counts["written"] == 1)
    assert len(harness.outbox) == 5
    for _ in range(5):
        harness.answers.put_nowait(None)
    await until(lambda: clock.sleeping == 1)
    await clock.advance(0.5)
    await until(lambda: len(harness.outbox) == 0)
    assert harness.outbox.counts["written"] == 6


async def test_what_is_forbidden_is_given_up_after_a_few_attempts(
    harness: Harness, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for key in ("a", "b"):
        harness.outbox.put(key, key)
        for attempt in range(1, outbox_module.ATTEMPTS + 1):
            harness.answers.put_nowait(ApiError(403, "Forbidden", "no"))
            await until(lambda attempt=attempt: harness.begun.count(key) == attempt)  # type: ignore[misc] # noqa: B023
            await until(lambda: clock.sleeping == 1 or len(harness.outbox) == 0)
            await clock.advance(15)
    assert len(harness.outbox) == 0
    assert harness.outbox.counts == {"retried": 2 * (outbox_module.ATTEMPTS - 1), "refused": 2}
    assert [record.levelname for record in caplog.records if "given up" in record.message] == ["ERROR", "ERROR"]


async def test_a_thousand_refusals_are_one_complaint_a_minute(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1000):
        harness.answers.put_nowait(ApiError(422, "Invalid", "no"))
        harness.outbox.put(str(number), "x")
    await until(lambda: harness.outbox.counts["refused"] == 1000)
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


async def test_an_error_that_nobody_expects_costs_one_write_and_no_worker(harness: Harness, clock: ManualClock) -> None:
    harness.outbox.put("k", "first")
    for attempt in range(outbox_module.ATTEMPTS):
        harness.answers.put_nowait(KeyError("surprise"))
        await until(lambda attempt=attempt: harness.faults.counts["writing a letter"] == attempt + 1)  # type: ignore[misc]
        await until(lambda: clock.sleeping == 1 or len(harness.outbox) == 0)
        await clock.advance(15)
    assert harness.outbox.counts["refused"] == 1
    for key in ("a", "b", "c"):
        harness.answers.put_nowait(None)
        harness.outbox.put(key, key)
    await until(lambda: harness.outbox.counts["written"] == 3)


async def test_a_key_that_waits_to_be_tried_again_and_is_withdrawn_is_not_written(
    harness: Harness, clock: ManualClock
) -> None:
    harness.answers.put_nowait(Unreachable("cut"))
    harness.outbox.put("k", "old")
    await until(lambda: clock.sleeping == 1)
    harness.outbox.withdraw("k")
    await clock.advance(0.5)
    await until(lambda: len(harness.outbox) == 0)
    assert harness.begun == ["old"]


async def test_a_closed_fence_is_waited_for_and_what_waits_is_dropped_when_another_leads(
    harness: Harness, clock: ManualClock
) -> None:
    harness.outbox.put("k", "first")
    harness.answers.put_nowait(NotLeading("closed"))
    await until(lambda: clock.sleeping == 1)
    harness.answers.put_nowait(None)
    await clock.advance(1)
    await until(lambda: harness.outbox.counts["written"] == 1)
    harness.outbox.put("k", "second")
    harness.answers.put_nowait(NotLeading("closed"))
    await until(lambda: harness.outbox.waiting("k") == "second" and len(harness.begun) == 3)
    harness.outbox.withdraw_all()
    await clock.advance(60)
    await until(lambda: not len(harness.outbox))
    assert harness.begun == ["first", "first", "second"]


async def test_a_write_that_fails_does_not_replace_the_newer_one_that_waits(
    harness: Harness, clock: ManualClock
) -> None:
    harness.outbox.put("k", "old")
    await until(lambda: harness.begun == ["old"])
    harness.outbox.put("k", "new")
    harness.answers.put_nowait(Unreachable("cut"))
    await until(lambda: clock.sleeping == 1)
    harness.answers.put_nowait(None)
    await clock.advance(1)
    await until(lambda: len(harness.outbox) == 0)
    assert harness.begun == ["old", "new"]


async def test_a_write_that_arrives_gives_the_next_one_all_its_attempts(harness: Harness, clock: ManualClock) -> None:
    for item in ("first", "second"):
        harness.outbox.put("k", item)
        for _ in range(outbox_module.ATTEMPTS - 1):
            harness.answers.put_nowait(ApiError(403, "Forbidden", "no"))
            await until(lambda: clock.sleeping == 1)
            await clock.advance(15)
        harness.answers.put_nowait(None)
        await until(lambda: len(harness.outbox) == 0)
    assert harness.outbox.counts == {"retried": 2 * (outbox_module.ATTEMPTS - 1), "written": 2}


async def test_more_keys_than_may_wait_are_dropped_counted_and_complained_of_once(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(clock)
    harness.outbox = Outbox("letter", harness.write, clock, harness.faults, harness.gate, limit=2)
    for key in ("a", "b", "c", "d"):
        harness.outbox.put(key, key)
    harness.outbox.put("a", "newer")
    harness.outbox.put("urgent", "urgent", urgent=True)
    assert harness.outbox.counts == {"dropped": 2}
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "2 of kind letter wait to be written, more are dropped"
    ]
    for _ in range(3):
        harness.answers.put_nowait(None)
    harness.outbox.start()
    harness.gate.start()
    await until(lambda: len(harness.outbox) == 0)
    assert harness.begun == ["urgent", "newer", "b"]
    await harness.outbox.stop()
    await harness.gate.stop()


async def test_a_key_that_becomes_urgent_is_not_written_about_twice_at_once(harness: Harness) -> None:
    harness.outbox.put("k", "first")
    await until(lambda: harness.begun == ["first"])
    harness.outbox.put("k", "second", urgent=True)
    for _ in range(10):
        await asyncio.sleep(0)
    assert harness.begun == ["first"]
    harness.answers.put_nowait(None)
    harness.answers.put_nowait(None)
    await until(lambda: len(harness.outbox) == 0)
    assert harness.begun == ["first", "second"]


async def test_a_key_that_becomes_urgent_while_it_waits_is_written_once(harness: Harness) -> None:
    harness.gate.begin(BIND)
    harness.outbox.put("k", "first")
    harness.outbox.put("k", "second", urgent=True)
    harness.answers.put_nowait(None)
    await until(lambda: len(harness.outbox) == 0)
    harness.gate.end(BIND)  # it is the turn of the first, about which nothing is left to be said
    harness.outbox.put("k", "third")
    harness.answers.put_nowait(None)
    await until(lambda: len(harness.outbox) == 0)
    assert harness.begun == ["second", "third"]
