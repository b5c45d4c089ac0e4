"""The kopf shell: handlers that hand over, settings that keep kopf out of the way, and a kopf that comes back.

kopf watches; nothing else is asked of it here (`elector` has another one, which keeps our seat among replicas). The
settings turn off everything by which it would write to objects or post events, and raise the limits at which it would
give up:

- storages that store nothing, and a finalizer of its own: kopf takes *its* finalizer off objects that need none, and
  by default that is every kopf operator's finalizer;
- requests are retried for ever, so an API server that is away for minutes ends nothing;
- answers that nest deeper than Python can read are cut (`berth.cluster.deep_json`), as one of them would end it all;
- CRDs stay observed (`scanning`), so that SchedulingPolicies work whether their CRD is there first or Berth is.

Some things still end kopf's operator: a watch that reports an error other than 410, and a kind whose CRD is deleted
under its watch. `watch` starts it again in the same process, beside the same scheduler and cache; the relist brings
the cache up to date. Under `kopf run` the process ends instead, and its supervisor starts it again.

A store that was restored from a backup is another such thing, although kopf does not notice it: it asks for changes
after a version that lies in the future, and an API server sends nothing until its versions have come that far. So the
runtime has watching end and begin anew, from fresh lists (`berth.runtime.watch_control`).
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import aiohttp
import kopf
from yarl import URL

from berth.cluster import peering
from berth.cluster.bulk import BulkIntake
from berth.cluster.credentials import Credentials
from berth.cluster.deep_json import DeepJsonResponse
from berth.cluster.errors import CredentialsError
from berth.cluster.resources import POD_FIELDS
from berth.cluster.transport import find_proxy
from berth.configuration.introduction import introduce
from berth.runtime.runtime import Runtime
from berth.runtime.watch_control import WatchControl
from berth.scheduler.waiting import first_of
from berth.serving.logs import TALKATIVE
from berth.serving.server import CannotServe

FINALIZER = "berth.dev/none"
BACKOFF_SECONDS = (0.25, 0.5, 1.0, 2.0, 3.0)
RESTART_SECONDS = (1.0, 2.0, 5.0, 10.0)
CALM_SECONDS = 60.0
LOGIN_PAUSE_SECONDS = 1.0
# It is reported to no one. By default kopf looks up the user's name, and in a container the user is but a number.
IDENTITY: Any = "berth"
KOPF_FOLDER = str(Path(kopf.__file__).parent)

_log = logging.getLogger(__name__)

EventHandler = Callable[..., Awaitable[None]]


def register(registry: kopf.OperatorRegistry, runtime: Runtime, *, owns_runtime: bool) -> "Login":
    """Have every kind watched for the runtime; `owns_runtime`: started and stopped with kopf.

    The login is to be closed when kopf has ended.
    """
    for resource in runtime.resources:
        kopf.on.event(resource.group, resource.version, resource.plural, id=resource.kind, registry=registry)(
            _handler(resource.kind, runtime)
        )
    # kopf would wait a minute after a login that failed, and a token file is empty for a moment only.
    login = Login(
        runtime.credentials, [_watch_trace(runtime)], lambda server: bulk_intake(runtime, server).response_class()
    )
    kopf.on.login(registry=registry, backoff=LOGIN_PAUSE_SECONDS)(login.log_in)
    if runtime.leader is not None:
        kopf.on.event(peering.GROUP, peering.VERSION, peering.PLURAL, id=peering.KIND, registry=registry)(
            _peering_handler(runtime)
        )

    ending = _Ending()

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        if owns_runtime:
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, runtime.dump)
            introduce(runtime.options)
            await _start_or_exit(runtime)
            ending.watch(runtime.watch_control)

    if owns_runtime:

        @kopf.on.cleanup(registry=registry)
        async def stop(**_: Any) -> None:
            await runtime.stop()
            await ending.check()

    return login


async def _start_or_exit(runtime: Runtime) -> None:
    """Ends the process with one line and exit code 1 if it cannot start: kopf would log a traceback and try again."""
    try:
        await runtime.start()
    except (CannotServe, CredentialsError) as error:
        await runtime.components.api.close()
        await asyncio.sleep(0)  # kopf starts its other tasks, which would otherwise be reported as never awaited
        sys.exit(f"berth: {error}")


class _Ending:
    """The end of a process that has to be started again, since `kopf run` cannot begin anew by itself."""

    REASON = "watching can only begin anew in another process"

    def __init__(self) -> None:
        self._has_begun = False
        self._task: asyncio.Task[None] | None = None

    def watch(self, watch_control: WatchControl) -> None:
        """End the process as soon as watching has to begin anew."""
        self._task = asyncio.create_task(self._wait(watch_control), name="ending")

    async def _wait(self, watch_control: WatchControl) -> None:
        with watch_control.watched():
            await watch_control.restart_wanted.wait()
            self._has_begun = True
            _log.error("This process ends with exit code 1, to be started again: %s", self.REASON)
            os.kill(os.getpid(), signal.SIGTERM)

    async def check(self) -> None:
        """At the end: fail, so that supervisors that restart only what has failed do so."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._has_begun:
            raise kopf.PermanentError(self.REASON)


def _handler(kind: str, runtime: Runtime) -> EventHandler:
    async def hand_over(event: Mapping[str, Any], **_: Any) -> None:
        runtime.on_event(kind, event["type"], event["object"])

    return hand_over


def _peering_handler(runtime: Runtime) -> EventHandler:
    async def hand_over(event: Mapping[str, Any], **_: Any) -> None:
        runtime.on_peering(event["type"], event["object"])

    return hand_over


def _watch_trace(runtime: Runtime) -> aiohttp.TraceConfig:
    """Tells the runtime from which version each watch goes on."""
    kinds = {resource.path: resource.kind for resource in runtime.resources}

    async def note_watch(_: aiohttp.ClientSession, __: object, request: aiohttp.TraceRequestStartParams) -> None:
        kind = kinds.get(request.url.path)
        if kind is not None and request.url.query.get("watch") == "true":
            runtime.watch_intake.on_watch(kind, request.url.query.get("resourceVersion", ""))

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(note_watch)
    return trace


def bulk_intake(runtime: Runtime, server: str) -> BulkIntake:
    """Takes what answers hold of the runtime's kinds; their paths begin with that of the server, if it has one."""
    prefix = URL(server).path.rstrip("/")
    return BulkIntake({prefix + resource.path: resource for resource in runtime.bulk}, runtime.watch_intake)


class Login:
    """Our credentials, each time that kopf asks for some."""

    def __init__(
        self,
        credentials: Credentials,
        traces: Sequence[aiohttp.TraceConfig] = (),
        response_class: Callable[[str], type[DeepJsonResponse]] = lambda _: DeepJsonResponse,
    ) -> None:
        """`traces` are notified of every request; `response_class` is asked for with the URL of the server."""
        self._credentials = credentials
        self._traces = traces
        self._response_class = response_class
        self._logins = 0
        self._sessions: list[kopf.AiohttpSession] = []

    async def log_in(self, **_: Any) -> kopf.AiohttpSession:
        self._logins += 1
        if self._logins > 1:
            # Asked again: the last ones were refused. Load fresh ones, and not in a tight loop if those are no better.
            await asyncio.sleep(LOGIN_PAUSE_SECONDS)
            await self._credentials.load()
        info = await connection(self._credentials, priority=self._logins)
        session = open_session(info, self._traces, self._response_class(info.server))
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        """kopf closes a session once it has used it; one that it was given at its very end it never does."""
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            await session.aiohttp_session.close()


def open_session(
    info: kopf.ConnectionInfo,
    traces: Sequence[aiohttp.TraceConfig] = (),
    response_class: type[DeepJsonResponse] = DeepJsonResponse,
) -> kopf.AiohttpSession:
    """The connection that kopf would make, but for how answers are read."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        response_class=response_class,
        trace_configs=list(traces),
    )
    return kopf.AiohttpSession(server=info.server, priority=info.priority, aiohttp_session=session)


async def connection(credentials: Credentials, priority: int) -> kopf.ConnectionInfo:
    """Our credentials in kopf's words. kopf never takes equal ones twice: the priority tells them apart."""
    configuration = credentials.configuration
    authorization = await credentials.authorization()
    scheme, _, token = (authorization or "").partition(" ")
    return kopf.ConnectionInfo(
        server=credentials.server,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=find_proxy(configuration),
        priority=priority,
    )


# --- settings --------------------------------------------------------------------------------------------------------


class Backoffs:
    """Growing pauses without an end; can be gone through any number of times."""

    def __iter__(self) -> Iterator[float]:
        yield from BACKOFF_SECONDS
        while True:
            yield BACKOFF_SECONDS[-1]


class NoDiffBase(kopf.DiffBaseStorage):
    """Remembers nothing on objects; `on.event` handlers compare nothing."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        return None


class NoProgress(kopf.ProgressStorage):
    """Remembers nothing on objects; `on.event` handlers are never resumed."""

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence


def configure(settings: kopf.OperatorSettings) -> None:
    """kopf as a pair of eyes: it watches everything, writes nothing and does not give up."""
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    settings.persistence.finalizer = FINALIZER
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.networking.error_backoffs = Backoffs()
    settings.networking.request_timeout = 60.0
    settings.networking.connect_timeout = 10.0
    settings.watching.connect_timeout = 10.0
    settings.watching.field_selectors["", "v1", "pods"] = POD_FIELDS
    # kopf would kill the process so long after its operator has ended; ours may go on for years after that.
    settings.process.ultimate_exiting_timeout = None
    for name in TALKATIVE:  # under `kopf run`, too, where logging is kopf's
        logging.getLogger(name).setLevel(logging.WARNING)


# --- a kopf that comes back ------------------------------------------------------------------------------------------


async def watch(runtime: Runtime, stop: asyncio.Event, on_spawn: Callable[[], None]) -> None:
    """Run kopf's operator until `stop`, again whenever it ends; `on_spawn`: kopf has just taken over the signals."""
    registry = kopf.OperatorRegistry()
    login = register(registry, runtime, owns_runtime=False)
    with runtime.watch_control.watched():
        await _watch_again_and_again(registry, login, runtime, stop, on_spawn)


async def _watch_again_and_again(
    registry: kopf.OperatorRegistry, login: Login, runtime: Runtime, stop: asyncio.Event, on_spawn: Callable[[], None]
) -> None:
    now, control = asyncio.get_running_loop().time, runtime.watch_control
    failures = 0
    while not stop.is_set():
        if control.restart_wanted.is_set():
            await first_of(control.watch_ended(), stop.wait())
            continue
        started_seconds = now()
        try:
            # A stop flag would cost kopf five seconds, so it is cancelled.
            await first_of(_operate(registry, on_spawn), stop.wait(), control.restart_wanted.wait())
        finally:
            await login.close()
        if stop.is_set() or control.restart_wanted.is_set():
            continue
        runtime.watch_intake.note_restart()
        failures = 0 if now() - started_seconds > CALM_SECONDS else failures + 1
        pause_seconds = RESTART_SECONDS[min(failures, len(RESTART_SECONDS) - 1)]
        _log.error("Watching has ended; it is started again in %g s", pause_seconds)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause_seconds)


async def _operate(registry: kopf.OperatorRegistry, on_spawn: Callable[[], None]) -> None:
    try:
        tasks = await kopf.spawn_tasks(registry=registry, identity=IDENTITY, clusterwide=True, standalone=True)
        on_spawn()
        await kopf.run_tasks(tasks, ignored=NotKopfs())
    except Exception as error:
        _log.error("kopf's operator has failed: %r", error)


class NotKopfs(Collection["asyncio.Task[Any]"]):
    """Every task that kopf did not make itself. At its end kopf cancels all tasks that are not in here."""

    def __contains__(self, task: object) -> bool:
        coroutine = cast("asyncio.Task[Any]", task).get_coro()
        code = getattr(coroutine, "cr_code", None)
        return code is None or not code.co_filename.startswith(KOPF_FOLDER)

    def __iter__(self) -> "Iterator[asyncio.Task[Any]]":
        return (task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
