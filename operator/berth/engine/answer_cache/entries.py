"""The cached answers of one plugin, between two pods of a signature (see the table in cache.py).

FilterEntry           verdicts of a filter that is not static
LocalScoreEntry       scores that depend on nothing but their node
RelativeScoreEntry    scores that are normalised, or depend on other nodes
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from berth.engine.answer_cache.equivalence import EquivalenceGroups, by_node
from berth.engine.plugin import NOTHING_ELSE, FilterPlugin, Query, ScorePlugin
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Int64Column


class Scorer(NamedTuple):
    """A plugin that scores, with its weight. `normalises`: its scores are normalised over the feasible nodes."""

    plugin: ScorePlugin
    weight: int
    knows_bounds: bool
    normalises: bool

    @classmethod
    def of(cls, plugin: ScorePlugin, weight: int) -> Scorer:
        knows = knows_bounds(plugin)
        return cls(plugin, weight, knows, knows or type(plugin).normalize is not ScorePlugin.normalize)


@dataclass(slots=True)
class FilterEntry:
    """The verdicts of a filter that is not static: `lets` is bool[nodes]; None if PreFilter skips the pod."""

    plugin: FilterPlugin
    version: Hashable | None
    lets: BoolColumn | None

    @property
    def is_settled(self) -> bool:
        """Whether no change of a pod or a node can change the verdicts."""
        return self.version is NOTHING_ELSE and not self.plugin.dependencies.node_local


@dataclass(slots=True)
class LocalScoreEntry:
    """A score that depends on nothing but its node. It is only part of the nodes' sums, so no column is cached."""

    plugin: ScorePlugin
    weight: int
    version: Hashable | None
    speaks: bool = False  # PreScore does not skip the pod


@dataclass(slots=True)
class RelativeScoreEntry:
    """A score that is normalised over the feasible nodes, or depends on other nodes.

    `points` are the weighted scores by position. If there are groups, `by_group` has the scores of those groups that
    have feasible nodes instead. If there is neither, PreScore skips the pod. `raw` are the scores before normalisation;
    they are cached if the plugin knows its bounds.
    """

    plugin: ScorePlugin
    weight: int
    knows_bounds: bool
    static: bool
    version: Hashable | None
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
        """Whether PreScore skips the pod, and no change of a pod or a node can change that."""
        return self.version is NOTHING_ELSE and not self.plugin.dependencies.node_local and not self.speaks

    def by_position(self) -> Int64Column | None:
        """Returns int64[nodes]: the weighted scores; None if PreScore skips the pod."""
        if self.groups is None or self.by_group is None:
            return self.points
        return weighted(by_node(self.by_group, len(self.groups.feasible), self.groups.of), self.weight)

    def at(self, position: int) -> int:
        """Returns the weighted score of one node."""
        if self.groups is not None and self.by_group is not None:
            return self.weight * self.by_group.get(self.groups.of.item(position), 0)
        return 0 if self.points is None else self.points.item(position)


def knows_bounds(plugin: ScorePlugin) -> bool:
    return type(plugin).bounds is not ScorePlugin.bounds


def group_scores(groups: EquivalenceGroups, plugin: ScorePlugin, query: Query, state: State) -> dict[int, int]:
    """Returns the normalised scores of the groups that have feasible nodes.

    A single group gets 0 without a call: its score is equal on all feasible nodes, so it decides nothing.
    """
    inhabited = groups.inhabited
    if len(inhabited) < 2:
        return dict.fromkeys(inhabited, 0)
    return dict(zip(inhabited, plugin.normalized_groups(query, state, groups), strict=True))


def weighted(scores: Int64Column, weight: int) -> Int64Column:
    return scores if weight == 1 else scores * weight


def sum_of(columns: Sequence[Int64Column], nodes: int) -> Int64Column:
    """Returns the sum of the columns as a new array, which the caller may write."""
    if len(columns) < 2:
        return columns[0].copy() if columns else np.zeros(nodes, dtype=np.int64)
    total = columns[0] + columns[1]
    for column in columns[2:]:
        total += column
    return total
