"""Requests end in a dict, in ApiError or in Unreachable, whatever the network does."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.config import ConfigException

from berth.cluster.api import Api, OpenTransport
from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.transport import Transport
from cluster.server import (
    TRANSPORTS,
    Answer,
    Cut,
    Seen,
    Server,
    Silence,
    busy,
    connected,
    refusal,
    serving,
    until,
    write_kubeconfig,
)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> OpenTransport:
    return TRANSPORTS[request.param]


async def test_an_answer_is_decoded(server: Server, api: Api) -> None:
    server.answer("POST", "/things", Answer(201, {"kind": "Thing"}))
    assert await api.request("POST", "/things", body={"a": 1}, query={"limit": "5"}) == (201, {"kind": "Thing"})
    request = server.requests[0]
    assert (request.body, request.query) == ({"a": 1}, {"limit": "5"})
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["User-Agent"].startswith("berth/")


async def test_a_refusal_carries_what_the_status_object_says(server: Server, api: Api) -> None:
    server.answer("GET", "/x", refusal(409, "Conflict", "pod is being deleted", kind="pods"))
    with pytest.raises(ApiError) as caught:
        await api.request("GET", "/x")
    error = caught.value
    assert (error.status, error.reason, error.message) == (409, "Conflict", "pod is being deleted")
    assert error.details == {"kind": "pods"}


async def test_a_refusal_in_plain_text_is_quoted(server: Server, api: Api) -> None:
    with pytest.raises(ApiError) as caught:
        await api.request("GET", "/nowhere")
    assert (caught.value.status, caught.value.message) == (404, "404 page not found")


async def test_a_cut_connection_is_unreachable_and_the_request_was_not_repeated(server: Server, api: Api) -> None:
    server.answer("POST", "/x", Cut())
    with pytest.raises(Unreachable):
        await api.request("POST", "/x", body={})
    assert len(server.requests) == 1


async def test_a_kept_connection_that_broke_is_unreachable_for_a_write(server: Server, api: Api) -> None:
    server.answer("POST", "/x", Answer(), Cut(), Answer())
    await api.request("POST", "/x", body={})
    with pytest.raises(Unreachable):
        await api.request("POST", "/x", body={})
    await api.request("POST", "/x", body={})


async def test_silence_is_unreachable_after_the_timeout(server: Server, api: Api) -> None:
    server.answer("GET", "/x", Silence())
    with pytest.raises(Unreachable, match=r"no answer within 0\.05 s"):
        await api.request("GET", "/x", timeout_seconds=0.05)


async def test_an_answer_that_is_not_json_is_unreachable(server: Server, api: Api) -> None:
    server.answer("GET", "/x", Answer(200, "<html>"))
    with pytest.raises(Unreachable, match="not JSON"):
        await api.request("GET", "/x")


async def test_a_server_that_is_down_is_unreachable_but_not_a_mistake(tmp_path: Path, transport: OpenTransport) -> None:
    async with serving() as server:
        port = server.port
    api = Api(
        Credentials(Source(str(write_kubeconfig(tmp_path, f"http://127.0.0.1:{port}")))), open_transport=transport
    )
    await api.open()
    with pytest.raises(Unreachable) as caught:
        await api.request("GET", "/x")
    assert not caught.value.is_misconfigured
    assert not api.reachable
    await api.close()


async def test_a_closed_client_is_unreachable(api: Api) -> None:
    await api.close()
    with pytest.raises(Unreachable):
        await api.request("GET", "/x")


async def test_the_return_of_the_server_is_told_once(server: Server, api: Api) -> None:
    returns: list[str] = []
    server.answer("GET", "/x", Answer(), Cut(), Cut(), Answer())
    for _ in range(5):
        try:
            await api.request("GET", "/x")
        except Unreachable:
            assert not api.reachable
        if api.returned.is_set():
            returns.append("back")
            api.returned.clear()
    assert returns == ["back"]


async def test_a_401_reads_the_token_again_and_asks_once_more(
    server: Server, tmp_path: Path, transport: OpenTransport
) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    def check(request: Seen) -> Answer:
        return Answer() if request.headers["Authorization"] == "Bearer new" else refusal(401, "Unauthorized", "no")

    server.answer("GET", "/x", check)
    async with connected(tmp_path, server, token_file=token, open_transport=transport) as api:
        token.write_text("new")
        await api.request("GET", "/x")
        await api.request("GET", "/x")
    assert len(server.requests) == 3


async def test_a_401_that_stays_is_an_answer(server: Server, api: Api) -> None:
    server.answer("GET", "/x", refusal(401, "Unauthorized", "no"))
    with pytest.raises(ApiError, match="401"):
        await api.request("GET", "/x")
    assert len(server.requests) == 2


async def test_the_environment_s_proxy_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        proxy.answer("GET", "/version", Answer(200, {"gitVersion": "v1"}))
        api = Api(Credentials(Source(str(write_kubeconfig(tmp_path, "http://cluster.example:80")))))
        await api.open()
        assert (await api.request("GET", "/version"))[1] == {"gitVersion": "v1"}
        await api.close()


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)])
async def test_a_refusal_carries_how_long_the_server_wants_to_be_left_alone(
    server: Server, api: Api, header: str, seconds: float
) -> None:
    server.answer("GET", "/x", busy(header))
    with pytest.raises(ApiError) as caught:
        await api.request("GET", "/x")
    assert caught.value.retry_after_seconds == seconds


@pytest.mark.parametrize("error", [ConfigException("Token file exists but empty."), KeyError("token"), OSError("x")])
async def test_a_token_that_cannot_be_read_for_a_moment_is_unreachable(
    server: Server, api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(_: Credentials) -> str | None:
        raise error

    server.answer("GET", "/x", Answer())
    with monkeypatch.context() as patch:
        patch.setattr(Credentials, "authorization", fail)
        with pytest.raises(Unreachable):
            await api.request("GET", "/x")
    await api.request("GET", "/x")


async def test_credentials_that_cannot_be_renewed_for_any_reason_leave_the_401(
    server: Server, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Credentials) -> None:
        raise RuntimeError("the exec plugin has crashed")

    monkeypatch.setattr(Credentials, "load", fail)
    server.answer("GET", "/x", refusal(401, "Unauthorized", "no"))
    for _ in range(3):
        with pytest.raises(ApiError, match="401"):
            await api.request("GET", "/x")
    assert [record.message for record in caplog.records if "cannot be renewed" in record.message] == [
        "The API server does not accept our credentials, and they cannot be renewed: the exec plugin has crashed"
    ]


async def test_connections_of_old_certificates_are_closed_when_their_requests_have_ended(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: OpenTransport
) -> None:
    transports: list[Transport] = []

    def remember(configuration: Any, **others: Any) -> Transport:
        transports.append(transport(configuration, **others))
        return transports[-1]

    monkeypatch.setattr(Credentials, "fingerprint", lambda _: str(len(transports)))
    no = refusal(401, "Unauthorized", "no")
    server.answer("GET", "/long", Silence())
    server.answer("GET", "/x", no, Answer(), no, Answer(), no, Answer())
    async with connected(tmp_path, server, open_transport=remember) as api:
        long = asyncio.create_task(api.request("GET", "/long"))
        await until(lambda: len(server.requests) == 1)
        for _ in range(3):
            await api.request("GET", "/x")
        assert [transport.is_closed for transport in transports] == [False, True, True, False]
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)
        assert [transport.is_closed for transport in transports] == [True, True, True, False]
    assert all(transport.is_closed for transport in transports)
