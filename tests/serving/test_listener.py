"""Limits: how many may come, how long they may take, how much they may say; and long answers."""

import asyncio
import logging
import ssl
import threading
from collections.abc import Iterator

import pytest

from berth.serving import listener
from berth.serving.certificates import SelfMadeCertificates
from berth.serving.loop_watchdog import LoopWatchdog
from serving.harness import LIMIT_SECONDS, RunningServer, serving, trusting, until

REQUEST = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


async def connect(running: RunningServer, *, plain: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if plain:
        return await asyncio.open_connection("127.0.0.1", running.server.http_port)
    return await asyncio.open_connection("127.0.0.1", running.server.https_port, ssl=trusting())


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server hangs up."""
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            return await reader.read()
    except ConnectionError:
        return b""


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("said", [b"", b"GET /livez HT", b"PUT /log-level HTTP/1.1\r\nHost: x\r\n"])
async def test_a_slow_request_is_dropped(monkeypatch: pytest.MonkeyPatch, plain: bool, said: bytes) -> None:
    monkeypatch.setattr(listener, "REQUEST_SECONDS", 0.1)
    async with serving() as running:
        reader, writer = await connect(running, plain=plain)
        writer.write(said)
        assert await rest(reader) == b""
        writer.close()
        await until(lambda: running.server.statistics()["open"] == 0)


async def test_a_connection_without_a_handshake_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.1)
    async with serving() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.https_port)
        assert await rest(reader) == b""
        writer.close()
        await until(lambda: running.server.statistics()["open"] == 0)
        assert running.counts["handshake_failed"] == 1


async def test_a_slow_reader_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "ANSWER_SECONDS", 0.2)

    def endless() -> Iterator[str]:
        while True:
            yield "x" * 1000

    async with serving(debug=True, cache_lines=endless) as running:
        _, writer = await connect(running)
        writer.write(b"GET /debug/cache HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n")
        await until(lambda: running.counts.get("timed_out") == 1)
        await until(lambda: running.server.statistics()["open"] == 0)
        writer.close()


async def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "ANSWER_SECONDS", 0.2)
    async with serving() as running:
        reader, writer = await connect(running)
        writer.write(
            b"PUT /log-level HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nAuthorization: Bearer admin-token\r\n\r\nde"
        )
        assert await rest(reader) == b""
        writer.close()


async def test_connections_held_open_keep_no_other_client_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 5)
    async with serving() as running:
        idlers = [await connect(running) for _ in range(5)]
        await until(lambda: running.server.statistics()["open"] == 5)
        assert await running.get("/livez", plain=True) == (200, "ok")
        assert running.counts["displaced"] == 1
        assert await rest(idlers[0][0]) == b""  # the one who has waited longest
        idlers[1][1].write(REQUEST)
        assert (await idlers[1][0].readline()).startswith(b"HTTP/1.1 200")
        for _, writer in idlers:
            writer.close()


async def test_connections_without_a_handshake_keep_no_other_client_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 5)
    async with serving() as running:
        idlers = [await asyncio.open_connection("127.0.0.1", running.server.https_port) for _ in range(7)]
        await until(lambda: running.counts.get("displaced") == 2)
        assert [await rest(reader) for reader, _ in idlers[:2]] == [b"", b""]
        assert await running.get("/livez") == (200, "ok")
        assert await rest(idlers[2][0]) == b""
        assert running.server.statistics()["open"] <= 5
        for _, writer in idlers:
            writer.close()


async def test_at_the_limit_connections_that_are_being_answered_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 2)
    async with serving() as running:
        running.reviews.gate = asyncio.Event()
        asking = [asyncio.create_task(running.get("/configz", token, plain=True)) for token in ("admin-token", "x")]
        await until(lambda: len(running.reviews.asked) == 2)
        reader, writer = await connect(running)
        assert await rest(reader) == b""
        writer.close()
        assert running.counts["turned_away"] == 1
        running.reviews.gate.set()
        assert [status for status, _ in await asyncio.gather(*asking)] == [200, 401]


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 10_000 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(1000)) + b"\r\n",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /livez HTTP/9.9\r\nHost: x\r\n\r\n",
    ],
)
async def test_what_is_too_large_or_no_request_is_400_and_not_logged(
    request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving() as running:
        reader, writer = await connect(running)
        writer.write(request_)
        answer = await rest(reader)
        writer.close()
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400")), answer[:80]
        assert b"Server: berth" in answer
        assert running.counts["malformed"] == 1
        assert await running.get("/livez", plain=True) == (200, "ok")
    assert not [record for record in caplog.records if record.name.startswith(("aiohttp", "berth"))]


async def test_an_error_inside_is_one_answer_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> dict[str, object]:
        raise KeyError("surprise")

    async with serving(statistics=broken) as running:
        assert await running.get("/metrics", "admin-token") == (500, "an error inside; the log says more\n")
        assert (await running.get("/livez"))[0] == 200
        assert running.counts["failed"] == 1
    assert caplog.text.count("could not be answered: KeyError") == 1


async def test_a_dump_is_streamed_and_leaves_the_loop_to_others_in_between() -> None:
    turns = 0

    def count_turns() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(count_turns)

    seen: list[int] = []

    def lines() -> Iterator[str]:
        for number in range(1000):
            seen.append(turns)
            yield f"line {number} \u2603"

    async with serving(debug=True, cache_lines=lines, queue_lines=lambda: iter(["one"])) as running:
        asyncio.get_running_loop().call_soon(count_turns)
        status, text = await running.get("/debug/cache", "admin-token")
        assert (status, text) == (200, "".join(f"line {number} \u2603\n" for number in range(1000)))
        assert len(set(seen)) == 20  # fifty lines at a time
        assert await running.get("/debug/queue", "admin-token") == (200, "one\n")
        assert (await running.get("/debug/queue", "guest-token"))[0] == 403


async def test_a_dump_that_breaks_off_is_seen_to_be_cut() -> None:
    def lines() -> Iterator[str]:
        yield from ("line" for _ in range(200))
        raise KeyError("surprise")

    async with serving(debug=True, cache_lines=lines) as running:
        reader, writer = await connect(running)
        writer.write(b"GET /debug/cache HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n")
        answer = await rest(reader)
        writer.close()
        assert b"line" in answer
        assert not answer.endswith(b"0\r\n\r\n")


async def test_a_certificate_that_cannot_be_made_costs_one_connection(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [KeyError("surprise")]
    good = SelfMadeCertificates.context

    def fail_once(certificates: SelfMadeCertificates) -> ssl.SSLContext:
        if problems:
            raise problems.pop()
        return good(certificates)

    monkeypatch.setattr(SelfMadeCertificates, "context", fail_once)
    async with serving() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.https_port)
        assert await rest(reader) == b""
        writer.close()
        assert (await running.get("/livez"))[0] == 200
    assert "A connection could not be begun: KeyError('surprise')" in caplog.text


class BrittleWatchdog(LoopWatchdog):
    is_broken = False

    @property
    def silent_seconds(self) -> float:
        if self.is_broken:
            raise KeyError("surprise")
        return super().silent_seconds


async def test_serving_that_ends_by_itself_is_said(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = BrittleWatchdog()
    async with serving(watchdog=watchdog):
        watchdog.is_broken = True
        await until(lambda: "Serving has ended with an error" in caplog.text)
        await until(lambda: "serving" not in {thread.name for thread in threading.enumerate()})


async def test_a_stop_ends_all_connections() -> None:
    async with serving() as running:
        idle = await connect(running, plain=False)
        running.reviews.gate = asyncio.Event()
        waiting = await connect(running)
        waiting[1].write(b"GET /configz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n")
        await until(lambda: len(running.reviews.asked) == 1)
    assert await rest(idle[0]) == b""
    assert await rest(waiting[0]) == b""
    for _, writer in (idle, waiting):
        writer.close()
