"""Evictions of ours, counted against disruption budgets until the status of the budgets includes them.

A PodDisruptionBudget's status says how many disruptions are allowed, as the disruption controller last computed it.
After we delete a pod, the controller needs a moment to update that number; until then one disruption too many seems
allowed (#91492). So each eviction is subtracted here, from the decision on. It is counted until all of this is true:

- the pod is seen terminating, and the budget has been written since;
- `currentHealthy` of the budget has fallen by the evictions that it did not include. A controller that is behind
  writes budgets too, from pods that it has seen long before;
- LEAST_SECONDS have passed, because other pods may have become unhealthy.

The count ends after MOST_SECONDS in any case: no controller may write budgets, the pod may not have been healthy, or
a new pod may have taken its place before the controller looked.
"""

from dataclasses import dataclass, field

from berth.engine.state.budgets import KIND, Budgets
from berth.engine.state.state import State
from berth.model import Pod
from berth.scheduler.object_events import ObjectEvent
from berth.scheduler.ports import Clock

LEAST_SECONDS = 2.0
MOST_SECONDS = 30.0


@dataclass(slots=True)
class _Leaver:
    node: str
    budgets: list[str]
    since: float | None = None  # when it was seen terminating
    versions: list[str] = field(default_factory=list)  # of the budgets at that moment
    # By budget, the number of healthy pods at which it includes the eviction; a budget that did once is not in here.
    awaited: dict[str, int] = field(default_factory=dict)


class Disruptions:
    """Maintains `State.disrupting`."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._leavers: dict[str, _Leaver] = {}
        self._budgets: Budgets | None = None

    def begin(self, pod: Pod, node_name: str) -> None:
        """The pod is to be evicted from the node; it may have been a victim before, on this node or another."""
        leaver = self._leavers.get(pod.uid)
        if leaver is None:
            leaver = _Leaver(node_name, [])
        elif self._is_there(pod.uid, node_name):
            leaver.node, leaver.since = node_name, None
        else:
            return
        for key in self._budgets_of(pod):  # other budgets than before if its labels have changed
            if key not in leaver.budgets:
                leaver.budgets.append(key)
                evicted = self._state.disrupting.setdefault(key, set())
                evicted.add(pod.uid)
                leaver.awaited[key] = self._state.objects[KIND][key].current_healthy - len(evicted)
        if leaver.budgets:
            self._leavers[pod.uid] = leaver

    def _budgets_of(self, pod: Pod) -> list[str]:
        if self._budgets is None or not self._budgets.are_of(self._state):
            self._budgets = Budgets(self._state)
        return self._budgets.of(pod)

    def end(self, uid: str) -> None:
        """The pod is not evicted, or the budgets include it now."""
        leaver = self._leavers.pop(uid, None)
        for key in leaver.budgets if leaver is not None else ():
            pods = self._state.disrupting[key]
            pods.discard(uid)
            if not pods:
                del self._state.disrupting[key]

    def on_event(self, event: ObjectEvent) -> None:
        if event.kind == "Pod":
            self.follow(event.identity.uid)
        elif event.kind == KIND:
            self._note_health(event.identity.key)

    def follow(self, uid: str) -> None:
        """The pod has changed: note if it is terminating or gone."""
        leaver = self._leavers.get(uid)
        if leaver is not None and leaver.since is None and not self._is_there(uid, leaver.node):
            leaver.since, leaver.versions = self._clock.now(), self._versions(leaver)

    def _note_health(self, key: str) -> None:
        """The budget has changed: note which evictions its number of healthy pods includes."""
        budget = self._state.objects[KIND].get(key)
        for uid in self._state.disrupting.get(key, ()):
            awaited = self._leavers[uid].awaited
            if budget is None or budget.current_healthy <= awaited.get(key, 0):
                awaited.pop(key, None)

    def end_included(self) -> None:
        """End what the budgets include by now, and forget pods that are gone."""
        if self._budgets is not None:
            self._budgets.forget_gone()
        now = self._clock.now()
        for uid, leaver in list(self._leavers.items()):
            self.follow(uid)  # a pod is gone too if only its successor was reported
            if leaver.since is not None:
                passed = now - leaver.since
                if passed >= MOST_SECONDS or (passed >= LEAST_SECONDS and self._is_included(leaver)):
                    self.end(uid)

    def sizes(self) -> dict[str, int]:
        """`evictions`: those that count against budgets; `pods`: those whose budgets are cached."""
        return {
            "evictions": len(self._leavers),
            "pods": 0 if self._budgets is None else self._budgets.statistics()["pods"],
        }

    def _is_there(self, uid: str, node_name: str) -> bool:
        """Whether the pod is on the node and is not terminating."""
        there = self._state.table.pods_on(node_name).get(uid)
        return there is not None and not there.deleting

    def _is_included(self, leaver: _Leaver) -> bool:
        return not leaver.awaited and all(
            new != old for new, old in zip(self._versions(leaver), leaver.versions, strict=True)
        )

    def _versions(self, leaver: _Leaver) -> list[str]:
        budgets = self._state.objects[KIND]
        return [budgets[key].resource_version if key in budgets else "" for key in leaver.budgets]
