"""Which pods the legacy priorities spread together: those that the same services and owners select.

An owner counts if its selector matches the pod, whatever the pod's ownerReferences are.
"""

from berth.engine.state.pod_counts import PodMatch, RowCounts
from berth.engine.state.state import State
from berth.model import LabelSelector, Pod, selector_from_labels


def service_matches(pod: Pod, state: State) -> tuple[PodMatch, ...]:
    """One match for each service that selects the pod."""
    return tuple(_match(pod, selector_from_labels(service.selector)) for service in state.services_of(pod))


def owner_matches(pod: Pod, state: State) -> tuple[PodMatch, ...]:
    """One match for each ReplicationController, ReplicaSet and StatefulSet that selects the pod."""
    return tuple(_match(pod, selector) for selector in sorted(set(state.owners.selectors_of(pod)), key=repr))


def count_pods(matches: tuple[PodMatch, ...], state: State, any_of: bool = False) -> RowCounts:
    """Returns the counts of pods that meet all (or any) of the matches, without terminating pods."""
    return state.table.counts.of(matches, terminating=False, any_of=any_of)


def _match(pod: Pod, selector: LabelSelector) -> PodMatch:
    return PodMatch(selector, frozenset((pod.namespace,)))
