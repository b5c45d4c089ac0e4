"""The simulated cluster: its state, the pods that need a node, and the pods that left theirs."""

import itertools
from collections import defaultdict
from collections.abc import Iterator

from berth.engine.events import Event
from berth.model import Pod
from berth.whatif.admission import Admission
from berth.whatif.budgets import DisruptionLedger
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.entries import Cause, Departure, Entry, Origin
from berth.whatif.placing import Placer
from berth.whatif.pod_sets import PodMaker
from berth.whatif.policies import Deciders
from berth.whatif.recreation import Recreation
from berth.whatif.workloads import Grouping, Workload


class World:
    """Everything that the steps of a simulation change."""

    def __init__(self, objects: ClusterObjects, deciders: Deciders, seed: int) -> None:
        self.objects = objects
        self.deciders = deciders
        self.state = objects.cache.state
        self.admission = Admission(objects)
        self.pods = PodMaker(objects, self.admission)
        self.recreation = Recreation(objects, self.pods.next_uid)
        self.grouping = Grouping(objects.controllers)
        self.budgets = DisruptionLedger(self.state)
        self.placer = Placer(objects.cache, deciders.decider, self, seed)
        self.departures: list[Departure] = []
        self.notes: dict[str, None] = deciders.notes
        self._sequence = itertools.count()
        self._keys: set[str] = set()  # of all pods that need or needed a node
        self._needing: defaultdict[Workload, list[Entry]] = defaultdict(list)
        self._placed: dict[Workload, dict[str, tuple[Pod, str]]] | None = None  # by UID; made when first needed

    # --- pods that need a node ----------------------------------------------------------------------------------------

    def need(self, pod: Pod, origin: Origin, predecessor: Departure | None = None) -> Entry:
        """The pod needs a node, and waits behind the others of its priority."""
        entry = Entry(pod, self.grouping.of(pod), origin, next(self._sequence), predecessor)
        self.placer.add(entry)
        self._keys.add(pod.key)
        self._needing[entry.workload].append(entry)
        return entry

    def pods_of(self, workload: Workload) -> Iterator[tuple[Pod, str]]:
        """Yields the pods of a controller that are not terminating, with the node of each ("": it needs one).

        Called before pods are placed: those that the simulation places are not among them.
        """
        if self._placed is None:
            self._placed = self._by_workload()
        yield from self._placed.get(workload, {}).values()
        for entry in self._needing[workload]:
            if self.placer.entry(entry.pod.uid) is entry:
                yield entry.pod, ""

    def _by_workload(self) -> dict[Workload, dict[str, tuple[Pod, str]]]:
        found: dict[Workload, dict[str, tuple[Pod, str]]] = {}
        for pod, node in self.objects.placed():
            if pod.controller is not None and not pod.deleting:
                found.setdefault(self.grouping.of(pod), {})[pod.uid] = pod, node
        return found

    def has_pod(self, pod: Pod) -> bool:
        """Whether there is another pod of this name."""
        return pod.key in self._keys or self.objects.cache.holder("Pod", pod.key) is not None

    # --- pods that leave ----------------------------------------------------------------------------------------------

    def leave(self, pod: Pod, node: str, cause: Cause, by: str = "") -> Departure:
        """The pod leaves its node, and nothing is created in its place."""
        self.state.table.remove_pod(pod.uid)
        self.state.volumes.reservations.release(pod.uid)
        entry = self.placer.entry(pod.uid)
        departure = Departure(pod, self.grouping.of(pod), node, cause, by, simulated=entry is not None)
        if entry is not None:
            entry.node, entry.departure = "", departure
        if self._placed is not None:
            self._placed.get(departure.workload, {}).pop(pod.uid, None)
        self.departures.append(departure)
        self.placer.note(Event.POD_REMOVED)
        return departure

    def move(self, pod: Pod, node: str, cause: Cause, by: str = "") -> Departure:
        """The pod leaves its node, and its controller creates another one, which needs a node."""
        self.budgets.count(pod)
        departure = self.leave(pod, node, cause, by)
        successor = self.recreation.successor(pod)
        if successor is not None:
            departure.successor = self.need(successor, Origin.MOVED, departure)
        return departure

    def choose(self, victim: Pod) -> None:
        """The pod will have to leave, and counts against disruption budgets from now on."""
        self.budgets.count(victim)

    def evict(self, victim: Pod, node: str, preemptor: Entry) -> None:
        """The victim leaves its node."""
        self.move(victim, node, Cause.PREEMPTED, preemptor.pod.key)

    def settle_budgets(self) -> None:
        """Gives disruptions back for the pods whose successors have a node."""
        for departure in self.departures:
            if departure.successor is not None and departure.successor.node:
                self.budgets.give_back(departure.pod.uid)
