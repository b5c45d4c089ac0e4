"""The paths that are served, and who may read them.

    /livez /healthz /readyz [?verbose]       every client
    /metrics                                 users with the right, as for everything below
    /configz
    /log-level                               GET shows it, PUT changes it
    /debug/cache /debug/queue                only where they are switched on

A request for an unknown path needs a token as well, so that a client without one cannot find out which paths exist. The
same holds for plain HTTP on loopback: other users of the machine and other containers of the pod reach it, too.
Liveness is checked in this thread; everything else is read in the scheduler's loop, over the bridge. Long texts are
read a few lines at a time, so that decisions are made in between.
"""

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from berth.scheduler.access_review import User
from berth.serving import logs
from berth.serving.authorizer import AccessDenied, Authorizer
from berth.serving.bridge import Bridge, BridgeTimeout
from berth.serving.health import Alarm, Readiness, liveness, liveness_text
from berth.serving.metrics import Statistics, render
from berth.serving.responses import plain, raw, stream

METRICS_TYPE = "text/plain; version=0.0.4"
JSON_TYPE = "application/json"
LIVENESS = ("/livez", "/healthz")
READINESS = "/readyz"
HEALTH_METHODS = ("GET", "HEAD")
LINES_AT_ONCE = 50
MAX_BODY_BYTES = 1024
UNANSWERED = "the scheduler's event loop does not answer"

Page = Callable[[web.BaseRequest, User], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ServedState:
    """What is served. `alarms` are called in the serving thread, everything else in the scheduler's loop."""

    readiness: Callable[[], Readiness]
    statistics: Statistics
    configuration: Callable[[], Mapping[str, Any]]
    cache_lines: Callable[[], Iterator[str]]
    queue_lines: Callable[[], Iterator[str]]
    alarms: Mapping[str, Alarm]


class Pages:
    """Answers requests; lives in the serving loop."""

    def __init__(self, state: ServedState, authorizer: Authorizer, bridge: Bridge, *, debug: bool) -> None:
        self._state = state
        self._authorizer = authorizer
        self._bridge = bridge
        self._pages: dict[str, dict[str, Page]] = {
            "/metrics": {"GET": self._metrics},
            "/configz": {"GET": self._configz},
            "/log-level": {"GET": self._log_level, "PUT": self._set_log_level},
        }
        if debug:
            self._pages["/debug/cache"] = {"GET": self._cache}
            self._pages["/debug/queue"] = {"GET": self._queue}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, method = request.path, request.method
        try:
            if path in LIVENESS or path == READINESS:
                return await self._health(request)
            user = await self._authorizer.admit(request.headers.get("Authorization", ""), method.lower(), path)
            if isinstance(user, AccessDenied):
                return _refuse(user)
            page = self._pages.get(path)
            if page is None:
                return plain(404, "there is nothing here")
            if method not in page:
                return _not_allowed(page)
            return await page[method](request, user)
        except BridgeTimeout:
            return plain(503, UNANSWERED)

    # --- health ------------------------------------------------------------------------------------------------------

    async def _health(self, request: web.BaseRequest) -> web.Response:
        if request.method not in HEALTH_METHODS:
            return _not_allowed(HEALTH_METHODS)
        verbose = "verbose" in request.query
        if request.path in LIVENESS:
            return self._liveness(request.path, verbose=verbose)
        try:
            readiness = await self._bridge.call(self._state.readiness)
        except BridgeTimeout:
            return plain(503, f"[-]loop failed: {UNANSWERED}\nreadyz check failed\n")
        return plain(200 if readiness.is_ready else 503, readiness.text(verbose=verbose))

    def _liveness(self, path: str, *, verbose: bool) -> web.Response:
        findings = liveness(self._state.alarms)
        passed = all(finding.problem is None for finding in findings.values())
        return plain(200 if passed else 500, liveness_text(path, findings, verbose=verbose))

    # --- for users with the right ------------------------------------------------------------------------------------

    async def _metrics(self, _: web.BaseRequest, user: User) -> web.Response:
        return raw(await self._bridge.call(lambda: render(self._state.statistics)), METRICS_TYPE)

    async def _configz(self, _: web.BaseRequest, user: User) -> web.Response:
        configuration = await self._bridge.call(self._state.configuration)
        return raw(orjson.dumps(configuration, option=orjson.OPT_INDENT_2), JSON_TYPE)

    async def _log_level(self, _: web.BaseRequest, user: User) -> web.Response:
        return plain(200, logs.get_level() + "\n")

    async def _set_log_level(self, request: web.BaseRequest, user: User) -> web.Response:
        body = b""
        async for piece in request.content.iter_any():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                break  # no level is as long
        wanted = body.decode(errors="replace").strip().lower()
        if wanted not in logs.LEVELS:
            return plain(400, f"send one of {', '.join(logs.LEVELS)}")
        logs.change_level(wanted, user.name)
        return plain(200, wanted + "\n")

    async def _cache(self, request: web.BaseRequest, user: User) -> web.StreamResponse:
        return await self._stream(request, self._state.cache_lines)

    async def _queue(self, request: web.BaseRequest, user: User) -> web.StreamResponse:
        return await self._stream(request, self._state.queue_lines)

    async def _stream(self, request: web.BaseRequest, begin: Callable[[], Iterator[str]]) -> web.StreamResponse:
        lines = await self._bridge.call(begin)

        def read_some() -> list[str]:
            return list(itertools.islice(lines, LINES_AT_ONCE))

        some = await self._bridge.call(read_some)
        response = stream()
        await response.prepare(request)
        while some:
            await response.write("".join(line + "\n" for line in some).encode(errors="replace"))
            some = await self._read_on(read_some)
        await response.write_eof()
        return response

    async def _read_on(self, read_some: Callable[[], list[str]]) -> list[str]:
        """Reads the next lines. An error cuts the connection, so that the client sees that lines are missing."""
        try:
            return await self._bridge.call(read_some)
        except Exception as error:
            raise ConnectionError(f"the rest cannot be read: {error!r}") from error


def _refuse(refusal: AccessDenied) -> web.Response:
    headers = {"WWW-Authenticate": 'Bearer realm="berth"'} if refusal.status == 401 else None
    return plain(refusal.status, refusal.text, headers)


def _not_allowed(methods: Mapping[str, Any] | tuple[str, ...]) -> web.Response:
    return plain(405, "this is not done here", {"Allow": ", ".join(methods)})
