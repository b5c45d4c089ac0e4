"""Requests behind a fence: asked at the last moment, limited in time, and each kind of write."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth.client import make_client
from berth.cluster import connection, proxied
from berth.cluster.api import Api, OpenTransport
from berth.cluster.binder import Binder
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.evictions import Evictions
from berth.cluster.port import KubernetesCluster
from berth.cluster.volumes import VolumeWriter
from berth.configuration import Options
from berth.model import Pod, parse_claim, parse_pod
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.ports import NotEvicted, NotLeading, NotWritten
from cluster.manual_clock import ManualClock
from cluster.server import TRANSPORTS, Answer, Server, Silence, refusal, until, write_kubeconfig
from engine.storage import make_claim
from support.builders import make_pod


class Fence:
    """Open so many times."""

    request_seconds = 0.2
    is_leading = is_open = True

    def __init__(self, times: int = 0) -> None:
        self.times = times

    def check(self) -> None:
        self.times -= 1
        if self.times < 0:
            raise NotLeading("closed")


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> OpenTransport:
    return TRANSPORTS[request.param]


def pod() -> Pod:
    return parse_pod(make_pod("web"))


async def test_a_closed_fence_lets_nothing_through(server: Server, api: Api) -> None:
    fence = Fence(0)
    with pytest.raises(NotLeading):
        await api.request("POST", "/x", body={}, fence=fence)
    assert server.requests == []
    assert api.reachable


async def test_a_fence_that_closes_while_a_connection_is_looked_for_lets_nothing_through(
    server: Server, api: Api
) -> None:
    fence = Fence(1)
    with pytest.raises(NotLeading):
        await api.request("POST", "/x", body={}, fence=fence)
    assert server.requests == []


async def test_an_open_fence_is_asked_twice_and_others_not_at_all(server: Server, api: Api) -> None:
    fence = Fence(2)
    server.answer("POST", "/x", Answer(201))
    await api.request("POST", "/x", body={}, fence=fence)
    await api.request("POST", "/x", body={})
    assert fence.times == 0


async def test_a_request_that_is_sent_again_with_fresh_credentials_asks_again(server: Server, api: Api) -> None:
    fence = Fence(2)
    server.answer("POST", "/x", refusal(401, "Unauthorized", "who are you"))
    with pytest.raises(NotLeading):
        await api.request("POST", "/x", body={}, fence=fence)
    assert len(server.requests) == 1


async def test_a_fenced_request_takes_no_longer_than_the_fence_allows(server: Server, api: Api) -> None:
    fence = Fence(2)
    server.answer("POST", "/x", Silence())
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
        await api.request("POST", "/x", body={}, fence=fence)
    assert time.monotonic() - began < 30  # what it would take without a fence


async def test_every_write_that_matters_is_behind_the_fence(server: Server, api: Api, clock: ManualClock) -> None:
    fence = Fence(0)
    with pytest.raises(NotLeading):
        await Binder(api, clock, fence).bind(pod(), "n")
    with pytest.raises(NotEvicted):
        await Evictions(api, clock, fence).evict(pod(), pod(), lambda: True)
    with pytest.raises(NotWritten):
        await VolumeWriter(api, clock, fence).select(parse_claim(make_claim("c")), "n")
    cluster = KubernetesCluster(api, clock, "us", ErrorLog(), fence)
    with pytest.raises(NotLeading):
        await cluster.settle(pod())  # somebody else is about to bind it for us
    cluster.report_condition(pod(), "Unschedulable", "no")
    cluster.start()
    await until(lambda: bool(cluster.statistics()["conditions"].get("retried")))
    assert server.requests == []
    await cluster.stop()


INFO: Any = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))


def connection_socket(seconds: float) -> socket.socket:
    return connection.make_socket(INFO, connection.ServerAddress("x", 1, None, seconds))


def proxied_socket(seconds: float) -> socket.socket:
    return proxied.socket_factory(seconds)(INFO)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux only")
@pytest.mark.parametrize("make", [connection_socket, proxied_socket])
def test_what_is_not_delivered_in_time_is_not_delivered_at_all(make: Callable[[float], socket.socket]) -> None:
    with make(2.5) as made:
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 2500


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux only")
@pytest.mark.parametrize(("standalone", "milliseconds"), [(False, 2500), (True, 0)])
async def test_a_client_made_before_the_fence_is_known_delivers_in_time_where_there_are_other_replicas(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, standalone: bool, milliseconds: int
) -> None:
    made: list[socket.socket] = []
    make = connection.make_socket

    def recording(*info: Any) -> socket.socket:
        made.append(make(*info))
        return made[-1]

    monkeypatch.setattr(connection, "make_socket", recording)
    kubeconfig = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    options = Options(kubeconfig=str(kubeconfig), standalone=standalone, peering_lifetime_seconds=10)
    api = make_client(options, Credentials(Source(options.kubeconfig, options.context)))
    await api.open()
    try:
        with pytest.raises(ApiError):
            await api.request("GET", "/x")
        limits = {each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for each in made}
    finally:
        await api.close()
    assert limits == {milliseconds}
