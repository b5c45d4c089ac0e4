"""`berth top`: asks the scheduler once a second, and draws the cluster."""

import argparse
import asyncio
import time
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.live import Live

from berth.cli.actions.asking import CANNOT_ASK, SchedulerApi, is_busy, reason_of, scheduler_api, wait
from berth.cli.actions.decisions import order
from berth.cli.actions.top_screen import TopView, draw_top, drawn_node
from berth.cli.common import FAILED, INTERRUPTED, USAGE, complain, silence_logs
from berth.demo.views import can_draw
from berth.explain_api.resources import CLUSTER_VIEWS, CURRENT, DECISIONS, EXPLANATIONS, NODE_VIEWS

POLL_SECONDS: Final = 1.0
NODES_SECONDS: Final = 2.0
REST: Final = 4.0  # nodes are read again after this many times the time that reading them took
ROLES: Final = ("ClusterRoles berth-explain-view", "berth-explain-cluster-view")


def run(options: argparse.Namespace) -> int:
    """Draws until it is interrupted."""
    silence_logs()
    console = Console()
    if not can_draw(console):
        text = "standard output is no terminal that can show it: use `berth status` and `berth decisions -w` instead"
        return complain(f"berth top: {text}", USAGE)
    try:
        asyncio.run(_run(options, console))
    except CANNOT_ASK as error:
        return complain(f"berth top: {reason_of(error, ROLES)}", FAILED)
    except KeyboardInterrupt:
        pass
    return INTERRUPTED


async def _run(options: argparse.Namespace, console: Console) -> None:
    """Draws until it is interrupted. What is not answered now is asked again a second later."""
    async with scheduler_api(options) as scheduler:
        reader = TopReader(scheduler)
        await reader.read()
        with Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
            while True:
                width, height = console.size
                live.update(draw_top(reader.view, datetime.now(UTC), width, height - 1), refresh=True)
                await wait(POLL_SECONDS)
                await reader.read_again()


class TopReader:
    """Reads what is drawn: the cluster, pending pods and decisions each time, nodes less often if there are many."""

    def __init__(self, scheduler: SchedulerApi) -> None:
        self._scheduler = scheduler
        self._nodes_due_seconds = 0.0
        self.view = TopView({"status": {}})

    async def read(self) -> None:
        """Raises what `CANNOT_ASK` has."""
        scheduler, view = self._scheduler, self.view
        view.cluster = await scheduler.one(f"{CLUSTER_VIEWS.plural}/{CURRENT}")
        view.decisions = sorted(await scheduler.all(DECISIONS.plural), key=order)
        view.pending = await scheduler.some(EXPLANATIONS.plural)
        began = time.monotonic()
        if began >= self._nodes_due_seconds:
            view.nodes = [drawn_node(body) for body in await scheduler.all(NODE_VIEWS.plural)]
            took = time.monotonic() - began
            self._nodes_due_seconds = began + took + max(NODES_SECONDS, REST * took)
        status = view.cluster["status"]
        view.rates.append(round((status.get("rates") or {}).get("decisionsPerSecond", 0)))
        view.waits.append(status.get("pending", 0))
        view.problem = ""

    async def read_again(self) -> None:
        """The same; if nobody answers for a moment, the view says so and stays as it was."""
        try:
            await self.read()
        except CANNOT_ASK as error:
            if not is_busy(error):
                raise
            self.view.problem = reason_of(error)
