"""kopf's operator ends now and then; Berth does not."""

import asyncio
import signal
from pathlib import Path

import pytest

from berth import handlers
from berth.handlers import watch
from berth.runtime import Options, Runtime
from edge.server import Answer, Server, until, write_kubeconfig


@pytest.fixture
async def runtime(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(handlers, "RESTART_SECONDS", (0.0,))
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    runtime = Runtime(Options(kubeconfig=str(path), http_address=""))
    await runtime.credentials.load()
    return runtime


async def test_kopf_is_started_again_when_it_ends_and_leaves_our_tasks_alone(server: Server, runtime: Runtime) -> None:
    server.answer("GET", "/api", Answer(404, "404 page not found\n"))  # which ends kopf's operator
    server.answer("GET", "/apis", Answer(200, {"groups": []}))
    bind = asyncio.create_task(asyncio.Event().wait())
    stop = asyncio.Event()
    spawned: list[str] = []
    watching = asyncio.create_task(watch(runtime, stop, lambda: spawned.append("spawned")))
    await until(lambda: runtime.watch_restarts >= 2)
    assert len(spawned) >= 2
    assert not bind.done()
    stop.set()
    await watching
    assert not bind.done()
    bind.cancel()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)
