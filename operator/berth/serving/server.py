"""The HTTP server for health and metrics. Loopback only: it speaks plain HTTP and asks nobody who they are."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from berth.serving.health import Readiness
from berth.serving.metrics import Statistics, render

DEFAULT_ADDRESS = "127.0.0.1:10261"
METRICS_TYPE = "text/plain; version=0.0.4"


class BadAddress(ValueError):
    """The address cannot be served on; str() says why."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


def parse_address(text: str) -> Address:
    """`127.0.0.1:10261`, `[::1]:10261` or `localhost:10261`; port 0 takes a free one. BadAddress for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadAddress(f'"{text}" is not an address; write host:port, such as {DEFAULT_ADDRESS}')
    if not _is_loopback(host):
        raise BadAddress(
            f'"{text}" is not on the loopback interface; health and metrics are plain HTTP without authentication, so '
            f"use 127.0.0.1, [::1] or localhost, and a proxy that authenticates in front of it"
        )
    return Address(host, int(port))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Server:
    """Serves until stopped."""

    def __init__(
        self,
        address: Address,
        *,
        readiness: Callable[[], Readiness],
        statistics: Statistics,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._address = address
        self._alive = alive
        self._readiness = readiness
        self._statistics = statistics
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port that is served on."""
        if self._runner is None or not self._runner.addresses:
            return self._address.port
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Raises OSError when the address is taken."""
        app = web.Application()
        app.router.add_get("/livez", self._live)
        app.router.add_get("/healthz", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._address.host, self._address.port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _live(self, _: web.Request) -> web.Response:
        if self._alive():
            return web.Response(text="ok")
        return web.Response(text="the scheduling loop has ended with an error", status=500)

    async def _ready(self, request: web.Request) -> web.Response:
        readiness = self._readiness()
        text = readiness.text(verbose="verbose" in request.query)
        return web.Response(text=text, status=200 if readiness.is_ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=render(self._statistics), headers={"Content-Type": METRICS_TYPE})
