"""One demo from start to end: puts environment, play and view together, and prints the result."""

import asyncio
import sys

from rich.console import Console

from berth.cluster.clock import RealClock
from berth.demo.command import FAILED, INTERRUPTED, OK, DemoOptions
from berth.demo.complaints import kept_complaints
from berth.demo.environment import EmbeddedEnvironment
from berth.demo.play import Interrupted, Play
from berth.demo.scenario import DEFAULT_TIMING, GIANT, NAMESPACE, Timing, make_plan
from berth.demo.svg import save_svg
from berth.demo.verdict import problems_of, summary
from berth.demo.views import make_view, say


async def run_demo(
    options: DemoOptions, stopping: asyncio.Event, console: Console | None = None, timing: Timing = DEFAULT_TIMING
) -> int:
    """The exit code. `stopping` ends it before its time."""
    # rich's own guess would take a variable of the environment for a terminal.
    console = console or Console(force_terminal=sys.stdout.isatty())
    with kept_complaints() as complaints:
        async with EmbeddedEnvironment(RealClock(), options.seed) as environment:
            code = await _perform(options, stopping, console, environment, timing)
            logs = [environment.operator_log(), *complaints.lines] if code == FAILED else []
    for text in logs:
        say(console, text)
    return code


async def _perform(
    options: DemoOptions, stopping: asyncio.Event, console: Console, environment: EmbeddedEnvironment, timing: Timing
) -> int:
    plan = make_plan(options.nodes, options.pods, options.seed, timing)
    view = make_view(console)
    play = Play(plan, environment, view, RealClock(), lambda: not stopping.is_set())
    try:
        await play.perform()
    except Interrupted:
        view.close()
        say(console, "interrupted: the operator and the cluster are stopped")
        return INTERRUPTED
    finally:
        view.close()
    for line in summary(plan, play.picture, play.record, play.now_seconds, options.seed):
        say(console, line)
    problems = problems_of(plan, play.picture, play.record) + _save(play, options)
    _complain(console, problems)
    if play.record.trouble:
        return FAILED
    if options.keep:
        await _keep(console, environment, stopping)
    ending = await environment.end()
    _complain(console, [ending] if ending else [])
    return FAILED if problems or ending else OK


def _save(play: Play, options: DemoOptions) -> list[str]:
    if options.picture is None:
        return []
    try:
        save_svg(play.scene(), options.picture)
    except OSError as error:
        return [f"--picture {options.picture}: {error.strerror or error}"]
    return []


def _complain(console: Console, problems: list[str]) -> None:
    for problem in problems:
        say(console, f"FAILED: {problem}")


async def _keep(console: Console, environment: EmbeddedEnvironment, stopping: asyncio.Event) -> None:
    for line in (
        "",
        "The cluster stays until Ctrl-C. In another terminal:",
        f"  export KUBECONFIG={environment.kubeconfig}",
        f"  kubectl -n {NAMESPACE} get deployments,jobs,pods",
        f"  kubectl -n {NAMESPACE} describe pod {GIANT}",
        "  kubectl get schedulingpolicies",
    ):
        say(console, line)
    ends = [asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(environment.wait_broken())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
