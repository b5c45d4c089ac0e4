"""ResourceNumbers and SparseUsage: which resources have a column in the node table, and pods' usage of the others.

A tenant can name thousands of resources in a single pod, and bind it to a node by `spec.nodeName`. So a resource has a
column only while some node has any of it, and at most MOST_RESOURCES have one: those that were reported first. What
pods use of other resources is stored by name and row (SparseUsage), and takes no more memory than the pods themselves.
No node has any of them, so no decision reads them until a node reports the resource.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

FIRST_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods", "")  # "": all resources that no node has
MOST_RESOURCES: Final = 256
_WORTH_TRIMMING: Final = 64


@dataclass(frozen=True, slots=True)
class Renumbering:
    """A change of the columns' indexes: some columns are freed, then some are added.

    `dropped` are freed resources with their old indexes. Then the columns `movers` move to the indexes `holes`, so that
    the indexes below `left` are in use. `added` get the next indexes, in order. Those of them in `late` were beyond the
    limit before, so other nodes may have them, too.
    """

    dropped: Mapping[str, int]
    holes: tuple[int, ...]
    movers: tuple[int, ...]
    left: int
    added: tuple[str, ...]
    late: tuple[str, ...]


class ResourceNumbers:
    """`index` has the index of each resource that has a column; `left_out` are nodes' resources beyond the limit."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {name: number for number, name in enumerate(FIRST_RESOURCES)}
        self.left_out: dict[str, None] = {}
        self._nodes: dict[str, int] = {}  # how many nodes have the resource

    def replace(self, before: Mapping[str, int], after: Mapping[str, int]) -> Renumbering | None:
        """Replaces a node's amounts. Returns how indexes change; None if they do not."""
        gone = [name for name in _extended(before) if after.get(name, 0) <= 0 and self._is_gone(name)]
        came = [name for name in _extended(after) if before.get(name, 0) <= 0 and self._is_new(name)]
        if len(gone) > len(self._nodes):
            self._nodes, self.left_out = dict(self._nodes), dict(self.left_out)  # frees memory: dicts do not shrink
        dropped = {name: self.index[name] for name in gone if name in self.index}
        waiting = len(self.left_out)
        self.left_out.update(dict.fromkeys(came))
        room = max(MOST_RESOURCES + 1 - len(self.index) + len(dropped), 0)  # + 1: the column "" does not count
        added = tuple(name for name, _ in zip(self.left_out, range(room), strict=False))
        return self._renumber(dropped, added, added[:waiting]) if dropped or added else None

    def _is_gone(self, name: str) -> bool:
        """Counts one node less that has the resource; returns whether none has it now."""
        self._nodes[name] -= 1
        if self._nodes[name]:
            return False
        del self._nodes[name]
        self.left_out.pop(name, None)
        return True

    def _is_new(self, name: str) -> bool:
        """Counts one more node that has the resource; returns whether it is the first."""
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
    """Yields the resources with an amount above 0, without those that always have a column."""
    return (name for name, amount in amounts.items() if amount > 0 and name not in FIRST_RESOURCES)


class SparseUsage:
    """What the pods on each row use of resources without a column: sums by name and row, of any size."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[int, int]] = {}
        self._most = 0

    def move(self, usage: Mapping[str, int], without: Mapping[str, int], row: int, sign: int) -> None:
        """Adds (1) or subtracts (-1) a pod's usage on a row; resources in `without` have a column and are skipped."""
        sums = self._sums
        for name, amount in usage.items():
            if name in without:
                continue
            rows = sums.get(name)
            if rows is None:
                sums[name] = {row: amount}  # only when added: a pod that leaves was counted before
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
        """Stores the sums of a resource whose column is freed."""
        if sums:
            self._sums[name] = sums
            self._most = max(self._most, len(self._sums))

    def take(self, name: str) -> dict[int, int]:
        """Removes and returns the sums of a resource that gets a column."""
        return self._sums.pop(name, {})

    def of(self, name: str) -> Mapping[int, int]:
        """Returns the sums by row, without rows that use nothing of it."""
        return self._sums.get(name, {})

    def trim(self) -> None:
        """Frees memory if most names are gone: dicts do not shrink by themselves."""
        if self._most > _WORTH_TRIMMING and len(self._sums) < self._most // 4:
            self._sums, self._most = dict(self._sums), len(self._sums)

    def __len__(self) -> int:
        return len(self._sums)
