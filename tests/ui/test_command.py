"""`berth ui`: what it prints, what it opens, and what it says if there is no page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from berth.cli.actions import ui
from berth.cluster.credentials import Credentials, Source
from berth.ui.opening import NoPage, check_page, has_screen
from berth.ui.upstream import UserUpstream
from cluster.server import write_kubeconfig
from support.commands import exit_code, forget_settings

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)


class FakeApiServer:
    """Answers everything with `status` and `text`, to those with the token."""

    def __init__(self) -> None:
        self.status, self.text = 200, "<!doctype html>"
        self.token = "first"
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"message": "Unauthorized"}, status=401)
        return web.Response(text=self.text, status=self.status)


@asynccontextmanager
async def api_server() -> AsyncIterator[FakeApiServer]:
    fake = FakeApiServer()
    runner = web.ServerRunner(web.Server(fake.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, fake: FakeApiServer) -> Path:
    """Writes one whose token is in a file."""
    token = folder / "token"
    token.write_text(fake.token)
    return write_kubeconfig(folder, fake.url, token_file=token)


@asynccontextmanager
async def upstream_of(fake: FakeApiServer, folder: Path) -> AsyncIterator[UserUpstream]:
    upstream = UserUpstream(Credentials(Source(str(kubeconfig(folder, fake)))))
    await upstream.open()
    try:
        yield upstream
    finally:
        await upstream.close()


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [
        (404, "404 page not found", "is not served here, or not with a page: install Berth's chart with explanations"),
        (403, '{"message": "ui is forbidden"}', "ClusterRole berth-explain-page grants it"),
        (503, "service unavailable", "kubectl get apiservice v1alpha1.explain.berth.dev -o yaml says why"),
        (500, "", "the API server answers 500"),
    ],
)
async def test_what_is_missing_is_said_with_the_way_out(tmp_path: Path, code: int, text: str, said: str) -> None:
    async with api_server() as fake, upstream_of(fake, tmp_path) as upstream:
        fake.status, fake.text = code, text
        with pytest.raises(NoPage) as caught:
            await check_page(upstream)
    assert said in str(caught.value)


async def test_a_token_that_has_expired_is_read_again(tmp_path: Path) -> None:
    async with api_server() as fake, upstream_of(fake, tmp_path) as upstream:
        await check_page(upstream)
        fake.token = "second"
        with pytest.raises(NoPage, match="log in again"):
            await check_page(upstream)
        (tmp_path / "token").write_text("second")
        await check_page(upstream)


async def test_the_address_is_printed_and_the_browser_gets_one_that_works_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    opened: list[str] = []

    def open_browser(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(ui, "has_screen", lambda: True)
    monkeypatch.setattr(ui, "open_browser", open_browser)
    monkeypatch.setattr(ui, "take_signals", lambda stopping, code: stopping.set())
    async with api_server() as fake:
        assert await asyncio.to_thread(exit_code, "ui", f"--kubeconfig={kubeconfig(tmp_path, fake)}") == 0
    out = capsys.readouterr().out
    printed = out.partition("The page is at ")[2].split()[0]
    assert printed.startswith("http://127.0.0.1:")
    assert opened[0].startswith("http://127.0.0.1:")
    assert printed.split("/")[3] not in opened[0]


async def test_no_open_starts_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(ui, "open_browser", lambda url: pytest.fail("a browser was started"))
    monkeypatch.setattr(ui, "take_signals", lambda stopping, code: stopping.set())
    async with api_server() as fake:
        assert await asyncio.to_thread(exit_code, "ui", "--no-open", f"--kubeconfig={kubeconfig(tmp_path, fake)}") == 0
    assert capsys.readouterr().err == ""


def test_without_a_cluster_it_fails_in_one_line(tmp_path: Path, capsys: Captured) -> None:
    assert exit_code("ui", f"--kubeconfig={write_kubeconfig(tmp_path, 'http://127.0.0.1:9')}") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("berth ui: the API server http://127.0.0.1:9 cannot be reached")


async def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: Captured) -> None:
    async with api_server() as fake:
        port = fake.url.rpartition(":")[2]
        arguments = ("ui", "--port", port, f"--kubeconfig={kubeconfig(tmp_path, fake)}")
        code = await asyncio.to_thread(exit_code, *arguments)
    assert code == 1
    assert capsys.readouterr().err.startswith(f"berth ui: --port {port}: ")


@pytest.mark.parametrize("port", ["65536", "-1", "x"])
def test_a_bad_port_is_a_usage_error(capsys: Captured, port: str) -> None:
    assert exit_code("ui", f"--port={port}") == 2
    assert "--port" in capsys.readouterr().err


def test_a_browser_needs_a_screen() -> None:
    assert not has_screen("linux", {})
    assert has_screen("linux", {"WAYLAND_DISPLAY": "wayland-0"})
    assert has_screen("darwin", {})
