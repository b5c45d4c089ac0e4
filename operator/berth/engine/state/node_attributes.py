"""NodeAttributes: attributes of nodes that few plugins read, such as a condition, an annotation or a limit.

Like taint sets, distinct values are interned: a plugin evaluates each value once and looks the result up by row. An
attribute costs nothing until its first use. From then on its column is updated with the nodes, and a change of it moves
the table's `static_version`.
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
    """One attribute: `values[ids[row]]` is `read(node)` of the row's node; None without a node or a value."""

    read: ReadFact
    ids: Int64Column
    _numbers: Interner[Hashable | None] = field(default_factory=lambda: Interner(None))

    @property
    def values(self) -> list[Hashable | None]:
        """The distinct values by id; None for an unused id."""
        return self._numbers.values

    def set_row(self, row: int, node: Node | None) -> bool:
        """Reads the attribute of the row's node; returns whether it changed."""
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
        """Returns the attribute with that name; `read` must be the same function for one name."""
        fact = self._facts.get(name)
        if fact is None:
            fact = self._facts[name] = Attribute(read, np.zeros(rows, dtype=np.int64))
            for row, node in nodes:
                fact.set_row(row, node)
        return fact

    def set_row(self, row: int, node: Node | None) -> bool:
        """Reads all attributes of the row's node; returns whether any changed."""
        return sum(fact.set_row(row, node) for fact in self._facts.values()) > 0

    def grow(self, rows: int) -> None:
        for fact in self._facts.values():
            fact.ids = grown(fact.ids, rows)

    def __len__(self) -> int:
        return len(self._facts)
