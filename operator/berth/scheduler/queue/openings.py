"""What may help unschedulable pods, until as many of them as it can help have been tried.

A change on one node opens that node for the groups of pods that it may help there; any other change opens the cluster
as a whole (""). Of these groups only so many pods are brought back at once as the node has room for, and the next ones
when these have been decided, if the change may still help them then. So a node that joins costs as many attempts as it
takes pods, however many wait for it, and nobody is lost: an opening ends when it can help nobody any more who was not
tried since.

The queue brings pods back; this is what it has to remember in between.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from berth.engine.events import Change
from berth.scheduler.queue.unschedulable import Group

MOST_CHANGES: Final = 16
_TURN: Final = attrgetter("turn")


class Hope(NamedTuple):
    """What may help groups: their pods that became unschedulable up to `mark` have not been tried since."""

    changes: tuple[Change, ...]
    mark: int

    def with_change(self, change: Change, mark: int) -> "Hope":
        """One more change; beyond a few, nothing more is known of them than their events."""
        if len(self.changes) < MOST_CHANGES:
            return Hope((*self.changes, change), mark)
        return Hope((Change(change.events.union(*(other.events for other in self.changes))),), mark)


@dataclass(slots=True, eq=False)
class Opening:
    """The groups that wait for the node ("" for the cluster), and the pods that were brought back for it."""

    node: str
    hopes: dict[Group, Hope] = field(default_factory=dict)
    out: set[str] = field(default_factory=set)  # UIDs of pods that are active
    ordered: bool = True


class Openings:
    """By node; those that are due can go on: nobody whom they brought back is still to be tried."""

    def __init__(self) -> None:
        self._openings: dict[str, Opening] = {}
        self._due: dict[str, Opening] = {}

    def __len__(self) -> int:
        return len(self._openings)

    def __iter__(self) -> Iterator[Opening]:
        return iter(list(self._openings.values()))

    @property
    def are_due(self) -> bool:
        return bool(self._due)

    def open(self, node: str, change: Change, groups: Iterable[Group], mark: int) -> Opening:
        """The change may help these groups there. They may be many: those of which the same is known share a hope."""
        opening = self._openings.get(node)
        if opening is None:
            opening = self._openings[node] = Opening(node)
        hopes, first = opening.hopes, Hope((change,), mark)
        longer: dict[int, tuple[Hope, Hope]] = {}  # by identity: the hope so far, which is kept for that, and the next
        for group in groups:
            known = hopes.get(group)
            if known is None:
                hopes[group] = first
                opening.ordered = False
                continue
            both = longer.get(id(known))
            if both is None:
                both = longer[id(known)] = known, known.with_change(change, mark)
            hopes[group] = both[1]
        return opening

    def take_due(self) -> list[Opening]:
        """Those that can go on, in the order in which they could."""
        due = list(self._due.values())
        self._due.clear()
        return due

    def in_order(self, opening: Opening) -> list[tuple[Group, Hope]]:
        """The groups, those first whose turn is first."""
        if not opening.ordered:
            opening.hopes = {group: opening.hopes[group] for group in sorted(opening.hopes, key=_TURN)}
            opening.ordered = True
        return list(opening.hopes.items())

    def settle(self, opening: Opening) -> None:
        """After a look: it has ended, can go on, or waits for those that it brought back."""
        if not opening.hopes:
            if self._openings.get(opening.node) is opening:
                del self._openings[opening.node]
            self._due.pop(opening.node, None)
        elif not opening.out:
            self._due[opening.node] = opening

    def tried(self, opening: Opening, uid: str) -> bool:
        """A pod that was brought back is tried, or has left; whether the opening can go on by that."""
        opening.out.discard(uid)
        if opening.out or not opening.hopes:
            return False
        self._due[opening.node] = opening
        return True
