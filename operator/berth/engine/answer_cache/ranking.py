"""NodeRanking: finds the nodes with the highest total score, without looking at every node each time.

    total of a node = its level (the sum of its own scores) + weight * score of its group

A pod that is placed changes the scores of all groups, but the level of one node only. So the ranking stores, for each
group, its peak (the highest level of its nodes) and its leaders (the nodes with that level). The highest total is then
found by comparing groups: a dozen numbers instead of thousands.

Peaks are computed at the first change, not before: answers that are used once never need them.

`levels` and the groups are columns of CachedAnswers, by position, and are shared with it: a copy for each signature
would not fit into the CPU's caches. Results are places: indices into the node names, sorted.
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

NOT_FEASIBLE: Final = -(2**62)  # no sum of scores makes up for it, and none makes it overflow

_FEW: Final = 128  # up to so many nodes, sorting places is faster than a bitmap of all nodes
_MANY: Final = 3  # from so many groups on, one pass over all nodes finds leaders faster than one pass per group

Places = NDArray[np.intp]
Leaders: TypeAlias = "array[int]"  # places, ascending; an array, as inserting one is faster than in numpy
Standing = tuple[int, int]  # a node's level and its group


class NodeRanking:
    def __init__(self, levels: Int64Column, groups: EquivalenceGroups | None, place: Places) -> None:
        """`levels` are by position; `place` has the index of each node in the sorted names. Both are shared."""
        self._place = place
        self._levels = levels
        self._of = None if groups is None else groups.of
        self._size = 1 if groups is None else len(groups.feasible)
        self._peaks: list[int] | None = None  # the highest level of each group
        self._leaders: dict[int, Leaders] = {}  # filled by `best` for groups that had the highest total

    def of(self, position: int) -> Standing:
        """Returns the node's level and group as they are now."""
        return self._levels.item(position), 0 if self._of is None else self._of.item(position)

    def set(self, position: int, level: int, was: Standing) -> None:
        """Sets the level of a node. `was` is its level and group before; its group may have changed, too.

        The groups' column is shared and already has the new group, so the old one must be passed in.
        """
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
        """Removes a node that had this level from its group; finds the next peak if it was the only leader."""
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
        """Returns the places with the highest total, valid until the next change.

        `scores` are by group, for the groups that have feasible nodes.
        """
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
                best = best + leaders[group]  # a new array: the leaders of the groups must not change
            np.frombuffer(best, np.intp).sort(kind="stable")  # timsort: it only merges the sorted parts
        return best

    def top_two(self, scores: Mapping[int, int] | None = None, weight: int = 1) -> tuple[int, int, int]:
        """Returns the highest total, the next one, and the place that has the latter. Arguments are those of `best`.

        Looks at every node; there are at least two.
        """
        totals = self._levels
        if scores is not None and self._of is not None:
            totals = totals + weight * by_node(scores, self._size, self._of)
        else:
            totals = totals.copy()
        first = int(totals.argmax())
        highest = totals.item(first)
        totals[first] = 2 * NOT_FEASIBLE
        second = int(totals.argmax())
        return highest, totals.item(second), self._place.item(second)

    def find_peaks(self) -> None:
        """Computes the highest level of each group."""
        if self._of is None:
            self._peaks = [self._levels.item(self._levels.argmax())]
        else:
            peaks = np.full(self._size, NOT_FEASIBLE)
            np.maximum.at(peaks, self._of, self._levels)
            self._peaks = peaks.tolist()

    def _find_leaders(self, groups: Sequence[int], peaks: list[int]) -> None:
        if self._of is None:
            self._leaders[0] = self._leaders_of((self._levels == peaks[0]).nonzero()[0])
        elif len(groups) < _MANY:
            for group in groups:
                level = (self._levels == peaks[group]).nonzero()[0]
                self._leaders[group] = self._leaders_of(level[self._of.take(level) == group])
        else:
            leading = (self._levels == np.array(peaks).take(self._of)).nonzero()[0]
            of = self._of.take(leading)
            for group in groups:
                self._leaders[group] = self._leaders_of(leading[of == group])

    def _places(self, positions: Places) -> Places:
        """Returns the places of these nodes, ascending."""
        places = self._place.take(positions)
        if len(places) < _FEW:
            places.sort()
            return places
        among = np.zeros(len(self._place), dtype=np.bool_)
        among[places] = True
        return among.nonzero()[0]

    def _leaders_of(self, positions: Places) -> Leaders:
        return array("q", self._places(positions).tobytes())


def _highest(peaks: Sequence[int], scores: Mapping[int, int], weight: int) -> list[int]:
    """Returns the groups with the highest total of peak and weighted score."""
    top, tied = 2 * NOT_FEASIBLE, []
    for group, score in scores.items():
        total = peaks[group] + weight * score
        if total > top:
            top, tied = total, [group]
        elif total == top:
            tied.append(group)
    return tied
