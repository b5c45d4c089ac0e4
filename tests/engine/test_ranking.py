"""Standings know the best however levels and groups change."""

from array import array
from random import Random

import numpy as np
import pytest

from berth.engine.answer_cache.equivalence import Axis, EquivalenceGroups
from berth.engine.answer_cache.ranking import NOT_FEASIBLE, NodeRanking
from berth.engine.state.node_table import NodeTable
from engine.worlds import state_of
from support.builders import make_node

NODES, ZONES, WEIGHT = 30, 4, 3


def zoned() -> NodeTable:
    names = Random(1).sample(range(100), NODES)  # so that names are in another order than rows
    return state_of(
        [make_node(f"n{name:02}", labels={"zone": f"z{at % ZONES}"}) for at, name in enumerate(names)]
    ).table


def best_of(levels: list[int], of: list[int], points: list[int], place: np.ndarray) -> list[int]:
    totals = [level + WEIGHT * points[group] for level, group in zip(levels, of, strict=True)]
    return sorted(int(place[at]) for at, total in enumerate(totals) if total == max(totals))


@pytest.mark.parametrize("seed", range(20))
def test_the_best_are_those_of_all_nodes_with_the_highest_sum_of_level_and_points(seed: int) -> None:
    random, table = Random(seed), zoned()
    groups = EquivalenceGroups.by([Axis(table.domains("zone"))], table.rows, np.ones(NODES, dtype=np.bool_))
    assert groups is not None
    _, place = table.name_order
    levels, of = [random.randrange(5) for _ in range(NODES)], groups.of.tolist()
    column = np.array(levels)
    standings = NodeRanking(column, groups, place)
    for _ in range(200):
        points = [random.randrange(4) for _ in range(ZONES)]
        assert standings.best(dict(enumerate(points)), WEIGHT).tolist() == best_of(levels, of, points, place)
        was = {at: standings.of(at) for at in random.sample(range(NODES), random.randrange(4))}
        for at in was:  # the columns change first, all at once
            levels[at] = column[at] = random.choice([NOT_FEASIBLE, *range(6)])
            of[at] = groups.of[at] = random.choice([of[at], random.randrange(ZONES)])
        for at, before in was.items():
            standings.set(at, levels[at], before)


@pytest.mark.parametrize("seed", range(5))
def test_without_groups_the_best_are_those_with_the_highest_level(seed: int) -> None:
    random, (_, place) = Random(seed), zoned().name_order
    levels = [random.randrange(5) for _ in range(NODES)]
    standings = NodeRanking(np.array(levels), None, place)
    for _ in range(100):
        assert standings.best().tolist() == best_of(levels, [0] * NODES, [0], place)
        at = random.randrange(NODES)
        levels[at] = random.choice([NOT_FEASIBLE, *range(6)])
        standings.set(at, levels[at], standings.of(at))


def test_a_group_that_all_nodes_have_left_has_no_best() -> None:
    table = zoned()
    groups = EquivalenceGroups.by([Axis(table.domains("zone"))], table.rows, np.ones(NODES, dtype=np.bool_))
    assert groups is not None
    _, place = table.name_order
    standings = NodeRanking(np.zeros(NODES, dtype=np.int64), groups, place)
    for at in np.flatnonzero(groups.of == 0).tolist():
        was = standings.of(at)
        groups.of[at] = 1
        standings.set(at, 0, was)
    points = {0: 1000, 1: 7, 2: 0, 3: 0}
    assert standings.best(points).tolist() == sorted(place[groups.of <= 1].tolist())


def test_the_first_change_makes_ready_for_others_even_if_it_changes_nothing() -> None:
    _, place = zoned().name_order
    standings = NodeRanking(np.zeros(NODES, dtype=np.int64), None, place)
    assert not isinstance(standings.best(), array)
    standings.set(3, 0, standings.of(3))
    assert isinstance(standings.best(), array)
    assert standings.best().tolist() == list(range(NODES))
