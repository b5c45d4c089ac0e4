"""Our own nominations until the watch shows them.

A nomination of ours counts at once (#72124). Afterwards the watch may still show the pod as it was before, or with an
earlier nomination of ours; such events are outdated. Our write gives the pod a new resourceVersion. An event of that
version or a later one includes the write, and its nomination counts from then on. Until then the decision in memory
counts, even if it could not be written.
"""

import itertools
from dataclasses import dataclass

from berth.model import Pod


@dataclass(slots=True)
class _Decision:
    number: int
    node_name: str
    shown: str  # the nominated node that the watch shows meanwhile
    version: int | None = None  # resourceVersion of the pod with our write


class Nominations:
    """Decisions by UID of the pod."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._decisions: dict[str, _Decision] = {}

    def decide(self, pod: Pod, node_name: str) -> int:
        """Nominate the pod to this node, or to none (""); returns the number of the decision."""
        number = next(self._numbers)
        before = self._decisions.get(pod.uid)
        shown = pod.nominated_node_name if before is None else before.shown
        self._decisions[pod.uid] = _Decision(number, node_name, shown)
        return number

    def take_back(self) -> dict[str, str]:
        """Another replica leads: drop all decisions, and return what the API says about these pods, by UID."""
        shown = {uid: decision.shown for uid, decision in self._decisions.items()}
        self._decisions.clear()
        return shown

    def written(self, uid: str, number: int, version: str) -> None:
        """This decision is in that version of the pod; ignored if there is a later decision."""
        decision = self._decisions.get(uid)
        if decision is not None and decision.number == number:
            decision.version = _integer(version)

    def show(self, pod: Pod) -> None:
        """The watch shows this version of the pod."""
        decision = self._decisions.get(pod.uid)
        if decision is not None:
            decision.shown = pod.nominated_node_name

    def of(self, pod: Pod) -> str:
        """The node that the pod is nominated to; `pod` is its newest version."""
        decision = self._decisions.get(pod.uid)
        if decision is None:
            return pod.nominated_node_name
        shown = _integer(pod.resource_version)
        if decision.version is not None and shown is not None and shown >= decision.version:
            del self._decisions[pod.uid]
            return decision.shown  # the record may still contain an earlier decision of ours
        return decision.node_name

    def forget(self, uid: str) -> None:
        """The pod is bound or gone."""
        self._decisions.pop(uid, None)

    def __len__(self) -> int:
        return len(self._decisions)


def _integer(version: str) -> int | None:
    return int(version) if version.isascii() and version.isdigit() else None
