"""What we have decided about the nodes that pods are nominated to, and the cluster has not shown yet.

A decision of ours counts at once (#72124). From then on the watch may still show the pod as it was before, or as an
earlier decision of ours left it; none of that is news. Our write gives the pod a new version: a report of that version,
or of a later one, knows of it, and says from then on what is so. Until then the decision stands, and for as long as it
could not be written.
"""

import itertools
from dataclasses import dataclass

from berth.model import Pod


@dataclass(slots=True)
class _Decision:
    number: int
    node_name: str
    shown: str  # what the cluster says meanwhile
    version: int | None = None  # of the pod as we wrote it


class Nominations:
    """Decisions by UID of the pod."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._decisions: dict[str, _Decision] = {}

    def decide(self, pod: Pod, node_name: str) -> int:
        """The pod, so far nominated as it says, waits for this node, or for none (""); the decision's number."""
        number = next(self._numbers)
        before = self._decisions.get(pod.uid)
        shown = pod.nominated_node_name if before is None else before.shown
        self._decisions[pod.uid] = _Decision(number, node_name, shown)
        return number

    def take_back(self) -> dict[str, str]:
        """Others decide from now on: what the cluster says of the pods whose nominations were ours, by UID."""
        shown = {uid: decision.shown for uid, decision in self._decisions.items()}
        self._decisions.clear()
        return shown

    def written(self, uid: str, number: int, version: str) -> None:
        """This decision is in that version of the pod; nothing, if there is a later decision."""
        decision = self._decisions.get(uid)
        if decision is not None and decision.number == number:
            decision.version = _integer(version)

    def show(self, pod: Pod) -> None:
        """The cluster shows the pod so."""
        decision = self._decisions.get(pod.uid)
        if decision is not None:
            decision.shown = pod.nominated_node_name

    def of(self, pod: Pod) -> str:
        """The node that the pod in this version, the newest that was reported, waits for."""
        decision = self._decisions.get(pod.uid)
        if decision is None:
            return pod.nominated_node_name
        shown = _integer(pod.resource_version)
        if decision.version is not None and shown is not None and shown >= decision.version:
            del self._decisions[pod.uid]
            return decision.shown  # the record may still have an earlier decision of ours
        return decision.node_name

    def forget(self, uid: str) -> None:
        """The pod is bound or gone."""
        self._decisions.pop(uid, None)

    def __len__(self) -> int:
        return len(self._decisions)


def _integer(version: str) -> int | None:
    return int(version) if version.isascii() and version.isdigit() else None
