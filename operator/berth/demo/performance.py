"""One demo from curtain to curtain: stage, play and view are put together, and what came of it is said."""

import asyncio
import sys

from rich.console import Console

from berth.cluster.clock import RealClock
from berth.demo.command import FAILED, INTERRUPTED, OK, Options
from berth.demo.complaints import kept_complaints
from berth.demo.play import Interrupted, Play
from berth.demo.portrait import save_portrait
from berth.demo.scenario import DEFAULT_PACE, GIANT, NAMESPACE, Pace, make_plan
from berth.demo.stage import EmbeddedStage
from berth.demo.verdict import problems_of, summary
from berth.demo.views import make_view, say


async def run_demo(
    options: Options, stopping: asyncio.Event, console: Console | None = None, pace: Pace = DEFAULT_PACE
) -> int:
    """The exit code. `stopping` ends it before its time."""
    # rich's own guess would take a variable of the environment for a terminal.
    console = console or Console(force_terminal=sys.stdout.isatty())
    with kept_complaints() as complaints:
        async with EmbeddedStage(RealClock(), options.seed) as stage:
            code = await _perform(options, stopping, console, stage, pace)
            logs = [stage.operator_log(), *complaints.lines] if code == FAILED else []
    for text in logs:
        say(console, text)
    return code


async def _perform(
    options: Options, stopping: asyncio.Event, console: Console, stage: EmbeddedStage, pace: Pace
) -> int:
    plan = make_plan(options.nodes, options.pods, options.seed, pace)
    view = make_view(console)
    play = Play(plan, stage, view, RealClock(), lambda: not stopping.is_set())
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
        await _keep(console, stage, stopping)
    ending = await stage.end()
    _complain(console, [ending] if ending else [])
    return FAILED if problems or ending else OK


def _save(play: Play, options: Options) -> list[str]:
    if options.picture is None:
        return []
    try:
        save_portrait(play.scene(), options.picture)
    except OSError as error:
        return [f"--picture {options.picture}: {error.strerror or error}"]
    return []


def _complain(console: Console, problems: list[str]) -> None:
    for problem in problems:
        say(console, f"FAILED: {problem}")


async def _keep(console: Console, stage: EmbeddedStage, stopping: asyncio.Event) -> None:
    for line in (
        "",
        "The cluster stays until Ctrl-C. In another terminal:",
        f"  export KUBECONFIG={stage.kubeconfig}",
        f"  kubectl -n {NAMESPACE} get deployments,jobs,pods",
        f"  kubectl -n {NAMESPACE} describe pod {GIANT}",
        "  kubectl get schedulingpolicies",
    ):
        say(console, line)
    ends = [asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(stage.wait_broken())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
