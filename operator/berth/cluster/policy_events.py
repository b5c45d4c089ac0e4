"""Events about SchedulingPolicies, for the recorder to post: by the leader only, and not without end.

A policy that a program edits in a loop must not fill the cluster with events. As with client-go's recorder there may be
BURST events about one object at once, and one more every REFILL_SECONDS; what is beyond that is dropped and counted.
"""

from collections import OrderedDict

from berth.cluster.event_bodies import CONTROLLER, Reference, Report
from berth.cluster.events import EventRecorder
from berth.cluster.fence import Fence
from berth.cluster.resources import POLICY
from berth.scheduler.ports import Clock

API_VERSION = "berth.dev/v1alpha1"
BURST = 25
REFILL_SECONDS = 300.0
POLICIES_LIMIT = 4096  # whose events are counted


class PolicyEvents:
    """Passes events about policies to the recorder, each behind the fence."""

    def __init__(self, recorder: EventRecorder, clock: Clock, fence: Fence) -> None:
        self._recorder = recorder
        self._clock = clock
        self._fence = fence
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by UID: how many may come, as of when

    def put(self, name: str, uid: str, *, type_: str, reason: str, action: str, note: str) -> None:
        """Have this event about the policy posted; returns at once."""
        if not self._is_within_limit(uid):
            self._recorder.drop()
            return
        regarding = Reference(API_VERSION, POLICY, "", name, uid)
        self._recorder.report(Report(regarding, type_, reason, action, note, CONTROLLER), self._fence)

    def _is_within_limit(self, uid: str) -> bool:
        now = self._clock.now()
        left, since = self._left.pop(uid, (float(BURST), now))
        left = min(float(BURST), left + (now - since) / REFILL_SECONDS)
        is_within = left >= 1
        self._left[uid] = (left - is_within, now)
        if len(self._left) > POLICIES_LIMIT:
            self._left.popitem(last=False)
        return is_within
