"""One demo from start to end: puts environment, play and view together, and prints the result."""

import asyncio
import sys
from dataclasses import replace

from rich.console import Console

from berth.cluster.clock import RealClock
from berth.demo.command import FAILED, INTERRUPTED, OK, DemoOptions
from berth.demo.complaints import kept_complaints
from berth.demo.environment import EmbeddedEnvironment
from berth.demo.next_steps import steps_afterwards, steps_on_cluster
from berth.demo.play import Interrupted, Play
from berth.demo.scenario import DEFAULT_TIMING, Timing, make_plan
from berth.demo.svg import save_svg
from berth.demo.verdict import closing_text, problems_of
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
    except BaseException:
        view.close()
        raise
    problems = problems_of(plan, play.picture, play.record) + _save(play, options)
    text = closing_text(plan, play.picture, play.record, play.now_seconds, options.seed, problems)
    keeps = options.keep and not play.record.trouble
    view.end(replace(text, next_steps=steps_on_cluster(environment) if keeps else steps_afterwards()))
    view.close()
    if play.record.trouble:
        return FAILED
    if options.keep:
        await _keep(environment, stopping)
    ending = await environment.end()
    if ending:
        say(console, f"FAILED: {ending}")
    return FAILED if problems or ending else OK


def _save(play: Play, options: DemoOptions) -> list[str]:
    if options.picture is None:
        return []
    try:
        save_svg(play.scene(), options.picture)
    except OSError as error:
        return [f"--picture {options.picture}: {error.strerror or error}"]
    return []


async def _keep(environment: EmbeddedEnvironment, stopping: asyncio.Event) -> None:
    ends = [asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(environment.wait_broken())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
