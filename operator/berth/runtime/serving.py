"""Serving: health, metrics, configuration and dumps over HTTP, if there is an address for them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from berth.runtime.health_checks import HealthChecks
from berth.runtime.state_dump import StateDump
from berth.runtime.statistics import Statistics
from berth.scheduler.access_review import Reviews
from berth.serving.loop_watchdog import LoopWatchdog
from berth.serving.pages import ServedState
from berth.serving.server import Endpoint, Server, ServingPlan


class Serving:
    """The server, and the watchdog of the event loop that it reads. Its own figures are part of the statistics."""

    def __init__(
        self,
        plan: ServingPlan,
        reviews: Reviews,
        *,
        statistics: Statistics,
        health: HealthChecks,
        dump: StateDump,
        configuration: Callable[[], Mapping[str, Any]],
        loop_watchdog: LoopWatchdog,
        endpoints: Sequence[Endpoint] = (),
    ) -> None:
        self._statistics = statistics
        self._loop_watchdog = loop_watchdog
        served = ServedState(
            readiness=health.readiness,
            statistics=self.statistics,
            configuration=configuration,
            cache_lines=dump.cache_lines,
            queue_lines=dump.queue_lines,
            alarms=health.alarms,
        )
        is_served = plan.https is not None or plan.http is not None or bool(endpoints)
        self.server = Server(plan, served, reviews, loop_watchdog, endpoints=endpoints) if is_served else None

    def statistics(self) -> dict[str, Any]:
        """Those of all components, and of the server."""
        return {**self._statistics.collect(), "serving": {} if self.server is None else self.server.statistics()}

    async def start(self) -> None:
        """Raises CannotServe when an address is taken or a certificate cannot be used."""
        if self.server is not None:
            await self.server.start()
            self._loop_watchdog.start()

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop()
            self._loop_watchdog.stop()
