"""The server of `berth ui`: whom it answers, and what it passes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from berth.cluster.errors import Unreachable
from berth.explain_api.requests import PREFIX
from berth.ui.loopback import PAGE, Loopback, is_below_prefix
from explain_api.fakes import explanation
from page.site import Site, running_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as site:
        site.port.put(explanation("web"))
        yield site


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def status(session: aiohttp.ClientSession, url: str, method: str = "GET", **headers: str) -> int:
    async with session.request(method, URL(url, encoded=True), headers=headers, allow_redirects=False) as answer:
        return answer.status


async def test_the_address_leads_to_the_page(site: Site, session: aiohttp.ClientSession) -> None:
    async with session.get(site.loopback.url) as answer:
        assert answer.status == 200
        assert answer.url.path.endswith(PAGE)
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_the_page_reads_objects_below_the_same_secret(site: Site, session: aiohttp.ClientSession) -> None:
    url = site.loopback.url.rstrip("/") + PREFIX + "namespaces/shop/explanations/web"
    async with session.get(url) as answer:
        assert (await answer.json())["metadata"]["name"] == "web"


async def test_without_the_secret_nothing_is_answered(site: Site, session: aiohttp.ClientSession) -> None:
    for path in ("", "wrong/", "wrong" + PAGE, PAGE.removeprefix("/"), "%2e/", "favicon.ico"):
        assert await status(session, site.origin + path) == 404
    assert site.upstream.asked == []


async def test_the_address_for_the_browser_works_once(site: Site, session: aiohttp.ClientSession) -> None:
    url = site.loopback.url_once
    async with session.get(url, allow_redirects=False) as answer:
        assert answer.status == 303
        assert site.loopback.url.endswith(answer.headers["Location"].removesuffix(PAGE).strip("/") + "/")
    assert await status(session, url) == 404


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:{port}", "127.0.0.1", "127.0.0.1:1", ""])
async def test_a_name_that_leads_here_is_refused(site: Site, session: aiohttp.ClientSession, host: str) -> None:
    named = host.format(port=site.loopback.port)
    assert await status(session, site.loopback.url, Host=named) == 403
    assert await status(session, site.loopback.url, Host=f"localhost:{site.loopback.port}") == 303


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_only_reading_is_passed_on(site: Site, session: aiohttp.ClientSession, method: str) -> None:
    assert await status(session, site.url, method) == 405
    assert site.upstream.asked == []


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/secrets",
        "/apis/explain.berth.dev/v1alpha1",
        "/apis/explain.berth.dev/v1alpha1/../../../api/v1/secrets",
        "/apis/explain.berth.dev/v1alpha1/%2e%2e/%2e%2e/%2e%2e/api/v1/secrets",
        "/apis/explain.berth.dev/v1alpha1/..%2f..%2f..%2fapi/v1/secrets",
        "/apis/explain.berth.dev/v1alpha1/%252e%252e/x",
        "/apis/explain.berth.dev/v1alpha1/..\\x",
        "//apis/explain.berth.dev/v1alpha1/ui/",
    ],
)
async def test_no_other_path_of_the_api_server_is_reached(
    site: Site, session: aiohttp.ClientSession, path: str
) -> None:
    assert await status(session, site.loopback.url.rstrip("/") + path) == 404
    assert not is_below_prefix(path)
    assert site.upstream.asked == []


async def test_an_api_server_that_is_away_is_said_in_the_answer(site: Site, session: aiohttp.ClientSession) -> None:
    site.upstream.is_away = True
    async with session.get(site.url) as answer:
        assert answer.status == 502
        assert (await answer.json())["message"] == "the API server cannot be reached: connection refused"


async def test_a_watch_is_passed_on_as_it_comes_and_ends_with_the_browser(
    site: Site, session: aiohttp.ClientSession
) -> None:
    url = site.loopback.url.rstrip("/") + PREFIX + "explanations?watch=true"
    async with session.get(url) as answer:
        assert b'"ADDED"' in await answer.content.readline()
    async with asyncio.timeout(20):
        while site.upstream.api.endpoint.statistics()["watches"]:  # noqa: ASYNC110 - in another thread
            await asyncio.sleep(0.05)


async def test_credentials_are_not_taken_from_the_browser(session: aiohttp.ClientSession) -> None:
    upstream = Noting()
    loopback = Loopback(upstream)
    await loopback.start()
    try:
        sent = {"Authorization": "Bearer stolen", "Cookie": "a=b", "Impersonate-User": "root", "Accept": "text/html"}
        await status(session, loopback.url.rstrip("/") + PAGE, **sent)
    finally:
        await loopback.stop()
    assert upstream.headers == {"Accept": "text/html"}


class Noting:
    """An upstream that notes the headers, and is away."""

    headers: Mapping[str, str] = {}

    async def ask(self, method: str, path: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        self.headers = dict(headers)
        raise Unreachable("away")
