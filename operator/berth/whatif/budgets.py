"""Disruption budgets during a simulation: what evictions use up, and what new pods give back.

A budget allows what its status says, less the pods that have left since. A pod that was created in place of one that
left gives the disruption back when it has a node: it is taken to become healthy there.
"""

from collections.abc import Iterator
from typing import Final

from berth.engine.state.state import State
from berth.model import DisruptionBudget, Pod

KIND: Final = "PodDisruptionBudget"
SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class DisruptionLedger:
    """Maintains `State.disrupting`, which preemption reads."""

    def __init__(self, state: State) -> None:
        self._state = state

    def refusal(self, pod: Pod) -> str | None:
        """Returns why the API server refuses to evict the pod now; None if it may be evicted."""
        if pod.phase == "Pending" or pod.deleting:
            return None
        found = list(self._budgets_of(pod))
        if len(found) > 1:
            return SEVERAL
        if found and self._allowed(found[0]) <= 0:
            return f"the disruption budget {found[0].name} does not allow it"
        return None

    def count(self, pod: Pod) -> None:
        """The pod has left its node."""
        for budget in self._budgets_of(pod):
            self._state.disrupting.setdefault(_key(budget), set()).add(pod.uid)

    def give_back(self, uid: str) -> None:
        """The pod that was created in place of this one has a node."""
        for key, uids in list(self._state.disrupting.items()):
            uids.discard(uid)
            if not uids:
                del self._state.disrupting[key]

    def _allowed(self, budget: DisruptionBudget) -> int:
        return budget.disruptions_allowed - len(self._state.disrupting.get(_key(budget), ()))

    def _budgets_of(self, pod: Pod) -> Iterator[DisruptionBudget]:
        """Yields the budgets that the eviction API looks at; unlike in preemption, an empty selector selects all."""
        for budget in self._state.objects[KIND].values():
            selector = budget.selector if budget.namespace == pod.namespace else None
            if selector is not None and selector.matches(pod.labels):
                yield budget


def _key(budget: DisruptionBudget) -> str:
    return f"{budget.namespace}/{budget.name}"
