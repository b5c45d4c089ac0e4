"""kopf's operator ends now and then; Berth does not."""

import asyncio
import getpass
import signal
from pathlib import Path

import pytest

from berth import handlers
from berth.handlers import watch
from berth.runtime import Options, Runtime, make_runtime
from cluster.server import Answer, Server, until, write_kubeconfig
from support.patience import LIMIT_SECONDS


@pytest.fixture
async def runtime(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(handlers, "RESTART_SECONDS", (0.0,))
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
    await runtime.credentials.load()
    return runtime


async def test_kopf_is_started_again_when_it_ends_and_leaves_our_tasks_alone(server: Server, runtime: Runtime) -> None:
    server.answer("GET", "/api", Answer(404, "404 page not found\n"))  # which ends kopf's operator
    server.answer("GET", "/apis", Answer(200, {"groups": []}))
    bind = asyncio.create_task(asyncio.Event().wait())
    stop = asyncio.Event()
    spawned: list[str] = []
    watching = asyncio.create_task(watch(runtime, stop, lambda: spawned.append("spawned")))
    await until(lambda: runtime.watch_intake.restarts >= 2)
    assert len(spawned) >= 2
    assert not bind.done()
    stop.set()
    await watching
    assert not bind.done()
    bind.cancel()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)


async def test_kopf_starts_for_a_user_who_has_no_name(
    server: Server, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container, whose user is a number that no file knows."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr(getpass, "getuser", nobody)
    server.answer("GET", "/api", Answer(200, {"versions": []}))
    server.answer("GET", "/apis", Answer(200, {"groups": []}))
    stop, spawned = asyncio.Event(), asyncio.Event()
    watching = asyncio.create_task(watch(runtime, stop, spawned.set))
    async with asyncio.timeout(LIMIT_SECONDS):
        await spawned.wait()
    stop.set()
    await watching
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)
