"""A plugin that takes part in the stages between a decision and the bind, and hears whether each of its pods got there.

It refuses reservations and permits, has pods wait to be allowed, rejects some that wait and lets others wait for longer
than they may, takes its time before the bind and fails at it now and then. What it was told is kept for the process
that it is in: a reservation ends once, and reservations of several such plugins in reverse order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from berth.engine.binding_points import BindingPlugin, Permit
from berth.engine.events import ANY
from berth.model import Pod
from berth.sim.loop import Process, current_process
from simulation.weather import Weather

NAME = "Usher"
WAIT_SECONDS = 600.0
SHORT_SECONDS = 3.0
ANSWER_SECONDS = 10.0  # within which it makes up its mind


class Reservations:
    """Of one process: UID to the plugins that have reserved for it, in order."""

    def __init__(self, weather: Weather, violate: Callable[..., None]) -> None:
        self.weather = weather
        self.open: dict[str, list[str]] = {}
        self._refused: dict[str, str] = {}  # by UID: who has refused, so that those behind it were not asked
        self._violate = violate

    def begin(self, plugin: str, pod: Pod) -> None:
        if plugin in self.open.setdefault(pod.uid, []):
            self._violate("16 stages", f"{plugin} reserves twice for {pod.key}", pod.key, pod.uid)
        self.open[pod.uid].append(plugin)

    def refuse(self, plugin: str, pod: Pod) -> None:
        """What it has reserved up to then it hears of nevertheless."""
        self._refused[pod.uid] = plugin

    def end(self, plugin: str, pod: Pod, *, bound: bool) -> None:
        held = self.open.get(pod.uid, [])
        if pod.uid in self._refused and not bound:
            if plugin not in held:
                return  # it was not asked
            del self._refused[pod.uid]
        place = 0 if bound else -1
        if not held or held[place] != plugin:
            how = "is bound" if bound else "is not bound"
            self._violate(
                "16 stages", f"{plugin} hears that {pod.key} {how}, and reserved are {held}", pod.key, pod.uid
            )
            return
        del held[place]
        if not held:
            del self.open[pod.uid]


of_process: dict[Process | None, Reservations] = {}


class Usher(BindingPlugin):
    name = NAME
    retry_events = ANY

    def __init__(self, args: Mapping[str, Any]) -> None:
        """It has no arguments."""

    @property
    def _reservations(self) -> Reservations:
        return of_process[current_process()]

    def reserve(self, pod: Pod, node_name: str) -> str | None:
        self._reservations.begin(self.name, pod)
        if not self._reservations.weather.happens("reserve refused"):
            return None
        self._reservations.refuse(self.name, pod)
        return "nothing can be reserved today"

    def unreserve(self, pod: Pod, node_name: str) -> None:
        self._reservations.end(self.name, pod, bound=False)

    def permit(self, pod: Pod, node_name: str) -> Permit:
        weather, loop = self._reservations.weather, asyncio.get_running_loop()
        if weather.happens("permit refused"):
            return Permit.reject("nobody may today")
        if not weather.happens("permit waits"):
            return Permit.allow()
        seconds = weather.between(0.0, ANSWER_SECONDS)
        if weather.happens("permit rejected later"):
            loop.call_later(seconds, self.waiting.reject, pod.uid, "not after all")
            return Permit.wait(WAIT_SECONDS)
        loop.call_later(seconds, self.waiting.allow, pod.uid)
        is_short = weather.happens("permit waits shortly")
        if is_short and seconds > SHORT_SECONDS:
            weather.counts["permit times out"] += 1
        return Permit.wait(SHORT_SECONDS if is_short else WAIT_SECONDS)

    async def pre_bind(self, pod: Pod, node_name: str) -> str | None:
        weather = self._reservations.weather
        fails = weather.happens("pre-bind fails")
        await asyncio.sleep(weather.between(0.0, 3.0) if weather.happens("pre-bind slow") else 0.0)
        return "not today" if fails else None

    def post_bind(self, pod: Pod, node_name: str) -> None:
        self._reservations.end(self.name, pod, bound=True)
