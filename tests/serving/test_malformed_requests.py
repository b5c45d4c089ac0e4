"""Thousands of requests that nobody should send: no crash, no leak, and clear counts of what came."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from berth.serving import listener
from serving.harness import LIMIT_SECONDS, RunningServer, serving, trusting, until
from serving.malformed import Malformed, make
from support.examples import examples

REQUESTS = examples(10_000)
AT_ONCE = 60
WARM_UP = 1000
LEAKED_OBJECTS = 3000
LEAKED_BYTES = 20_000_000  # 2 KB a request; what is freed is left in pieces in a process that has run other tests
STATUSES = {"200", "400", "401", "404", "405", "413", "503"}


async def send(running: RunningServer, malformed: Malformed) -> None:
    """Send it, and wait until the server answers or has had enough."""
    port = running.server.https_port if malformed.is_tls or malformed.to_https else running.server.http_port
    tls = trusting_client if malformed.is_tls else None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    except OSError:
        return  # accepted, but on a slow machine the handshake may take longer than it is given here
    try:
        size = max(1, len(malformed.data) // malformed.parts)
        for start in range(0, len(malformed.data), size):
            writer.write(malformed.data[start : start + size])
            await writer.drain()
        if malformed.ends and not malformed.is_tls:
            writer.write_eof()
        await reader.read(1)
    except OSError:
        pass  # it has had enough of us
    finally:
        writer.transport.abort()


trusting_client = trusting()


async def storm(running: RunningServer, numbers: range) -> None:
    waiting = iter(numbers)

    async def send_one_by_one() -> None:
        for number in waiting:
            async with asyncio.timeout(LIMIT_SECONDS):
                await send(running, make(number))

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(send_one_by_one())


@dataclass(frozen=True)
class Measure:
    objects: int
    memory_bytes: int
    descriptors: int
    tasks: int


def count_tasks() -> int:
    """Those of other loops than this one: of the server's."""
    ours = asyncio.get_running_loop()
    tasks = [each for each in gc.get_objects() if type(each) is asyncio.Task]
    return sum(1 for task in tasks if task.get_loop() is not ours and not task.done())


async def measure(running: RunningServer, idle_tasks: int) -> Measure:
    """What there is of the whole process when everybody has gone, and of the server's loop."""
    await until(lambda: running.server.statistics()["open"] == 0)
    # A client that is dropped is not counted any more, and the task of its connection ends a few turns later.
    await until(lambda: count_tasks() <= idle_tasks)
    return _measure(count_tasks())


def _measure(tasks: int) -> Measure:
    gc.collect()
    # What the allocator keeps for later is no leak, and varies by tens of megabytes.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Measure(len(gc.get_objects()), memory, len(os.listdir("/proc/self/fd")), tasks)


async def test_thousands_of_malformed_requests_break_nothing(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.5)
    caplog.set_level(logging.INFO)
    threads = threading.active_count()
    async with serving(debug=True) as running:
        idle_tasks = count_tasks()
        await storm(running, range(WARM_UP))  # caches fill here
        before = await measure(running, idle_tasks)
        await storm(running, range(WARM_UP, REQUESTS))
        after = await measure(running, idle_tasks)
        assert after.objects - before.objects < LEAKED_OBJECTS
        assert after.memory_bytes - before.memory_bytes < LEAKED_BYTES
        assert (after.descriptors, after.tasks) == (before.descriptors, before.tasks)
        assert await running.get("/livez") == await running.get("/livez", plain=True) == (200, "ok")
        assert (await running.get("/metrics", "admin-token"))[0] == 200
        counts = running.counts
        access = running.server.statistics()["access"]
    with capsys.disabled():
        print(f"\n{REQUESTS} malformed requests: {dict(sorted(counts.items()))}, access {access}, ", end="")
        print(f"{before}, then {after}")
    assert counts["connections"] == REQUESTS + 3
    assert counts["malformed"] > REQUESTS // 10
    assert counts["handshake_failed"] > REQUESTS // 10
    assert {status for status in counts if status.isdigit()} <= STATUSES
    assert "failed" not in counts
    assert "lost_errors" not in counts
    assert access.get("admitted") == 1
    assert threading.active_count() <= threads + 1  # the executor's, which joined the server's
    assert not [record for record in caplog.records if record.name.startswith(("berth", "aiohttp", "asyncio"))]
