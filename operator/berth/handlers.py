"""The kopf shell: handlers that hand over, settings that keep kopf out of the way, and a kopf that comes back.

kopf watches; nothing else is asked of it. The settings turn off everything by which it would write to objects or post
events, and raise the limits at which it would give up:

- storages that store nothing, and a finalizer of its own: kopf takes *its* finalizer off objects that need none, and
  by default that is every kopf operator's finalizer;
- requests are retried for ever, so an API server that is away for minutes ends nothing;
- CRDs stay observed (`scanning`), so that SchedulingPolicies work whether their CRD is there first or Berth is.

Some things still end kopf's operator: a watch that reports an error other than 410, and a kind whose CRD is deleted
under its watch. `watch` starts it again in the same process, beside the same scheduler and cache; the relist brings
the cache up to date. Under `kopf run` the process ends instead, and whoever supervises it starts it again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import kopf

from berth.cluster.transport import find_proxy
from berth.runtime import POD_FIELDS, RESOURCES, Runtime

FINALIZER = "berth.dev/none"
BACKOFF_SECONDS = (0.25, 0.5, 1.0, 2.0, 3.0)
RESTART_SECONDS = (1.0, 2.0, 5.0, 10.0)
CALM_SECONDS = 60.0
LOGIN_PAUSE_SECONDS = 1.0
KOPF_FOLDER = str(Path(kopf.__file__).parent)

_log = logging.getLogger(__name__)

EventHandler = Callable[..., Awaitable[None]]


def register(registry: kopf.OperatorRegistry, runtime: Runtime, *, owns_runtime: bool) -> None:
    """Have every kind watched for the runtime; `owns_runtime`: started and stopped with kopf."""
    for resource in RESOURCES:
        kopf.on.event(resource.group, resource.version, resource.plural, id=resource.kind, registry=registry)(
            _handler(resource.kind, runtime)
        )
    # kopf would wait a minute after a login that failed, and a token file is empty for a moment only.
    kopf.on.login(registry=registry, backoff=LOGIN_PAUSE_SECONDS)(_login(runtime))

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        if owns_runtime:
            await runtime.start()

    if owns_runtime:

        @kopf.on.cleanup(registry=registry)
        async def stop(**_: Any) -> None:
            await runtime.stop()


def _handler(kind: str, runtime: Runtime) -> EventHandler:
    async def hand_over(event: Mapping[str, Any], **_: Any) -> None:
        runtime.on_event(kind, event["type"], event["object"])

    return hand_over


def _login(runtime: Runtime) -> Callable[..., Awaitable[kopf.ConnectionInfo]]:
    logins = 0

    async def login(**_: Any) -> kopf.ConnectionInfo:
        nonlocal logins
        logins += 1
        if logins > 1:
            # Asked again means turned away: fresh credentials, and not in a tight loop if those are no better.
            await asyncio.sleep(LOGIN_PAUSE_SECONDS)
            await runtime.credentials.load()
        return await connection(runtime, priority=logins)

    return login


async def connection(runtime: Runtime, priority: int) -> kopf.ConnectionInfo:
    """Our credentials in kopf's words. kopf never takes equal ones twice: the priority tells them apart."""
    configuration = runtime.credentials.configuration
    authorization = await runtime.credentials.authorization()
    scheme, _, token = (authorization or "").partition(" ")
    return kopf.ConnectionInfo(
        server=runtime.credentials.server,
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
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)


# --- a kopf that comes back ------------------------------------------------------------------------------------------


async def watch(runtime: Runtime, stop: asyncio.Event, on_spawn: Callable[[], None]) -> None:
    """Run kopf's operator until `stop`, again whenever it ends; `on_spawn`: kopf has just taken over the signals."""
    registry = kopf.OperatorRegistry()
    register(registry, runtime, owns_runtime=False)
    loop = asyncio.get_running_loop()
    failures = 0
    while not stop.is_set():
        started_seconds = loop.time()
        await _watch_once(registry, stop, on_spawn)
        if stop.is_set():
            return
        runtime.watch_restarts += 1
        failures = 0 if loop.time() - started_seconds > CALM_SECONDS else failures + 1
        pause_seconds = RESTART_SECONDS[min(failures, len(RESTART_SECONDS) - 1)]
        _log.error("Watching has ended; it is started again in %g s", pause_seconds)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause_seconds)


async def _watch_once(registry: kopf.OperatorRegistry, stop: asyncio.Event, on_spawn: Callable[[], None]) -> None:
    """Until kopf ends by itself or is told to. By cancelling: a stop flag would cost five seconds at every end."""
    ends = [asyncio.ensure_future(_operate(registry, on_spawn)), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


async def _operate(registry: kopf.OperatorRegistry, on_spawn: Callable[[], None]) -> None:
    try:
        tasks = await kopf.spawn_tasks(registry=registry, clusterwide=True, standalone=True)
        on_spawn()
        await kopf.run_tasks(tasks, ignored=_NotKopfs())
    except Exception as error:
        _log.error("kopf's operator has failed: %r", error)


class _NotKopfs(Collection["asyncio.Task[Any]"]):
    """Every task that kopf did not make itself. At its end kopf cancels all tasks that are not in here."""

    def __contains__(self, task: object) -> bool:
        coroutine = cast("asyncio.Task[Any]", task).get_coro()
        code = getattr(coroutine, "cr_code", None)
        return code is None or not code.co_filename.startswith(KOPF_FOLDER)

    def __iter__(self) -> "Iterator[asyncio.Task[Any]]":
        return (task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
