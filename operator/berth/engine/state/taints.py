"""TaintSets: the distinct sets of taints of nodes, and how many taints of each set a pod does not tolerate.

Most clusters have few sets, but there is no bound: an autoscaler writes the time into a taint's value. So the taints of
all sets are numbered, tolerations find their taints by key and value, and the sums per set are computed on columns.
Results are cached by tolerations, until a set is added or removed. Other changes of nodes do not matter.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np

from berth.engine.state.columns import Interner
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Taint, Toleration

_KEPT: Final = 128

Taints = tuple[Taint, ...]
Tolerations = tuple[Toleration, ...]


class TaintSets:
    def __init__(self) -> None:
        self._sets: Interner[Taints] = Interner(())
        self._numbered: _Numbered | None = None
        self._kept: OrderedDict[tuple[Tolerations, Collection[str]], Int64Column] = OrderedDict()

    @property
    def values(self) -> list[Taints]:
        """The sets by number; an unused number has no taints."""
        return self._sets.values

    def use(self, taints: Taints) -> int:
        """Returns the number of a set, and counts one more node that has it."""
        before = len(self._sets)
        number = self._sets.use(taints)
        if len(self._sets) != before:
            self._forget()
        return number

    def release(self, number: int) -> None:
        """Counts one node less that has the set with this number."""
        before = len(self._sets)
        self._sets.release(number)
        if len(self._sets) != before:
            self._forget()

    def untolerated(self, tolerations: Tolerations, effects: tuple[str, ...]) -> Int64Column:
        """Returns int64[sets]: the number of taints with these effects that no toleration tolerates; read-only."""
        question = tolerations, effects
        found = self._kept.get(question)
        if found is None:
            if self._numbered is None:
                self._numbered = _Numbered(self.values)
            found = self._kept[question] = self._numbered.untolerated(tolerations, effects)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(question)
        return found

    def _forget(self) -> None:
        self._numbered = None
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._sets)


class _Numbered:
    """The distinct taints of all sets, by number.

    Two parallel columns, int64[taints of all sets], say which set has which taint: `_taint` and `_of_set`.
    """

    def __init__(self, sets: Sequence[Taints]) -> None:
        self._size = len(sets)
        numbers: dict[Taint, int] = {}
        taint = [numbers.setdefault(each, len(numbers)) for taints in sets for each in taints]
        self._taint: Int64Column = np.array(taint, dtype=np.int64)
        self._of_set: Int64Column = np.arange(self._size).repeat([len(taints) for taints in sets])
        self._taints = list(numbers)
        self._by_key: dict[str, list[int]] = {}
        self._by_label: dict[tuple[str, str], list[int]] = {}
        for each, number in numbers.items():
            self._by_key.setdefault(each.key, []).append(number)
            self._by_label.setdefault((each.key, each.value), []).append(number)

    def untolerated(self, tolerations: Iterable[Toleration], effects: Collection[str]) -> Int64Column:
        left: BoolColumn = np.array([each.effect in effects for each in self._taints], dtype=np.bool_)
        for toleration in dict.fromkeys(tolerations):
            for number in self._candidates(toleration):
                if toleration.tolerates(self._taints[number]):
                    left[number] = False
        return np.bincount(self._of_set[left[self._taint]], minlength=self._size)

    def _candidates(self, toleration: Toleration) -> Iterable[int]:
        """Returns the taints that the toleration may tolerate: by key and value, or by key alone for Exists."""
        if not toleration.key:
            return range(len(self._taints))
        if toleration.operator == "Exists":
            return self._by_key.get(toleration.key, ())
        return self._by_label.get((toleration.key, toleration.value), ())
