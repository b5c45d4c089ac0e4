"""Health checks: what liveness fails by, and what readiness is judged by beside the kinds.

Health is shown to every client, so that no check names a replica or a UID.
"""

from collections.abc import Mapping

from berth.cluster.api import Api
from berth.cluster.cache_sync import CacheSync
from berth.cluster.leader import Leader
from berth.runtime.decisions import Decisions
from berth.runtime.incidents import Incidents
from berth.serving.health import Alarm, Check, Finding, Readiness
from berth.serving.loop_watchdog import LoopWatchdog
from berth.serving.server import hang_alarm

LAGGING_SECONDS = 5.0  # an event loop that is so late is not ready for more work


class HealthChecks:
    """`alarms` are called in the serving thread, so they only read; everything else in the event loop."""

    def __init__(
        self,
        *,
        cache_sync: CacheSync,
        decisions: Decisions,
        incidents: Incidents,
        api: Api,
        loop_watchdog: LoopWatchdog,
        leader: Leader | None,
    ) -> None:
        self._cache_sync = cache_sync
        self._decisions = decisions
        self._incidents = incidents
        self._api = api
        self._loop_watchdog = loop_watchdog
        self._leader = leader
        alarms: dict[str, Alarm] = {"loop": lambda: hang_alarm(loop_watchdog), "scheduler": self._find_failure}
        checks: dict[str, Check] = {
            "loop": self._check_loop,
            "api-server": self._check_api_server,
            "cluster": self._check_cluster,
        }
        if leader is not None:
            alarms["leadership"] = leader.alarm
            checks["leadership"] = lambda: _check_leadership(leader)
        self.alarms: Mapping[str, Alarm] = alarms
        self.checks: Mapping[str, Check] = checks

    def readiness(self) -> Readiness:
        findings = {name: check() for name, check in self.checks.items()}
        return Readiness(self._cache_sync.sync_state(), self._decisions.is_open, findings)

    def problems(self) -> list[str]:
        """Returns what readiness fails by, each as check and problem."""
        found = self.readiness().all().items()
        return [f"{name}: {finding.problem}" for name, finding in found if finding.problem is not None]

    def _find_failure(self) -> str | None:
        return "the scheduling loop has ended with an error" if self._decisions.failed.is_set() else None

    def _check_loop(self) -> Finding:
        lag = self._loop_watchdog.lag_seconds
        if lag >= LAGGING_SECONDS:
            return Finding(f"it came round {lag:.1f} s late in the last half minute")
        return Finding(note=f"at most {lag:.3f} s late in the last half minute")

    def _check_api_server(self) -> Finding:
        """Never a problem: nobody is helped by a replica that is taken out because the API server is away."""
        age = self._api.last_answer_seconds
        if age is None:
            return Finding(note="it has not answered yet")
        return Finding(note=f"it last answered {age:.1f} s ago" + ("" if self._api.reachable else ", and is away now"))

    def _check_cluster(self) -> Finding:
        if self._incidents.other_cluster.is_set():
            return Finding("another cluster answers than the one that this process began with; start it again")
        if self._incidents.rewound.is_set():
            return Finding("the API server's store went back in time; starting over from fresh lists")
        return Finding()


def _check_leadership(leader: Leader) -> Finding:
    """Whether this replica leads."""
    if leader.is_leading:
        return Finding(note=f"leads, the fence is {'open' if leader.is_open else 'closed'}")
    return Finding(note=f"stands by behind {len(leader.leadership.seniors())}")
