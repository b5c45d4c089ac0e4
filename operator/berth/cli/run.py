"""`berth run`: the scheduler as a process, from its flags and environment to a clean end."""

import argparse
import asyncio
import logging
import os
import signal
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from berth import __version__
from berth.cli.common import FAILED, OK, USAGE, complain, new_parser
from berth.cluster.clock import RealClock
from berth.cluster.credentials import Credentials
from berth.cluster.delays import pause_seconds
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.cluster.peering import NoPeering, Peering
from berth.configuration import BadConfiguration, Options, read
from berth.configuration.file import render
from berth.configuration.flags import add_settings, given
from berth.elector import Elector
from berth.handlers import watch
from berth.runtime import Runtime
from berth.scheduler.ports import Clock
from berth.serving import logs
from berth.serving.server import CannotServe

_log = logging.getLogger(__name__)

EXAMPLES = """The scheduler serves pods whose spec.schedulerName is "berth", or what a SchedulingPolicy names.
Any number of replicas may run: they elect a leader by the ClusterKopfPeering object that --peering-name names, which is
made if it is missing (crds/clusterkopfpeerings.kopf.dev.yaml defines the kind). The others stand by and take over when
its record is out of date; `berth leader` shows who leads. With --standalone one replica runs without all that.
SIGTERM or SIGINT stops it cleanly: no new binds, running ones finish, exit code 0; a second one ends it at once.
SIGUSR2 writes nodes, placed pods and queue to the log, and compares them with the API server.

Each setting can be given as a flag, as a variable (BERTH_CENSUS_SECONDS for --census-seconds; on or off for what is
only switched) or in the file that --config names (censusSeconds). Flags win over variables, these over the file.

examples:
  %(prog)s                                       one of several replicas, or the only one
  %(prog)s --standalone                          the only one, without an election
  %(prog)s --kubeconfig ~/.kube/config --context staging --log-format json
  %(prog)s --config berth.yaml --log-level debug
  %(prog)s --write-config-to berth.yaml          every setting as it is in effect, explained; then exit
  %(prog)s --https-address 127.0.0.1:10259 --http-address 127.0.0.1:10261
  %(prog)s --standalone --https-address ""       without health and metrics

"""


def add_run(commands: Any) -> None:
    run = new_parser(
        commands.add_parser,
        "run",
        help="schedule pods on a cluster",
        text="Schedule pods on a cluster.",
        more=EXAMPLES,
    )
    add_settings(run)
    run.add_argument("--version", action="version", version=f"berth {__version__}")
    run.set_defaults(command=_run, parser=run)


def _run(flags: argparse.Namespace) -> int:
    try:
        options = read_options(flags, dict(os.environ))
    except BadConfiguration as error:
        return complain("\n".join(f"berth run: {problem}" for problem in error.problems), USAGE)
    if flags.write_config_to is not None:
        return _write(flags.write_config_to, render(options))
    logs.configure(options.log_level, options.log_format)
    return asyncio.run(_run_until_stopped(options))


def read_options(flags: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    """Raises BadConfiguration."""
    return read(environment, given(flags), flags.config)


def _write(path: str, text: str) -> int:
    if path == "-":
        print(text, end="")
        return OK
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        return complain(f"berth run: --write-config-to {path}: {error.strerror or error}")
    return OK


async def _run_until_stopped(options: Options) -> int:
    runtime = Runtime(options)
    runtime.introduce()
    stopping = asyncio.Event()
    _take_signals(stopping)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, runtime.dump)
    try:
        await runtime.start()
    except CredentialsError as error:
        return complain(f"berth run: {error}")
    except CannotServe as error:
        await runtime.api.close()
        return complain(f"berth run: {error}")
    try:
        problem = await _unless_stopped(_first_contact(runtime), stopping)
        if stopping.is_set():
            return OK
        if problem is not None:
            return complain(f"berth run: {problem}")
        return await _watch_until_stopped(runtime, stopping)
    finally:
        await runtime.stop()


async def _unless_stopped(work: Coroutine[Any, Any, str | None], stopping: asyncio.Event) -> str | None:
    """What the work gives; it is given up when we are asked to stop."""
    working, asked = asyncio.create_task(work), asyncio.create_task(stopping.wait())
    done, late = await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return working.result() if working in done else None


async def _first_contact(runtime: Runtime) -> str | None:
    """What no waiting would mend. A server that is merely down is waited for."""
    try:
        problem = await runtime.probe()
    except ApiError as error:
        return f"{runtime.credentials.server} does not accept our credentials: {error}"
    if problem is not None and problem.is_misconfigured:
        return f"{runtime.credentials.server} cannot be reached: {problem}"
    return None if runtime.lead is None else await _join(runtime.lead.peering, RealClock())


async def _join(peering: Peering, clock: Clock) -> str | None:
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
    """Whether it is worth waiting. Credentials that are not accepted are better told of at once."""
    return isinstance(error, Unreachable) or (error.is_transient and error.status != 401)


async def _watch_until_stopped(runtime: Runtime, stopping: asyncio.Event) -> int:
    """The scheduler ends before the watches, so that nothing is decided on what is no longer told.

    The lead is given up in between: nothing is under way any more, and another replica need not wait.
    """
    end_watch = asyncio.Event()
    elector = _start_elector(runtime)
    watching = asyncio.create_task(watch(runtime, end_watch, lambda: _take_signals(stopping)), name="watching")
    waits = [asyncio.ensure_future(stopping.wait()), runtime.failure, watching]
    await asyncio.wait([wait for wait in waits if wait is not None], return_when=asyncio.FIRST_COMPLETED)
    failed = not stopping.is_set()
    await runtime.stop_scheduling()
    await runtime.step_down()
    end_watch.set()
    await asyncio.gather(watching, return_exceptions=True)
    if elector is not None:
        await asyncio.to_thread(elector.stop)
    return FAILED if failed else OK


def _start_elector(runtime: Runtime) -> Elector | None:
    if runtime.lead is None:
        return None
    elector = Elector(runtime.lead, Credentials(runtime.credentials.source))
    elector.start()
    return elector


def _take_signals(stopping: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT stops cleanly, the second ends the process at once."""

    def stop() -> None:
        if stopping.is_set():
            os._exit(FAILED)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
