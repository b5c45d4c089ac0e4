"""The server on this machine that the browser asks.

It lends the user's credentials to whoever can ask it, so that must be nobody but the user's browser:

    it listens on 127.0.0.1             nobody on the network can ask
    the path begins with a secret       other users of this machine, and pages of other sites, do not know it
    Host must be this address           a name of another site that leads here (DNS rebinding) is refused
    GET and HEAD only, and only below   the page reads; nothing else of the API server can be reached
    the path of explanations

The address that the browser is started with can be seen by other users in the list of processes. So it holds another
secret, which works once and leads to the first one.
"""

import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from aiohttp import web

from berth.cluster.errors import Unreachable
from berth.explain_api.page_files import UI
from berth.explain_api.requests import PREFIX, READING
from berth.ui.upstream import Upstream

ADDRESS: Final = "127.0.0.1"
PAGE: Final = f"{PREFIX}{UI}/"
PASSED_ON: Final = ("Accept", "If-None-Match")
ANSWERED: Final = ("Content-Type", "ETag", "Cache-Control", "Content-Security-Policy", "Retry-After")
# Whatever is answered: no other site learns the secret, shows the page in a frame, or reads what it shows.
HEADERS: Final = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STOP_SECONDS: Final = 1.0
BAD_GATEWAY: Final = 502


class Loopback:
    """`start` once, `stop` once."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._secret = secrets.token_urlsafe(24)
        self._once: str | None = secrets.token_urlsafe(24)
        self._runner: web.ServerRunner | None = None
        self._hosts: frozenset[str] = frozenset()
        self.port = 0

    async def start(self, port: int = 0) -> None:
        """Listens; 0 is any free port. Raises OSError."""
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, ADDRESS, port).start()
        self.port = int(self._runner.addresses[0][1])
        self._hosts = frozenset({f"{ADDRESS}:{self.port}", f"localhost:{self.port}"})

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where the page is, for the user."""
        return f"http://{ADDRESS}:{self.port}/{self._secret}/"

    @property
    def url_once(self) -> str:
        """The same for one request, for the command line of a browser."""
        return f"http://{ADDRESS}:{self.port}/{self._once}"

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.getall("Host", []) not in [[host] for host in self._hosts]:
            return _refuse(403, "this address is for the browser on this machine only")
        if request.method not in READING:
            return _refuse(405, "the page only reads", {"Allow": ", ".join(READING)})
        first, _, rest = request.raw_path.removeprefix("/").partition("/")
        if self._opens(first) and not rest:
            return self._lead()
        if not _is_same(first, self._secret):
            return _refuse(404, "there is nothing here: berth ui prints the address")
        if not rest:
            return self._lead()
        return await self._pass_on(request, f"/{rest}")

    def _opens(self, text: str) -> bool:
        """Whether this is the secret that works once; from now on it does not."""
        if self._once is None or not _is_same(text, self._once):
            return False
        self._once = None
        return True

    def _lead(self) -> web.Response:
        return web.Response(status=303, headers={**HEADERS, "Location": f"/{self._secret}{PAGE}"})

    async def _pass_on(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if not is_below_prefix(path):
            return _refuse(404, f"only paths below {PREFIX} are served here")
        sent = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        try:
            answer = await self._upstream.ask(request.method, path, sent)
        except Unreachable as error:
            return _refuse(BAD_GATEWAY, str(error))
        async with answer:
            headers = {name: answer.headers[name] for name in ANSWERED if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers={**headers, **HEADERS})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def is_below_prefix(path: str) -> bool:
    """Whether a path, with its query, stays below that of explanations, however a server reads it."""
    plain = path.partition("?")[0]
    parts = unquote(plain).replace("\\", "/").split("/")
    return plain.startswith(PREFIX) and "%" not in unquote(plain) and not {".", ".."} & set(parts)


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def _refuse(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
    answered = {**HEADERS, "Content-Type": "application/json", **(headers or {})}
    return web.Response(text=json.dumps(body), status=status, headers=answered)
