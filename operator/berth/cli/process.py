"""`berth run` once everything is imported: runtime, watches and elector, from the first answer to a clean end."""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Any

from berth.cli.common import FAILED, OK, complain
from berth.cli.start import Beginning
from berth.cluster.clock import RealClock
from berth.cluster.credentials import Credentials
from berth.cluster.delays import pause_seconds
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.peering import NoPeering, Peering
from berth.collector import Collector
from berth.configuration import Options
from berth.elector import Elector
from berth.handlers import watch
from berth.runtime import Runtime, make_runtime
from berth.scheduler.ports import Clock
from berth.serving.server import CannotServe
from berth.signals import take_signals

_log = logging.getLogger(__name__)


async def operate(options: Options, begun: Beginning) -> int:
    """Until it is stopped or fails; the exit code."""
    runtime = make_runtime(
        options, api=begun.api, credentials=begun.credentials, seen_cluster=begun.seen_cluster, collector=Collector()
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, runtime.dump)
    try:
        await runtime.start()
    except CannotServe as error:
        begun.contact.cancel()
        await begun.api.close()
        return complain(f"berth run: {error}")
    try:
        problem = await _unless_stopped(_may_begin(runtime, begun.contact), begun.stopping)
        if begun.stopping.is_set():
            return OK
        if problem is not None:
            return complain(f"berth run: {problem}")
        return await _watch_until_stopped(runtime, begun.stopping)
    finally:
        await runtime.stop()


async def _may_begin(runtime: Runtime, contact: "asyncio.Task[str | None]") -> str | None:
    """Why there is no use in watching."""
    problem = await contact
    if problem is not None or runtime.leader is None:
        return problem
    return await join_peering(runtime.leader.peering, RealClock())


async def _unless_stopped(work: Coroutine[Any, Any, str | None], stopping: asyncio.Event) -> str | None:
    """What the work gives; it is given up when we are asked to stop."""
    working, asked = asyncio.create_task(work), asyncio.create_task(stopping.wait())
    done, late = await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return working.result() if working in done else None


async def join_peering(peering: Peering, clock: Clock) -> str | None:
    """Why there is nothing to elect a leader by; waits for an API server that is away or has no time."""
    failures = 0
    while True:
        try:
            await peering.ensure()
            await peering.look()
        except NoPeering as problem:
            return str(problem)
        except (ApiError, Unreachable) as error:
            if not _may_pass(error):
                return f"the replicas cannot be read: {error}"
            failures += 1
            if failures == 1:
                _log.warning("The API server does not say which replicas there are; asking until it does: %s", error)
            asked_seconds = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
            await clock.sleep(pause_seconds(failures, asked_seconds))
        else:
            return None


def _may_pass(error: ApiError | Unreachable) -> bool:
    """Whether it is worth waiting. Credentials that are not accepted are better reported at once."""
    return isinstance(error, Unreachable) or (error.is_transient and error.status != 401)


async def _watch_until_stopped(runtime: Runtime, stopping: asyncio.Event) -> int:
    """The scheduler ends before the watches, so that nothing is decided on a cache that is no longer updated.

    The lead is given up in between: nothing is under way any more, and another replica need not wait.
    """
    end_watch = asyncio.Event()
    elector = _start_elector(runtime)
    watching = asyncio.create_task(watch(runtime, end_watch, lambda: take_signals(stopping, FAILED)), name="watching")
    waits = [asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(runtime.wait_failure()), watching]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits[:2]:
        wait.cancel()
    failed = not stopping.is_set()
    await runtime.stop_scheduling()
    await runtime.step_down()
    end_watch.set()
    await asyncio.gather(watching, return_exceptions=True)
    if elector is not None:
        await asyncio.to_thread(elector.stop)
    return FAILED if failed else OK


def _start_elector(runtime: Runtime) -> Elector | None:
    if runtime.leader is None:
        return None
    elector = Elector(runtime.leader, Credentials(runtime.credentials.source))
    elector.start()
    return elector
