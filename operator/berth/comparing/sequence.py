"""The pods of a cluster, placed one after another by two policies, each on a cluster of its own.

Pods go in the order of the queue: by priority, then by age. Both clusters begin alike. Where the policies may choose
the same node for a pod, they are taken to do so, so that chance makes no difference, neither for this pod nor for the
following ones. A pod that fits nowhere and may preempt takes the place of its victims, which are gone then.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from random import Random

from berth.comparing.differences import Comparison, Difference, Skipped, change_between
from berth.comparing.outcomes import Outcome, Subject, outcome_of
from berth.engine.pipeline import Placement
from berth.engine.plugin import PluginFailed
from berth.engine.plugins.volume_binding import VolumeBinding
from berth.engine.state.state import State
from berth.model import Pod
from berth.policy import ActivePolicy
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.workloads import Grouping

ALL_NODES = 100
Known = dict[Hashable, tuple[int, int, Outcome, Outcome]]
Tell = Callable[[int, int], None]


class _SameDraw(Random):
    """Draws the same number always: of equal lists, the same node is chosen."""

    def random(self) -> float:
        return 0.0


@dataclass(slots=True)
class Side:
    """A policy and the cluster that it decides on. `changes`: how often that has changed."""

    active: ActivePolicy
    state: State
    changes: int = 0

    def decide(self, pod: Pod) -> str | None:
        """Returns the node that is chosen fast; None if the pod has to be looked at closely."""
        if self.active.pipeline.node_percentage != ALL_NODES:
            return None
        try:
            verdict = self.active.pipeline.decide(pod, self.state, _SAME)
        except PluginFailed:
            return None
        return verdict.node if isinstance(verdict, Placement) else None

    def place(self, pod: Pod, node: str, victims: Collection[str] = ()) -> None:
        for victim in [each for each in self.state.table.pods_on(node).values() if each.key in victims]:
            self.state.table.remove_pod(victim.uid)
        plans = [plugin.plan(pod, self.state, node) for plugin in self._volume_bindings(pod)]
        self.state.withdraw(pod.uid)
        self.state.table.add_pod(pod, node)
        for plan in plans:
            if plan is not None:
                self.state.volumes.reservations.reserve(pod.uid, plan)
        self.changes += 1

    def _volume_bindings(self, pod: Pod) -> list[VolumeBinding]:
        filters = self.active.pipeline.filters if pod.volumes else ()
        return [plugin for plugin in filters if isinstance(plugin, VolumeBinding)][:1]


_SAME = _SameDraw()


def compare_in_sequence(
    subjects: Sequence[Subject | Skipped],
    objects: ClusterObjects,
    first: ActivePolicy,
    second: ActivePolicy,
    tell: Tell = lambda done, total: None,
) -> Comparison:
    """Places the pods in this order, and returns where the two differ. Pods that have a node are taken off it before.

    The cache of `objects` is the first cluster, and changes. `tell`: how many of the pods are done.
    """
    pods = [subject for subject in subjects if isinstance(subject, Subject)]
    comparison = Comparison(skipped=[subject for subject in subjects if isinstance(subject, Skipped)])
    state = objects.cache.state
    for subject in pods:
        state.table.remove_pod(subject.pod.uid)
    sides = Side(first, state), Side(second, copied(state))
    known: Known = {}
    grouping = Grouping(objects.controllers)
    for subject in pods:
        comparison.compared += 1
        found = _step(_unplaced(subject), sides, known)
        if found is not None:
            workload = grouping.of(subject.pod)
            comparison.differences.append(replace(found, name=subject.name, workload=workload))
        tell(comparison.compared, len(pods))
    return comparison


def _step(pod: Pod, sides: tuple[Side, Side], known: Known) -> Difference | None:
    """Places one pod on both sides; returns the difference."""
    chosen = [side.decide(pod) for side in sides]
    if chosen[0] is not None and chosen[0] == chosen[1]:
        for side in sides:
            side.place(pod, chosen[0])
        return None
    before, after = _outcomes(pod, sides, known)
    for side, node, victims in zip(sides, *_targets(before, after), strict=True):
        if node:
            side.place(pod, node, victims)
    change = change_between(before, after)
    return None if change is None else Difference(pod.key, change, before, after)


def _outcomes(pod: Pod, sides: tuple[Side, Side], known: Known) -> tuple[Outcome, Outcome]:
    """What the policies say of a pod; of pods that are alike nothing new is said until one of them is placed."""
    alike = pod.signature, pod.priority, pod.preemption_policy, pod.nominated_node_name
    now = sides[0].changes, sides[1].changes
    found = known.get(alike)
    if found is None or found[:2] != now:
        said = [outcome_of(side.active, pod, side.state) for side in sides]
        found = known[alike] = *now, said[0], said[1]
    return found[2], found[3]


def _targets(before: Outcome, after: Outcome) -> tuple[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]:
    """The node for each side, "" for none, and the victims there: the same node if both may choose it."""
    options = [dict(outcome.room) or dict.fromkeys(outcome.nodes, ()) for outcome in (before, after)]
    common = [node for node in options[0] if node in options[1]]
    nodes = [common[0] if common else next(iter(option), "") for option in options]
    return (nodes[0], nodes[1]), (options[0].get(nodes[0], ()), options[1].get(nodes[1], ()))


def _unplaced(subject: Subject) -> Pod:
    return replace(subject.pod, node_name="", nominated_node_name="") if subject.node else subject.pod


def copied(state: State) -> State:
    """Returns another state with the same objects."""
    other = State()
    for kind, records in state.objects.items():
        for key, record in records.items():
            other.put(kind, key, record)
    for node in state.table.nodes():
        other.table.set_node(node)
    for name in state.table.names():
        for pod in state.table.pods_on(name).values():
            other.table.add_pod(pod, name)
    for name, pods in state.nominated.items():
        for pod in pods.values():
            other.nominate(pod, name)
    return other
