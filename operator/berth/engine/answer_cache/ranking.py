"""Standings: the nodes with the highest total, where the nodes of a group gain and lose together.

A node's total is its level, which is its own, and the points of its group. A pod that comes changes the points of every
group, but the level of one node. So the highest level of each group is kept, from the first change on, and the best are
looked for among the groups, not among the nodes.

Levels and groups are the columns of whoever ranks the nodes, by position: a copy for each kind of pod would be more
memory than caches hold. Those found are numbered by their places in the order of names.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.engine.answer_cache.equivalence import EquivalenceGroups, by_node
from berth.engine.verdict import Int64Column

NOT_FEASIBLE: Final = -(2**62)  # no sum of points makes up for it, and none makes it wrap around

_FEW: Final = 128  # nodes that are sorted faster than they are found one after another
_MANY: Final = 3  # groups whose leaders are found faster all at once than one after another

Places = NDArray[np.intp]
Leaders: TypeAlias = "array[int]"  # places, ascending: one comes or goes at a time, which takes a column longer
Standing = tuple[int, int]  # a node's level and its group


class NodeRanking:
    def __init__(self, levels: Int64Column, groups: EquivalenceGroups | None, place: Places) -> None:
        """`levels` are by position, `place` has the place of each in the order of names. All are shared: see `set`."""
        self._place = place
        self._levels = levels
        self._of = None if groups is None else groups.of
        self._size = 1 if groups is None else len(groups.feasible)
        self._peaks: list[int] | None = None  # the highest level of each group
        self._leaders: dict[int, Leaders] = {}  # those with the highest level of a group, where somebody asked

    def of(self, position: int) -> Standing:
        return self._levels.item(position), 0 if self._of is None else self._of.item(position)

    def set(self, position: int, level: int, was: Standing) -> None:
        """The node has this level, and is in the group that it has now; `was` is how it stood before all that."""
        self._levels[position] = level
        peaks = self._peaks
        if peaks is None:
            self.find_peaks()
            return
        before, was_in = was
        group = 0 if self._of is None else self._of.item(position)
        if before == level and was_in == group:
            return
        place = self._place.item(position)
        if group != was_in or level < before:
            self._leave(place, before, was_in, peaks)
        if level > peaks[group]:
            peaks[group] = level
            self._leaders[group] = array("q", (place,))
        elif level == peaks[group] and (leaders := self._leaders.get(group)) is not None:
            insort(leaders, place)

    def _leave(self, place: int, level: int, group: int, peaks: list[int]) -> None:
        """The node is no longer at this level of the group."""
        if level < peaks[group]:
            return
        leaders = self._leaders.get(group)
        if leaders is not None and len(leaders) > 1:
            del leaders[bisect_left(leaders, place)]
            return
        levels = self._levels if self._of is None else self._levels.take((self._of == group).nonzero()[0])
        peaks[group] = levels.item(levels.argmax()) if len(levels) else NOT_FEASIBLE
        self._leaders.pop(group, None)

    def best(self, scores: Mapping[int, int] | None = None, weight: int = 1) -> Places | Leaders:
        """Those with the highest total, until the next change; `scores` are of the groups that have nodes which fit."""
        if self._peaks is None:
            totals = self._levels
            if scores is not None and self._of is not None:
                totals = totals + weight * by_node(scores, self._size, self._of)
            return self._places((totals == totals.item(totals.argmax())).nonzero()[0])
        tied = [0] if scores is None else _highest(self._peaks, scores, weight)
        leaders = self._leaders
        missing = [group for group in tied if group not in leaders]
        if missing:
            self._find_leaders(missing, self._peaks)
        best = leaders[tied[0]]
        if len(tied) > 1:
            for group in tied[1:]:
                best = best + leaders[group]  # another array each time: those of the groups stay as they are
            np.frombuffer(best, np.intp).sort(kind="stable")  # which does little more than merge what is in order
        return best

    def find_peaks(self) -> None:
        """Made ready for changes: the highest level of each group."""
        if self._of is None:
            self._peaks = [self._levels.item(self._levels.argmax())]
        else:
            peaks = np.full(self._size, NOT_FEASIBLE)
            np.maximum.at(peaks, self._of, self._levels)
            self._peaks = peaks.tolist()

    def _find_leaders(self, groups: Sequence[int], peaks: list[int]) -> None:
        if self._of is None:
            self._leaders[0] = self._kept((self._levels == peaks[0]).nonzero()[0])
        elif len(groups) < _MANY:
            for group in groups:
                level = (self._levels == peaks[group]).nonzero()[0]
                self._leaders[group] = self._kept(level[self._of.take(level) == group])
        else:
            leading = (self._levels == np.array(peaks).take(self._of)).nonzero()[0]
            of = self._of.take(leading)
            for group in groups:
                self._leaders[group] = self._kept(leading[of == group])

    def _places(self, positions: Places) -> Places:
        """The same nodes in the order of their names."""
        places = self._place.take(positions)
        if len(places) < _FEW:
            places.sort()
            return places
        among = np.zeros(len(self._place), dtype=np.bool_)
        among[places] = True
        return among.nonzero()[0]

    def _kept(self, positions: Places) -> Leaders:
        return array("q", self._places(positions).tobytes())


def _highest(peaks: Sequence[int], scores: Mapping[int, int], weight: int) -> list[int]:
    """The groups whose peak and points make the highest total."""
    top, tied = 2 * NOT_FEASIBLE, []
    for group, score in scores.items():
        total = peaks[group] + weight * score
        if total > top:
            top, tied = total, [group]
        elif total == top:
            tied.append(group)
    return tied
