"""Statistics of all components, by name: what the metrics are made of."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from berth.policy import Policy, PolicyStore
from berth.scheduler.measures import Names

MOST_POLICIES = 200  # that have metrics of their own

Source = Callable[[], Any]


class Statistics:
    """Reads every source anew each time."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources

    def collect(self) -> dict[str, Any]:
        return {name: read() for name, read in self._sources.items()}


class PolicyStatistics:
    """Counts of policies, by name for as many as have a label of their own; of the others, counters in one sum."""

    def __init__(self, policies: PolicyStore) -> None:
        self._policies = policies
        self._labels = Names(MOST_POLICIES)

    def collect(self) -> dict[str, Any]:
        store, usage = self._policies, self._policies.usage
        policies = {policy.name: policy for policy in policies_in_force(store)}
        counts_by_name = usage.statistics()
        labels = self._labels.keep({*counts_by_name, *policies})
        summed: dict[str, Counter[str]] = {}
        for name, counts in counts_by_name.items():
            summed.setdefault(labels[name], Counter()).update(counts)
        shown = [policy for name, policy in policies.items() if labels[name] == name]
        failures = {policy.name: usage.counts(policy.name, policy.uid).failures for policy in shown}
        return {
            **store.statistics(),
            "generation": {policy.name: policy.generation for policy in shown},
            "usage": {label: dict(counts) for label, counts in summed.items()},
            "errors": {name: {failure.source: failure.count for failure in each} for name, each in failures.items()},
        }


def policies_in_force(policies: PolicyStore) -> list[Policy]:
    return [active.policy for active in policies.in_force()]
