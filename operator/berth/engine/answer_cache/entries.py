"""What a panel keeps of each plugin, between two pods of a signature (panel.py)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from berth.engine.answer_cache.equivalence import EquivalenceGroups, by_node
from berth.engine.plugin import NOTHING_ELSE, Plugin, Query
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Int64Column


class Scorer(NamedTuple):
    """A plugin that scores, with its weight. `normalises`: over the feasible nodes."""

    plugin: Plugin
    weight: int
    knows_bounds: bool
    normalises: bool

    @classmethod
    def of(cls, plugin: Plugin, weight: int) -> Scorer:
        knows = knows_bounds(plugin)
        return cls(plugin, weight, knows, knows or type(plugin).normalize is not Plugin.normalize)


@dataclass(slots=True)
class FilterEntry:
    """A filter that is not static: which nodes it lets the pod onto, None where it has nothing to say of the pod."""

    plugin: Plugin
    basis: Hashable | None
    lets: BoolColumn | None

    @property
    def is_settled(self) -> bool:
        """Whether its verdicts stay as they are until another object changes than a pod or a node."""
        return self.basis is NOTHING_ELSE and not self.plugin.node_local


@dataclass(slots=True)
class LocalScoreEntry:
    """A score of nothing but its node: added to the sum as it comes."""

    plugin: Plugin
    weight: int
    basis: Hashable | None
    speaks: bool = False  # it has something to say of the pod


@dataclass(slots=True)
class RelativeScoreEntry:
    """A score that is normalised over the feasible nodes or hangs on others.

    `points` are weighted, by position; where there are groups, `by_group` has the scores of the inhabited ones instead;
    where there is neither, it has nothing to say of the pod. `raw` is kept where the plugin knows its bounds.
    """

    plugin: Plugin
    weight: int
    knows_bounds: bool
    static: bool
    basis: Hashable | None
    groups: EquivalenceGroups | None = None
    by_group: dict[int, int] | None = None
    points: Int64Column | None = None
    raw: Int64Column | None = None
    bounds: Hashable | None = None

    @property
    def speaks(self) -> bool:
        return self.points is not None or self.by_group is not None

    @property
    def is_settled(self) -> bool:
        """Whether it has nothing to say until another object changes than a pod or a node."""
        return self.basis is NOTHING_ELSE and not self.plugin.node_local and not self.speaks

    def by_position(self) -> Int64Column | None:
        if self.groups is None or self.by_group is None:
            return self.points
        return weighted(by_node(self.by_group, len(self.groups.feasible), self.groups.of), self.weight)

    def at(self, position: int) -> int:
        if self.groups is not None and self.by_group is not None:
            return self.weight * self.by_group.get(self.groups.of.item(position), 0)
        return 0 if self.points is None else self.points.item(position)


def knows_bounds(plugin: Plugin) -> bool:
    return type(plugin).bounds is not Plugin.bounds


def group_scores(groups: EquivalenceGroups, plugin: Plugin, query: Query, state: State) -> dict[int, int]:
    """What the plugin gives to the nodes of each inhabited group; 0 where that is only one."""
    inhabited = groups.inhabited
    if len(inhabited) < 2:
        return dict.fromkeys(inhabited, 0)
    return dict(zip(inhabited, plugin.normalized_groups(query, state, groups), strict=True))


def weighted(scores: Int64Column, weight: int) -> Int64Column:
    return scores if weight == 1 else scores * weight


def sum_of(columns: Sequence[Int64Column], nodes: int) -> Int64Column:
    """A column that belongs to nobody else."""
    if len(columns) < 2:
        return columns[0].copy() if columns else np.zeros(nodes, dtype=np.int64)
    total = columns[0] + columns[1]
    for column in columns[2:]:
        total += column
    return total
