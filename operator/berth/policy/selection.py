"""Which of the policies with one schedulerName decides for a pod.

A policy matches if its namespaceSelector matches the labels of the pod's namespace and its podSelector those of the
pod; a missing selector matches. Of the policies that match, the first by rank decides: more of the two selectors before
fewer, then more requirements (of both selectors together) before fewer, then by name.

A `PolicySelector` is built once for each change and used for every pod. It finds policies through an index by label:
with hundreds of policies, one for each team, a pod pays only for its own few labels.
"""

from collections.abc import Iterable, Iterator, Mapping

from berth.engine.state.pod_counts import LabelIndex, narrowest
from berth.model import LabelSelector, Pod
from berth.policy.compile import ActivePolicy
from berth.policy.records import Policy

Rank = tuple[int, int]


def rank_of(policy: Policy) -> Rank:
    """Returns the rank: the lower comes first; policies of equal rank are ordered by name."""
    selectors = selectors_of(policy)
    return -len(selectors), -sum(len(selector.requirements) for selector in selectors)


def selectors_of(policy: Policy) -> list[LabelSelector]:
    return [selector for selector in (policy.namespace_selector, policy.pod_selector) if selector is not None]


def selects(policy: Policy, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
    """Whether the policy's selectors match; schedulerName is not compared."""
    of_namespace, of_pod = policy.namespace_selector, policy.pod_selector
    return (of_namespace is None or of_namespace.matches(namespace_labels)) and (
        of_pod is None or of_pod.matches(pod.labels)
    )


class PolicySelector:
    """The policies of one schedulerName, by rank."""

    def __init__(self, policies: Iterable[ActivePolicy]) -> None:
        self.policies = sorted(policies, key=lambda active: (*rank_of(active.policy), active.policy.name))
        self._by_namespace: LabelIndex[int] = LabelIndex()
        self._by_pod: LabelIndex[int] = LabelIndex()
        self.always: ActivePolicy | None = None  # selects every pod
        for place, active in enumerate(self.policies):
            if not any(selector.requirements for selector in selectors_of(active.policy)):
                self.always = active
                break  # nothing behind it is ever chosen
            self._index(place, active.policy)
        self._is_plain = not (self._by_namespace or self._by_pod)

    def choose(self, pod: Pod, namespace_labels: Mapping[str, str]) -> ActivePolicy | None:
        """Returns the policy that decides for the pod, or None if none selects it."""
        if self._is_plain:
            return self.always
        place = min(self._matching(pod, namespace_labels), default=None)
        return self.always if place is None else self.policies[place]

    def _index(self, place: int, policy: Policy) -> None:
        if policy.pod_selector is not None and narrowest([policy.pod_selector]) is not None:
            self._by_pod.add(place, [policy.pod_selector])
        else:
            self._by_namespace.add(place, [policy.namespace_selector] if policy.namespace_selector else [])

    def _matching(self, pod: Pod, namespace_labels: Mapping[str, str]) -> Iterator[int]:
        for index, labels in ((self._by_namespace, namespace_labels), (self._by_pod, pod.labels)):
            for place in index.candidates(labels):
                if selects(self.policies[place].policy, pod, namespace_labels):
                    yield place
