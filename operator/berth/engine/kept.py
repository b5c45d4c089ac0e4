"""What a panel keeps of each plugin, between two pods of a signature (panel.py)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.engine.groups import Groups
from berth.engine.plugin import Plugin, Query
from berth.engine.state import State
from berth.engine.verdict import BoolColumn, Int64Column


@dataclass(slots=True)
class KeptFilter:
    """A filter that is not static: which nodes it lets the pod onto, None where it has nothing to say of the pod."""

    index: int
    plugin: Plugin
    basis: Hashable | None
    lets: BoolColumn | None


@dataclass(slots=True)
class KeptLocal:
    """A score of nothing but its node: added to the sum as it comes."""

    index: int
    plugin: Plugin
    weight: int
    basis: Hashable | None
    speaks: bool = False  # it has something to say of the pod


@dataclass(slots=True)
class KeptRelative:
    """A score that is normalised over the feasible nodes or hangs on others.

    `points` are weighted: by group where there are groups, else by position; None: nothing to say of the pod. `raw` is
    kept where the plugin knows its bounds.
    """

    index: int
    plugin: Plugin
    weight: int
    static: bool
    basis: Hashable | None
    groups: Groups | None = None
    points: Int64Column | None = None
    raw: Int64Column | None = None
    bounds: Hashable | None = None

    def by_position(self, points: Int64Column) -> Int64Column:
        return points if self.groups is None else points.take(self.groups.of)

    def at(self, position: int) -> int:
        if self.points is None:
            return 0
        return self.points.item(position if self.groups is None else self.groups.of.item(position))


def knows_bounds(plugin: Plugin) -> bool:
    return type(plugin).bounds is not Plugin.bounds


def is_relative(plugin: Plugin, static: bool) -> bool:
    """Whether its scores are normalised over the feasible nodes, or hang on others than their own."""
    normalises = knows_bounds(plugin) or type(plugin).normalize is not Plugin.normalize
    return normalises or not (static or plugin.node_local)


def group_points(groups: Groups, plugin: Plugin, weight: int, query: Query, state: State) -> Int64Column:
    """int64[groups]: what the plugin gives to the nodes of each that has some which fit; 0 where that is only one."""
    inhabited = groups.inhabited
    points = np.zeros(len(groups.feasible), dtype=np.int64)
    if len(inhabited) > 1:
        scores = plugin.score_groups(query, state, groups).take(inhabited)
        points[inhabited] = weighted(plugin.normalize(scores), weight)
    return points


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
