"""Budgets: which of the possible victims a PodDisruptionBudget protects.

A pod counts against every PodDisruptionBudget of its namespace whose selector matches it, unless the budget's status
lists it as disrupted already. Pods are counted in order of importance. A pod is protected if a budget allows no more
disruptions. A budget allows what its status says, less the evicted pods that its status does not show yet
(`State.disrupting`); such a pod is not counted a second time.
A budget whose selector is missing or empty matches no pod, and a pod without labels matches no budget.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.pod_counts import LabelIndex
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn
from berth.model import DisruptionBudget, Pod

KIND = "PodDisruptionBudget"


class Budgets:
    """The budgets of one revision of the state."""

    def __init__(self, state: State) -> None:
        self._state, self._revision = state, state.revision(KIND)
        self._budgets: list[DisruptionBudget] = [
            budget for budget in state.objects[KIND].values() if budget.selector and budget.selector.requirements
        ]
        self._allowed = np.array([budget.disruptions_allowed for budget in self._budgets], dtype=np.int64)
        self._keys = [f"{budget.namespace}/{budget.name}" for budget in self._budgets]
        self._by_namespace: dict[str, LabelIndex[int]] = {}
        for number, budget in enumerate(self._budgets):
            if budget.selector is not None:
                self._by_namespace.setdefault(budget.namespace, LabelIndex()).add(number, [budget.selector])
        self._known: dict[str, tuple[Mapping[str, str], tuple[int, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def statistics(self) -> dict[str, int]:
        """`pods`: those whose budgets are cached."""
        return {"budgets": len(self._budgets), "pods": len(self._known)}

    def are_of(self, state: State) -> bool:
        return self._state is state and self._revision == state.revision(KIND)

    def forget_gone(self) -> None:
        """Drops cached matches of removed pods, once they outnumber those of existing pods.

        So the cache is bounded by the number of placed pods, and the cost per pod is constant on average.
        """
        table = self._state.table
        if len(self._known) > 2 * len(table.pods):
            there = {uid for name in table.names() for uid in table.pods_on(name)}
            self._known = {uid: known for uid, known in self._known.items() if uid in there}

    def protected(self, pods: Sequence[Pod], place: NDArray[np.intp]) -> BoolColumn:
        """Returns bool[pods]: the pods whose eviction violates a budget, if all pods of their place are evicted.

        `place` is intp[pods], one number per node. The pods of one place are sorted by importance.
        """
        found = np.zeros(len(pods), dtype=np.bool_)
        counting = list(map(self._counting_yet if self._state.disrupting else self._counting, pods))
        number = np.fromiter(chain.from_iterable(counting), np.intp)
        if not len(number):
            return found
        index = np.repeat(np.arange(len(pods)), list(map(len, counting)))
        together = place[index] * len(self._budgets) + number
        order = np.argsort(together, kind="stable")
        begins = np.flatnonzero(np.diff(together[order], prepend=-1))
        before = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
        found[index[order][before >= self._allowed_now()[number[order]]]] = True
        return found

    def of(self, pod: Pod) -> list[str]:
        """Returns the keys of the budgets that the pod counts against."""
        return [self._keys[number] for number in self._counting(pod)]

    def _allowed_now(self) -> NDArray[np.int64]:
        disrupting = self._state.disrupting
        if not disrupting:
            return self._allowed
        taken = [len(disrupting.get(key, ())) for key in self._keys]
        return self._allowed - np.array(taken, dtype=np.int64)

    def _counting(self, pod: Pod) -> tuple[int, ...]:
        """Returns the indexes of the budgets that the pod counts against; cached until its labels change."""
        if not self._budgets:
            return ()
        known = self._known.get(pod.uid)
        if known is None or known[0] is not pod.labels:
            known = self._known[pod.uid] = pod.labels, self._matching(pod)
            self.forget_gone()
        return known[1]

    def _counting_yet(self, pod: Pod) -> tuple[int, ...]:
        """The same without the budgets that already count the pod as being evicted."""
        disrupting = self._state.disrupting
        return tuple(number for number in self._counting(pod) if pod.uid not in disrupting.get(self._keys[number], ()))

    def _matching(self, pod: Pod) -> tuple[int, ...]:
        index = self._by_namespace.get(pod.namespace)
        if index is None or not pod.labels:
            return ()
        return tuple(number for number in index.candidates(pod.labels) if self._counts(self._budgets[number], pod))

    def _counts(self, budget: DisruptionBudget, pod: Pod) -> bool:
        matches = budget.selector is not None and budget.selector.matches(pod.labels)
        return matches and pod.name not in budget.disrupted_pods
