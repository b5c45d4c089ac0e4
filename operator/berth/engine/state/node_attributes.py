"""Facts about nodes that few plugins ask for: a condition, an annotation, a limit.

Like taint sets, distinct values are interned: a plugin judges each value once and takes the answer by row. A fact costs
nothing until it is asked for; from then on it follows the nodes, and a change of it moves the table's `static_version`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

from berth.engine.state.columns import Interner, grown
from berth.engine.verdict import Int64Column
from berth.model import Node

ReadFact = Callable[[Node], Hashable | None]


@dataclass(slots=True)
class Attribute:
    """What `read` says of each row's node: `values[ids[row]]`; None without a node, or where it says nothing."""

    read: ReadFact
    ids: Int64Column
    _numbers: Interner[Hashable | None] = field(default_factory=lambda: Interner(None))

    @property
    def values(self) -> list[Hashable | None]:
        """The distinct values by id; an id that no node has stands for None."""
        return self._numbers.values

    def set_row(self, row: int, node: Node | None) -> bool:
        """Whether that changes anything."""
        value = None if node is None else self.read(node)
        if value == self.values[self.ids[row]]:
            return False
        self._numbers.release(int(self.ids[row]))
        self.ids[row] = 0 if value is None else self._numbers.use(value)
        return True


class NodeAttributes:
    def __init__(self) -> None:
        self._facts: dict[str, Attribute] = {}

    def fact(self, name: str, read: ReadFact, nodes: Iterable[tuple[int, Node]], rows: int) -> Attribute:
        """The fact of that name; `read` is always the same function for one name."""
        fact = self._facts.get(name)
        if fact is None:
            fact = self._facts[name] = Attribute(read, np.zeros(rows, dtype=np.int64))
            for row, node in nodes:
                fact.set_row(row, node)
        return fact

    def set_row(self, row: int, node: Node | None) -> bool:
        """Whether any of them changes."""
        return sum(fact.set_row(row, node) for fact in self._facts.values()) > 0

    def grow(self, rows: int) -> None:
        for fact in self._facts.values():
            fact.ids = grown(fact.ids, rows)

    def __len__(self) -> int:
        return len(self._facts)
