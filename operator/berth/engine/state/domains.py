"""Domains: the topology domains of a label, that is the nodes by their value of it, and derived properties.

They are computed on first use, and again when nodes have changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from berth.engine.state.columns import Vocabulary
from berth.engine.verdict import BoolColumn, Int64Column

KEPT_KEYS: Final = 64
FEW_DOMAINS: Final = 64  # up to so many domains, plugins compare values per domain instead of recomputing nodes


@dataclass(frozen=True)
class Domains:
    """`ids` int64[all rows]: the domain of each node, -1 without the label or without a known node."""

    ids: Int64Column
    vocabulary: Vocabulary

    @cached_property
    def size(self) -> int:
        return len(self.vocabulary.ids)

    @cached_property
    def labelled(self) -> BoolColumn:
        """bool[all rows]: the nodes that have the label."""
        return self.ids >= 0

    @cached_property
    def nodes(self) -> int:
        """How many nodes have the label."""
        return int(np.count_nonzero(self.labelled))

    @cached_property
    def present(self) -> BoolColumn:
        """bool[size]: the domains that have a node; ids of removed values are not reused at once."""
        return self.present_in(self.ids[self.labelled])

    @cached_property
    def count(self) -> int:
        """How many domains have a node."""
        return int(np.count_nonzero(self.present))

    @cached_property
    def alone(self) -> BoolColumn:
        """bool[size + 1]: the domains with a single node; the last entry (id -1) is for nodes without the label."""
        return np.append(np.bincount(self.ids[self.labelled], minlength=self.size) <= 1, True)

    @cached_property
    def each_alone(self) -> bool:
        """Whether no two nodes share a domain."""
        return bool(self.alone.all())

    def present_in(self, ids: Int64Column) -> BoolColumn:
        present = np.zeros(self.size, dtype=np.bool_)
        present[ids] = True
        return present


class DomainIndex:
    def __init__(self, label: Callable[[str], tuple[Int64Column, Vocabulary]]) -> None:
        self._label = label
        self._version: tuple[int, int] = (0, 0)
        self._domains: dict[str, Domains] = {}

    def of(self, key: str, version: tuple[int, int]) -> Domains:
        """Returns the domains of a label; all are dropped when `version` (nodes, length of columns) moves."""
        if version != self._version or len(self._domains) > KEPT_KEYS:
            self._domains.clear()
            self._version = version
        domains = self._domains.get(key)
        if domains is None:
            domains = self._domains[key] = Domains(*self._label(key))
        return domains
