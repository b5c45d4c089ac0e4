"""Both transports, on a server that speaks bytes: whatever it does, a request ends in an answer or in an exception."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from berth.cluster import connection as connection_module
from berth.cluster import pool as pool_module
from berth.cluster.api import Api, OpenTransport
from berth.cluster.connection import open_connection
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import CredentialsError, Unreachable
from berth.cluster.http1 import Answer, Request
from berth.cluster.pool import DirectTransport, host_header
from berth.cluster.transport import Misconfigured, Transport, server_url
from berth.scheduler.ports import NotLeading
from cluster.server import TRANSPORTS, until, write_kubeconfig
from cluster.wire import OK, Script, Wire, answering, configuration, make_certificates, wired

POST = Request("POST", "/x", None, "application/json", "berth/1", None, "application/json", b"{}")
LIMIT_SECONDS = 20.0


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> OpenTransport:
    return TRANSPORTS[request.param]


@pytest.fixture
def direct() -> OpenTransport:
    return TRANSPORTS["direct"]


@asynccontextmanager
async def opened(make: OpenTransport, address: str, *, ahead: int = 0, **fields: Any) -> AsyncIterator[Transport]:
    made = make(configuration(address, **fields), connections=8, ahead=ahead, delivery_seconds=None)
    try:
        yield made
    finally:
        await made.close()


async def ask(
    transport: Transport, request: Request = POST, *, limit: float = LIMIT_SECONDS, fence: Any = None
) -> Answer:
    return await transport.exchange(request, limit, fence or (lambda: None))


@asynccontextmanager
async def connected(make: OpenTransport, script: Script, **options: Any) -> AsyncIterator[tuple[Transport, Wire]]:
    async with wired(script) as wire, opened(make, f"http://127.0.0.1:{wire.port}", **options) as transport:
        yield transport, wire


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_a_connection_is_kept_for_the_next_request(transport: OpenTransport) -> None:
    async with connected(transport, answering(OK)) as (made, wire):
        for _ in range(5):
            assert await ask(made) == Answer(200, "OK", b"{}", 0.0)
        assert (len(wire.requests), wire.connections) == (5, 1)


@pytest.mark.parametrize(
    ("raw", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{} \r\n0\r\n\r\n", 200, b"{} "),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", 200, b"{}"),
        (b"HTTP/1.0 503 Away\r\nConnection: close\r\n\r\n", 503, b""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/y\r\nContent-Length: 0\r\n\r\n", 302, b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    ],
)
async def test_every_form_of_answer_is_read_and_none_is_followed(
    transport: OpenTransport, raw: bytes, status: int, body: bytes
) -> None:
    async with connected(transport, answering(raw, OK)) as (made, wire):
        found = await ask(made)
        assert (found.status, found.raw) == (status, body)
        assert (await ask(made)).status == 200
        assert len(wire.requests) == 2


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: onnection: close\r\n\r\n5\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\nConnection: close\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n\r\nConnection: close",
    ],
)
async def test_what_is_no_answer_fails_the_request_which_is_not_repeated(
    transport: OpenTransport, raw: bytes | None
) -> None:
    async with connected(transport, answering(OK, raw, OK)) as (made, wire):
        await ask(made)
        with pytest.raises(Exception):  # noqa: B017, PT011 - of any kind: Api makes one of them
            await ask(made)
        assert len(wire.requests) == 2
        assert (await ask(made)).status == 200


@pytest.mark.parametrize("length", [900_000, 8_000_000])
async def test_a_long_request_and_a_long_answer_arrive(transport: OpenTransport, length: int) -> None:
    data = b"x" * length
    if length > 2**20 and transport is TRANSPORTS["aiohttp"]:
        pytest.skip("aiohttp warns of it")

    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await wire.read(reader):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + request.partition(b"\r\n\r\n")[2])
            await writer.drain()

    async with connected(transport, serve) as (made, _):
        for _ in range(2):
            assert (await ask(made, POST._replace(data=data))).raw == data


async def test_an_answer_before_the_end_of_a_long_request_counts(direct: OpenTransport) -> None:
    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        while await reader.read(65536):
            pass

    async with connected(direct, serve) as (made, _):
        assert (await ask(made, POST._replace(data=b"x" * 30_000_000))).status == 413


# --- connections that end --------------------------------------------------------------------------------------------


async def test_a_kept_connection_that_the_server_closed_is_not_used_again(transport: OpenTransport) -> None:
    close = asyncio.Event()

    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await wire.read(reader)
        writer.write(OK)
        await close.wait()

    async with connected(transport, serve) as (made, wire):
        await ask(made)
        close.set()
        await until(lambda: wire.ended == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        await ask(made)
        assert (len(wire.requests), wire.connections) == (2, 2)


async def test_a_request_that_is_cancelled_takes_its_connection_with_it(transport: OpenTransport) -> None:
    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await wire.read(reader):
            if len(wire.requests) == 2:
                writer.write(OK)

    async with connected(transport, serve) as (made, wire):
        waiting = asyncio.create_task(ask(made))
        await until(lambda: len(wire.requests) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: wire.ended == 1)
        assert (await ask(made)).raw == b"{}"


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
async def test_a_server_that_stops_talking_is_waited_for_until_the_limit(
    transport: OpenTransport, begun: bytes
) -> None:
    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await wire.read(reader)
        writer.write(OK)
        await wire.read(reader)
        writer.write(begun)
        await wire.read(reader)

    async with connected(transport, serve) as (made, wire):
        await ask(made)
        with pytest.raises(TimeoutError):
            await ask(made, limit=0.1)
        await until(lambda: wire.ended == 1)  # nothing of it can arrive later


async def test_a_connection_that_cannot_be_secured_in_time_is_given_up_with_the_request(
    transport: OpenTransport,
) -> None:
    async with wired(answering(OK)) as wire, opened(transport, f"https://127.0.0.1:{wire.port}") as made:
        with pytest.raises(TimeoutError):
            await ask(made, limit=0.1)


async def test_closing_ends_what_is_under_way(transport: OpenTransport) -> None:
    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await wire.read(reader):
            pass

    async with connected(transport, serve) as (made, wire):
        waiting = asyncio.create_task(ask(made))
        await until(lambda: len(wire.requests) == 1)
        await made.close()
        assert made.is_closed
        with pytest.raises(Exception):  # noqa: B017, PT011
            await waiting
        with pytest.raises(Exception):  # noqa: B017, PT011
            await ask(made)


# --- the fence -------------------------------------------------------------------------------------------------------


async def test_who_is_asked_before_sending_is_asked_with_the_connection_open_and_nothing_sent(
    transport: OpenTransport,
) -> None:
    received: list[bytes] = []

    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(10))

    def refuse() -> None:
        raise NotLeading("closed")

    async with connected(transport, serve) as (made, wire):
        with pytest.raises(NotLeading):
            await ask(made, fence=refuse)
        await until(lambda: wire.connections == 1)
        await made.close()
        await until(lambda: received == [b""])


# --- TLS -------------------------------------------------------------------------------------------------------------


def secured(folder: Path, *names: str, clients: Path | None = None) -> ssl.SSLContext:
    made = make_certificates(folder, *names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    return context


async def test_a_server_is_trusted_by_its_authority_and_a_client_by_his_certificate(
    transport: OpenTransport, tmp_path: Path
) -> None:
    ours = make_certificates(tmp_path / "client", "berth")
    tls = secured(tmp_path / "server", "127.0.0.1", clients=ours.authority)
    files: dict[str, Any] = {"cert_file": str(ours.certificate), "key_file": str(ours.key)}
    authority = str(tmp_path / "server" / "authority.pem")
    async with wired(answering(OK), tls=tls) as wire:
        address = f"https://127.0.0.1:{wire.port}"
        async with opened(transport, address, ssl_ca_cert=authority, **files) as made:
            for _ in range(3):
                assert (await ask(made)).raw == b"{}"
            assert wire.connections == 1
        async with opened(transport, address, ssl_ca_cert=authority) as made:
            with pytest.raises(Exception):  # noqa: B017, PT011 - the server wants to know who we are
                await ask(made)


@pytest.mark.parametrize("name", ["127.0.0.1", "elsewhere.example"])
async def test_a_certificate_of_another_authority_or_name_is_no_use_to_wait_for(
    transport: OpenTransport, tmp_path: Path, name: str
) -> None:
    tls = secured(tmp_path / "server", name)
    known = tmp_path / "server" / "authority.pem" if name != "127.0.0.1" else None
    async with wired(answering(OK), tls=tls) as wire:
        address = f"https://127.0.0.1:{wire.port}"
        async with opened(transport, address, ssl_ca_cert=str(known) if known else None) as made:
            with pytest.raises(Misconfigured):
                await ask(made)
        async with opened(transport, address, verify_ssl=False) as made:
            assert (await ask(made)).raw == b"{}"


async def test_a_host_without_an_address_is_no_use_to_wait_for(transport: OpenTransport) -> None:
    async with opened(transport, "http://no-such-host.invalid:1") as made:
        with pytest.raises(Misconfigured):
            await ask(made)


async def test_an_https_server_behind_a_proxy_is_reached_by_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = secured(tmp_path / "server", "cluster.example")
    async with wired(answering(OK), tls=tls) as wire:

        async def tunnel(proxy: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await proxy.read(reader)
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", wire.port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

        async with wired(tunnel) as proxy:
            path = write_kubeconfig(
                tmp_path,
                "https://cluster.example:6443",
                cluster={
                    "proxy-url": f"http://127.0.0.1:{proxy.port}",
                    "certificate-authority": str(tmp_path / "server" / "authority.pem"),
                },
            )
            api = Api(Credentials(Source(str(path))))
            await api.open()
            assert await api.request("POST", "/x", body={}) == (200, {})
            await api.close()
            assert proxy.requests[0].startswith(b"CONNECT cluster.example:6443 HTTP/1.1\r\n")
            assert b"Bearer secret" not in proxy.requests[0]


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


# --- the pool of our own ---------------------------------------------------------------------------------------------


def pool(made: Transport) -> DirectTransport:
    assert isinstance(made, DirectTransport)
    return made


async def test_connections_are_opened_ahead_and_replaced_when_they_have_ended(
    direct: OpenTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MAINTENANCE_SECONDS", 3600.0)

    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if wire.connections > 2:
            await wire.read(reader)
            writer.write(OK)
            await wire.read(reader)

    async with connected(direct, serve, ahead=2) as (made, wire):
        await until(lambda: wire.ended == 2)  # the server did not want them
        await until(lambda: pool(made).statistics()["open"] == 0)
        pool(made).maintain()
        await until(lambda: wire.connections == 3)  # one at a time, while none is there
        await until(lambda: pool(made).statistics()["idle"] == 1)
        await ask(made)
        assert wire.connections == 3


async def test_a_connection_that_was_idle_for_long_is_closed(
    direct: OpenTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MAINTENANCE_SECONDS", 3600.0)
    async with connected(direct, answering(OK)) as (made, wire):
        await ask(made)
        pool(made).maintain()
        assert pool(made).statistics()["idle"] == 1
        monkeypatch.setattr(pool_module, "KEEP_ALIVE_SECONDS", -1.0)
        pool(made).maintain()
        await until(lambda: wire.ended == 1)


def record_sockets(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Those of connections that are opened from now on."""
    made: list[socket.socket] = []
    make = connection_module.make_socket

    def make_and_note(*info: Any) -> socket.socket:
        made.append(make(*info))
        return made[-1]

    monkeypatch.setattr(connection_module, "make_socket", make_and_note)
    return made


def break_all(sockets: list[socket.socket]) -> None:
    """Nothing can be sent on them any more, which shows only when it is tried."""
    for each in sockets:
        with contextlib.suppress(OSError):  # it was closed meanwhile
            each.shutdown(socket.SHUT_WR)


async def test_a_connection_that_breaks_before_a_byte_is_sent_costs_another_and_asks_again(
    direct: OpenTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = record_sockets(monkeypatch)
    asked: list[int] = []
    async with connected(direct, answering(OK)) as (made, wire):
        await asyncio.gather(ask(made), ask(made))
        idle = pool(made).statistics()["idle"]
        break_all(sockets)
        assert (await ask(made, fence=lambda: asked.append(len(wire.requests)))).raw == b"{}"
        assert asked == [2] * (idle + 1)
        assert len(wire.requests) == 3


async def test_connections_that_break_again_and_again_fail_the_request(
    direct: OpenTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = record_sockets(monkeypatch)
    async with connected(direct, answering(OK)) as (made, wire):
        with pytest.raises(ConnectionError, match="nothing was sent"):
            await ask(made, fence=lambda: break_all(sockets))
        assert wire.requests == []


async def test_no_more_connections_than_the_limit_and_requests_have_their_turn(direct: OpenTransport) -> None:
    async with connected(direct, answering(OK)) as (made, wire):
        assert len(await asyncio.gather(*(ask(made) for _ in range(50)))) == 50
        assert len(wire.requests) == 50
        assert wire.connections <= 8


@pytest.mark.parametrize("late", [False, True])
async def test_a_connection_for_a_request_that_is_cancelled_goes_to_the_next(late: bool) -> None:
    release = asyncio.Event()

    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await wire.read(reader):
            await release.wait()
            writer.write(OK)

    async with wired(serve) as wire:
        made = DirectTransport(configuration(f"http://127.0.0.1:{wire.port}"), connections=1)

        async def ask_first() -> Answer:
            answer = await ask(made)
            if late:  # in the step of the loop in which the second gets the connection
                assert made.statistics()["waiting"] == 1
                second.cancel()
            return answer

        first, second, third = (asyncio.create_task(asking) for asking in (ask_first(), ask(made), ask(made)))
        await until(lambda: len(wire.requests) == 1)
        if not late:
            second.cancel()
        release.set()
        await first
        assert (await third).raw == b"{}"
        assert second.cancelled()
        assert (len(wire.requests), wire.connections) == (2, 1)
        await made.close()


async def test_an_attempt_to_connect_that_hangs_does_not_hold_up_others(
    direct: OpenTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Any] = []

    async def hang_at_first(*arguments: Any) -> Any:
        attempts.append(arguments)
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return await open_connection(*arguments)

    monkeypatch.setattr(pool_module, "OPENING_AT_ONCE", 1)
    monkeypatch.setattr(pool_module, "open_connection", hang_at_first)
    async with connected(direct, answering(OK)) as (made, _):
        first, second = asyncio.create_task(ask(made)), asyncio.create_task(ask(made))
        await until(lambda: len(attempts) == 1)
        monkeypatch.setattr(pool_module, "SLOW_SECONDS", 0.0)
        third = asyncio.create_task(ask(made))
        assert {answer.status for answer in await asyncio.gather(first, second, third)} == {200}


async def test_each_request_that_waits_is_told_that_there_is_no_connection(direct: OpenTransport) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        async with opened(direct, f"http://127.0.0.1:{taken.getsockname()[1]}") as made:
            outcomes = await asyncio.gather(*(ask(made) for _ in range(20)), return_exceptions=True)
            assert all(isinstance(outcome, ConnectionError) for outcome in outcomes)


async def test_a_request_on_a_retired_pool_ends_well_and_idle_connections_are_closed_at_once(
    direct: OpenTransport,
) -> None:
    release = asyncio.Event()

    async def serve(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await wire.read(reader):
            if len(wire.requests) > 2:
                await release.wait()
            writer.write(OK)

    async with connected(direct, serve) as (made, wire):
        await asyncio.gather(ask(made), ask(made))
        last = asyncio.create_task(ask(made))
        await until(lambda: len(wire.requests) == 3)
        await made.retire()
        await until(lambda: wire.ended == wire.connections - 1)
        assert not made.is_closed
        release.set()
        assert (await last).raw == b"{}"
        assert made.is_closed


@pytest.mark.parametrize(
    ("address", "header"),
    [
        ("https://api.example:6443", "api.example:6443"),
        ("https://api.example:443/", "api.example"),
        ("http://api.example", "api.example"),
        ("https://[fd00::1]:6443/k8s/clusters/c-1/", "[fd00::1]:6443"),
        ("https://b\u00fccher.example", "xn--bcher-kva.example"),
    ],
)
def test_the_server_is_named_as_it_is_reached(address: str, header: str) -> None:
    assert host_header(server_url(configuration(address))) == header


async def test_paths_begin_with_the_server_s(direct: OpenTransport) -> None:
    async with wired(answering(OK)) as wire:
        async with opened(direct, f"http://127.0.0.1:{wire.port}/k8s/clusters/c-1/") as made:
            await ask(made)
        assert wire.requests[0].startswith(b"POST /k8s/clusters/c-1/x HTTP/1.1\r\n")


@pytest.mark.parametrize("address", ["cluster.example:6443", "ftp://x", "https://", "https://x:99999", ""])
def test_an_address_that_is_none_is_named(address: str) -> None:
    with pytest.raises(CredentialsError, match="no address of an API server"):
        server_url(configuration(address))


async def test_an_ipv6_server_is_reached(direct: OpenTransport) -> None:
    try:
        async with wired(answering(OK), host="::1") as wire, opened(direct, f"http://[::1]:{wire.port}") as made:
            await ask(made)
            assert b"\r\nHost: [::1]:" in wire.requests[0]
    except OSError:
        pytest.skip("this machine has no IPv6")


async def test_a_half_answered_request_is_unreachable_to_who_asked(tmp_path: Path, transport: OpenTransport) -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{}"
    async with wired(answering(half)) as wire:
        path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{wire.port}")
        api = Api(Credentials(Source(str(path))), open_transport=transport)
        await api.open()
        with pytest.raises(Unreachable) as caught:
            await api.request("POST", "/x", body={})
        assert not caught.value.is_misconfigured
        await api.close()
