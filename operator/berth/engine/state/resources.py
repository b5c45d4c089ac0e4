"""Which resources have a column in the node table, and what pods use of those that have none.

A tenant can name thousands of resources in a single pod, and bind it to a node by `spec.nodeName`. So a resource has a
column only while some node has any of it; at most MOST_RESOURCES have one, those that came first. What pods use of
other resources is kept by name and row (SparseUsage), and costs no more than the pods themselves: no node has room for
it, so no decision looks at it until a node reports the resource.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

FIRST_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods", "")  # the last stands for what no node has
MOST_RESOURCES: Final = 256
_WORTH_TRIMMING: Final = 64


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Columns that are given back, and then some that are added.

    `dropped` are names with their numbers so far; then the columns `movers` take the numbers `holes`, so that the
    numbers below `left` are in use; `added` get the next ones, in their order. Those of them that are `late` were left
    out before: other nodes may have them, too.
    """

    dropped: Mapping[str, int]
    holes: tuple[int, ...]
    movers: tuple[int, ...]
    left: int
    added: tuple[str, ...]
    late: tuple[str, ...]


class ResourceNumbers:
    """`index` has the number of each resource that has a column; `left_out` are nodes' resources beyond the limit."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {name: number for number, name in enumerate(FIRST_RESOURCES)}
        self.left_out: dict[str, None] = {}
        self._nodes: dict[str, int] = {}  # how many nodes have the resource

    def replace(self, before: Mapping[str, int], after: Mapping[str, int]) -> Renumbering | None:
        """A node has these amounts and had those; None: every number stays as it is."""
        gone = [name for name in _extended(before) if after.get(name, 0) <= 0 and self._is_gone(name)]
        came = [name for name in _extended(after) if before.get(name, 0) <= 0 and self._is_new(name)]
        if len(gone) > len(self._nodes):
            self._nodes, self.left_out = dict(self._nodes), dict(self.left_out)  # which gives their room back
        dropped = {name: self.index[name] for name in gone if name in self.index}
        waiting = len(self.left_out)
        self.left_out.update(dict.fromkeys(came))
        room = max(MOST_RESOURCES + 1 - len(self.index) + len(dropped), 0)  # one stands for what no node has
        added = tuple(name for name, _ in zip(self.left_out, range(room), strict=False))
        return self._renumber(dropped, added, added[:waiting]) if dropped or added else None

    def _is_gone(self, name: str) -> bool:
        """One node fewer has the resource: whether none has it now."""
        self._nodes[name] -= 1
        if self._nodes[name]:
            return False
        del self._nodes[name]
        self.left_out.pop(name, None)
        return True

    def _is_new(self, name: str) -> bool:
        """One node more has the resource: whether it is the first."""
        before = self._nodes.get(name, 0)
        self._nodes[name] = before + 1
        return not before

    def _renumber(self, dropped: dict[str, int], added: tuple[str, ...], late: tuple[str, ...]) -> Renumbering:
        index = self.index
        for name in dropped:
            del index[name]
        left = len(index)
        holes = tuple(sorted(number for number in dropped.values() if number < left))
        moving = [name for name, number in index.items() if number >= left] if holes else []
        movers = tuple(index[name] for name in moving)
        index.update(zip(moving, holes, strict=True))
        for name in added:
            index[name] = len(index)
            del self.left_out[name]
        return Renumbering(dropped, holes, movers, left, added, late)


def _extended(amounts: Mapping[str, int]) -> Iterable[str]:
    """The resources that there are any of, without those that always have a column."""
    return (name for name, amount in amounts.items() if amount > 0 and name not in FIRST_RESOURCES)


class SparseUsage:
    """What the pods on each row use of resources that have no column: sums by name and row, however large."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[int, int]] = {}
        self._most = 0

    def move(self, usage: Mapping[str, int], without: Mapping[str, int], row: int, sign: int) -> None:
        """A pod that uses these amounts came to the row (1) or left it (-1); those in `without` have a column."""
        sums = self._sums
        for name, amount in usage.items():
            if name in without:
                continue
            rows = sums.get(name)
            if rows is None:
                sums[name] = {row: amount}  # the first pod that uses any: one that leaves has come before
                continue
            total = rows.get(row, 0) + sign * amount
            if total:
                rows[row] = total
                continue
            del rows[row]
            if not rows:
                del sums[name]
        self._most = max(self._most, len(sums))

    def put(self, name: str, sums: dict[int, int]) -> None:
        """The sums of a resource that has no column any more."""
        if sums:
            self._sums[name] = sums
            self._most = max(self._most, len(self._sums))

    def take(self, name: str) -> dict[int, int]:
        """The sums of a resource that gets a column: they are kept there from now on."""
        return self._sums.pop(name, {})

    def of(self, name: str) -> Mapping[int, int]:
        """By row, without those that use nothing of it."""
        return self._sums.get(name, {})

    def trim(self) -> None:
        """Gives memory back where most names are gone: a dict keeps its length when they leave."""
        if self._most > _WORTH_TRIMMING and len(self._sums) < self._most // 4:
            self._sums, self._most = dict(self._sums), len(self._sums)

    def __len__(self) -> int:
        return len(self._sums)
