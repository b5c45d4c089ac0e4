"""Where connections to extenders are made, over real sockets, and what of an answer is shown."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import aiohttp
import pytest

from berth.cluster.extenders import HttpExtenders
from berth.policy.addresses import EVERYWHERE, ExtenderAddresses
from berth.policy.records import Extender
from berth.scheduler.extenders.extender_protocol import ExtenderFailed
from cluster.server import Answer, Server, serving

PATH = "/filter"
LOOPBACK = ip_network("127.0.0.0/8")


@asynccontextmanager
async def asking(addresses: ExtenderAddresses | None = None) -> AsyncIterator[HttpExtenders]:
    asker = HttpExtenders(addresses)
    try:
        yield asker
    finally:
        await asker.close()


async def failure(asker: HttpExtenders, url: str, **fields: Any) -> str:
    with pytest.raises(ExtenderFailed) as caught:
        await asker.ask(Extender(url, **fields), "filter", {})
    return str(caught.value)


class Names:
    """A name server: each name resolves to what is said here, the last one for good."""

    def __init__(self, **names: list[list[str]]) -> None:
        self.names = names
        self.asked = 0

    async def resolve(self, host: str, port: int, family: socket.AddressFamily) -> list[dict[str, Any]]:
        self.asked += 1
        answers = self.names[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            {"hostname": host, "host": each, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
            for each in addresses
        ]


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Names]:
    def set_up(**names: list[list[str]]) -> Names:
        server = Names(**names)
        monkeypatch.setattr(
            aiohttp.ThreadedResolver, "resolve", lambda _, host, port, family: server.resolve(host, port, family)
        )
        return server

    return set_up


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        server.answer("POST", PATH, Answer(body={"NodeNames": ["a"]}))
        yield server


async def test_by_default_nothing_is_asked_of_the_pod_itself(server: Server) -> None:
    async with asking() as asker:
        for host in ("127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]"):
            said = await failure(asker, f"http://{host}:{server.port}")
            assert said.startswith(f'Post "http://{host}:{server.port}/filter": ')
            assert "loopback address is not allowed: --extender-networks" in said
    assert server.requests == []


async def test_a_network_that_is_allowed_is_asked(server: Server) -> None:
    async with asking(ExtenderAddresses(networks=(LOOPBACK,))) as asker:
        assert await asker.ask(Extender(f"http://127.0.0.1:{server.port}"), "filter", {}) == {"NodeNames": ["a"]}


async def test_a_name_is_judged_by_what_it_resolves_to(server: Server, resolving: Callable[..., Names]) -> None:
    resolving(inside=[["127.0.0.1"]])
    async with asking() as asker:
        assert "loopback" in await failure(asker, f"http://inside:{server.port}")
    assert server.requests == []


async def test_of_several_addresses_of_a_name_only_allowed_ones_are_used(
    server: Server, resolving: Callable[..., Names]
) -> None:
    resolving(both=[["169.254.169.254", "127.0.0.1"]])
    async with asking(ExtenderAddresses(networks=(LOOPBACK,))) as asker:
        await asker.ask(Extender(f"http://both:{server.port}"), "filter", {})
    assert len(server.requests) == 1


async def test_a_name_that_resolves_to_something_else_later_is_judged_again(
    server: Server, resolving: Callable[..., Names], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a resolver has said, and to whom: what counts is the address of the connection."""
    resolving(rebinding=[["10.0.0.1"], ["127.0.0.1"]])
    tried: list[Any] = []

    async def connect(loop: Any, sock: socket.socket, address: Any) -> None:
        tried.append(address[0])
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(asyncio.get_running_loop().__class__, "sock_connect", connect)
    async with asking() as asker:
        assert "Connection refused" in await failure(asker, f"http://rebinding:{server.port}")
        session = asker.sessions[0]
        assert isinstance(session.connector, aiohttp.TCPConnector)
        session.connector.clear_dns_cache()
        assert "loopback" in await failure(asker, f"http://rebinding:{server.port}")
    assert tried == ["10.0.0.1"]


async def test_an_address_is_judged_at_connecting_even_if_nothing_before_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExtenderAddresses, "host_problem", lambda *_: "")
    async with serving() as server, asking() as asker:
        assert "loopback" in await failure(asker, f"http://127.0.0.1:{server.port}")
        assert server.requests == []


async def test_hosts_can_be_limited_to_names(server: Server, resolving: Callable[..., Names]) -> None:
    resolving(**{"a.svc": [["127.0.0.1"]], "a.example": [["127.0.0.1"]]})
    async with asking(ExtenderAddresses(("*.svc",), (LOOPBACK,))) as asker:
        await asker.ask(Extender(f"http://a.svc:{server.port}"), "filter", {})
        assert "--extender-hosts" in await failure(asker, f"http://a.example:{server.port}")
    assert len(server.requests) == 1


async def test_a_proxy_is_asked_only_for_hosts_that_the_settings_name(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy connects, so nobody here sees to which address."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "")
    async with asking() as asker:
        assert "proxy" in await failure(asker, "http://metadata.example")
        assert "link-local" in await failure(asker, "http://169.254.169.254")
    assert server.requests == []
    async with asking(ExtenderAddresses(("*.svc",))) as asker:
        assert await asker.ask(Extender("http://a.svc"), "filter", {}) == {"NodeNames": ["a"]}
        assert "--extender-hosts" in await failure(asker, "http://metadata.example")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed_wherever_it_leads(server: Server, status: int) -> None:
    server.answer("POST", PATH, Answer(status, "", {"Location": f"http://127.0.0.1:{server.port}/elsewhere"}))
    async with asking(EVERYWHERE) as asker:
        assert (await failure(asker, f"http://127.0.0.1:{server.port}")).endswith(f"code {status}")
    assert [request.path for request in server.requests] == [PATH]


# --- what is shown

SECRET = "AKIA-secret"


@asynccontextmanager
async def speaking(answer: bytes) -> AsyncIterator[str]:
    """Somebody who answers everything with these bytes, HTTP or not."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    "answer",
    [
        f"SSH-2.0-{SECRET}\r\n".encode(),
        f"HTTP/1.1 200 {SECRET}\r\n{SECRET}\r\n\r\n".encode(),
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n".encode(),
        f"HTTP/1.1 500 {SECRET}\r\nContent-Length: 11\r\n\r\n{SECRET}".encode(),
        f"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{SECRET}".encode(),
        f'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"{SECRET}'.encode(),
        f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 11\r\n\r\n{SECRET}".encode(),
        f"HTTP/1.1 302 Found\r\nLocation: http://{SECRET}/\r\nContent-Length: 0\r\n\r\n".encode(),
        f"HTTP/1.1 999 OK\r\nX-{SECRET}: \x00\r\n\r\n".encode(),
        b"",
    ],
)
async def test_an_error_has_nothing_of_what_was_received(answer: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with speaking(answer) as url, asking(EVERYWHERE) as asker:
        said = await failure(asker, url, timeout_seconds=2.0)
    assert url in said
    assert SECRET not in said
    assert SECRET not in caplog.text
    assert said.isprintable()
