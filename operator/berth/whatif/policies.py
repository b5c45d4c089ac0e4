"""Which policy decides for a pod: the cluster's, replaced and complemented by those of --policy.

Pods of kube-scheduler (schedulerName default-scheduler) that no policy claims are decided by its default profile: the
same pods must find a place when a node is drained, and Berth decides as kube-scheduler does.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from berth.model import Pod
from berth.policy import BUILT_IN, ActivePolicy, PolicyStore, activate
from berth.policy.policy_objects import PolicyObjects
from berth.scheduler.extenders.extender_protocol import interested
from berth.whatif.errors import CannotSimulate

Body = Mapping[str, Any]
NamespaceLabels = Callable[[str], Mapping[str, str]]

KUBE_SCHEDULER: Final = "default-scheduler"
SET_BY_SERVER: Final = ("uid", "generation")


class Deciders:
    """The policies of a simulation. `replaced`: names of policies that --policy gave, which must be valid.

    `refuse_extenders`: pods with extenders are refused, because extenders are not called here. `notes`: what a reader
    of the result has to know.
    """

    def __init__(
        self,
        policies: Iterable[Body],
        namespace_labels: NamespaceLabels,
        *,
        replaced: Iterable[str] = (),
        refuse_extenders: bool = True,
    ) -> None:
        self._namespace_labels = namespace_labels
        self._refuse_extenders = refuse_extenders
        self._store = PolicyStore(lambda: datetime.now(UTC))
        self._default = activate(BUILT_IN)
        self.notes: dict[str, None] = {}  # in order, each once
        bodies = list(policies)
        for body in bodies:
            self._store.observe(body)
        self._check(bodies, frozenset(replaced))

    def decider(self, pod: Pod) -> ActivePolicy | str:
        """Returns the policy that decides for the pod, or why none does. Raises CannotSimulate."""
        labels = self._namespace_labels(pod.namespace)
        active = self.for_pod(pod, labels)
        if active is None:
            return self.unserved(pod, labels)
        self._note(active, pod)
        return active

    # --- as explanations ask (`berth.explain.ports.Policies`) ---------------------------------------------------------

    def for_pod(self, pod: Pod, namespace_labels: Mapping[str, str]) -> ActivePolicy | None:
        active = self._store.for_pod(pod, namespace_labels)
        return self._default if active is None and self._is_left_to_kube_scheduler(pod.scheduler_name) else active

    def serves(self, scheduler_name: str) -> bool:
        return self._store.serves(scheduler_name) or self._is_left_to_kube_scheduler(scheduler_name)

    def scheduler_names(self) -> Collection[str]:
        return {*self._store.scheduler_names(), KUBE_SCHEDULER}

    def unserved(self, pod: Pod, namespace_labels: Mapping[str, str]) -> str:
        return self._store.unserved(pod, namespace_labels)

    def _is_left_to_kube_scheduler(self, scheduler_name: str) -> bool:
        return scheduler_name == KUBE_SCHEDULER and not self._store.serves(KUBE_SCHEDULER)

    def _note(self, active: ActivePolicy, pod: Pod) -> None:
        policy = active.policy
        if active is self._default:
            self.notes["pods of default-scheduler are placed as kube-scheduler's default profile places them"] = None
        if active.stages:
            names = ", ".join(plugin.name for plugin in active.stages)
            self.notes[f"SchedulingPolicy {policy.name}: {names}: Reserve, Permit and PreBind are not called"] = None
        if policy.extenders and interested(policy, pod):
            if self._refuse_extenders:
                raise CannotSimulate(
                    f"Pod {pod.key}: SchedulingPolicy {policy.name} has extenders, which are not called here: give a "
                    "version without them (--policy FILE), or place pods as if they agreed (--ignore-extenders)"
                )
            self.notes[f"SchedulingPolicy {policy.name}: its extenders are not called"] = None

    def _check(self, bodies: Iterable[Body], replaced: frozenset[str]) -> None:
        objects = PolicyObjects()
        for body in bodies:
            objects.observe(body)
        for name, record in sorted(objects.records.items()):
            if record.problems:
                problems = "; ".join(map(str, record.problems))
                if name in replaced:
                    raise CannotSimulate(f"SchedulingPolicy {name}: is not valid: {problems}")
                self.notes[f"SchedulingPolicy {name} is not valid and decides nothing here: {problems}"] = None


def as_new(body: Body) -> Body:
    """Returns a policy of a file without what the API server wrote: it may be an edited copy of one that is there."""
    return {**body, "metadata": {key: value for key, value in body["metadata"].items() if key not in SET_BY_SERVER}}
