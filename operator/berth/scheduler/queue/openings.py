"""Openings: events that may help unschedulable pods, until as many of these have been tried as the event can help.

A change on one node opens that node for the groups of pods that it may help there; any other change opens the cluster
as a whole (""). Only as many pods of these groups are moved back at once as the node has room for. The next ones follow
when these have been decided, if the change may still help them. So a new node costs as many attempts as it takes pods,
however many wait for it. No pod is forgotten: an opening ends when it can help no pod that has not been tried since.

The queue moves the pods; this module keeps the state in between.
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
    """Changes that may help a group: its pods that became unschedulable up to `mark` have not been tried since."""

    changes: tuple[Change, ...]
    mark: int

    def with_change(self, change: Change, mark: int) -> "Hope":
        """Adds a change; beyond MOST_CHANGES only the events of the changes are kept."""
        if len(self.changes) < MOST_CHANGES:
            return Hope((*self.changes, change), mark)
        return Hope((Change(change.events.union(*(other.events for other in self.changes))),), mark)


@dataclass(slots=True, eq=False)
class Opening:
    """The groups that a change on the node ("" for the cluster) may help, and the pods that were moved back for it."""

    node: str
    hopes: dict[Group, Hope] = field(default_factory=dict)
    out: set[str] = field(default_factory=set)  # UIDs of pods that are active
    ordered: bool = True


class Openings:
    """Openings by node; an opening is due if none of the pods that it moved back is still to be tried."""

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
        """Add a change that may help these groups. There may be many: groups with equal changes share a Hope."""
        opening = self._openings.get(node)
        if opening is None:
            opening = self._openings[node] = Opening(node)
        hopes, first = opening.hopes, Hope((change,), mark)
        longer: dict[int, tuple[Hope, Hope]] = {}  # by id(): the old hope, kept alive for its id, and the new
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
        """The openings that can continue, in the order in which they became due."""
        due = list(self._due.values())
        self._due.clear()
        return due

    def in_order(self, opening: Opening) -> list[tuple[Group, Hope]]:
        """The groups in the order of their first pods."""
        if not opening.ordered:
            opening.hopes = {group: opening.hopes[group] for group in sorted(opening.hopes, key=_TURN)}
            opening.ordered = True
        return list(opening.hopes.items())

    def settle(self, opening: Opening) -> None:
        """After a pass: the opening has ended, can continue, or waits for the pods that it moved back."""
        if not opening.hopes:
            if self._openings.get(opening.node) is opening:
                del self._openings[opening.node]
            self._due.pop(opening.node, None)
        elif not opening.out:
            self._due[opening.node] = opening

    def tried(self, opening: Opening, uid: str) -> bool:
        """A pod that was moved back is tried, or has left; returns whether the opening can continue now."""
        opening.out.discard(uid)
        if opening.out or not opening.hopes:
            return False
        self._due[opening.node] = opening
        return True
