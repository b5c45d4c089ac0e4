"""Scores by groups of nodes are the scores of the nodes, whatever comes and goes between two pods of a kind."""

from random import Random
from typing import Any

import numpy as np
import pytest

from berth.engine.answer_cache.cache import CachedAnswers
from berth.engine.answer_cache.equivalence import MOST_GROUPS, MOST_INHABITED, Axis, EquivalenceGroups
from berth.engine.pipeline import Pipeline, Placement, TieBreak
from berth.engine.plugin import Query
from berth.engine.state.node_table import NodeTable
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, row_numbers
from berth.model import Pod, parse_node, parse_pod
from berth.policy.defaults import DEFAULT_PREDICATES, DEFAULT_PRIORITIES
from engine.expecting import make_filter, make_score
from engine.worlds import state_of
from support.builders import make_node, make_pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}


def soft(*keys: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **WEB}
    return {"topologySpreadConstraints": [{**constraint, "topologyKey": key} for key in keys]}


def liking(kind: str, *keys: str, weight: int = 7) -> dict[str, Any]:
    terms = [{"weight": weight + i, "podAffinityTerm": {**WEB, "topologyKey": key}} for i, key in enumerate(keys)]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def wanting(key: str) -> dict[str, Any]:
    return {
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**WEB, "topologyKey": key}]}}
    }


KINDS = {
    "soft spreading by zone": soft(ZONE),
    "by hostname": soft(HOSTNAME),
    "by both": soft(ZONE, HOSTNAME),
    "by rack and zone": soft("rack", ZONE),
    "anti-affinity by hostname": liking("podAntiAffinity", HOSTNAME),
    "anti-affinity by both": liking("podAntiAffinity", ZONE, HOSTNAME),
    "affinity by zone": liking("podAffinity", ZONE),
    "required affinity by zone": wanting(ZONE),
    "everything": soft(ZONE, HOSTNAME) | liking("podAntiAffinity", "rack", HOSTNAME, ZONE),
}


def pipeline() -> Pipeline:
    return Pipeline(
        [make_filter(entry.name) for entry in DEFAULT_PREDICATES],
        [(make_score(entry.name), entry.weight) for entry in DEFAULT_PRIORITIES],
        TieBreak.RANDOM,
    )


def node(number: int, labelled: bool = True) -> dict[str, Any]:
    labels = {HOSTNAME: f"n{number}", "rack": f"r{number % 7}"} | ({ZONE: f"z{number % 3}"} if labelled else {})
    taints = [("dedicated", "batch", "NoSchedule")] if number % 9 == 4 else []
    return make_node(f"n{number}", cpu="2" if number % 5 else "1", labels=labels, taints=taints)


@pytest.mark.parametrize("lacking", [None, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_totals_that_are_kept_differ_from_a_full_ranking_by_what_all_nodes_get_alike(
    kind: str, lacking: int | None
) -> None:
    state = state_of([node(number, labelled=number != lacking) for number in range(20)])
    deciding, random, placed = pipeline(), Random(kind), []
    for serial in range(60):
        pod = parse_pod(make_pod(f"p{serial}", cpu="300m", labels={"app": "web"}, **KINDS[kind]))
        said = deciding.decide(pod, state, random)
        if isinstance(said, Placement) and said.feasible > 1:
            compare(deciding, pod, state)
        if isinstance(said, Placement):
            state.table.add_pod(pod, said.node)
            placed.append(pod.uid)
        disturb(state, random, serial, placed)


def compare(deciding: Pipeline, pod: Pod, state: State) -> None:
    query, answers = Query(pod, state.table), deciding._answers[pod.signature]
    survey = deciding.survey(query, state)
    rows = row_numbers(survey.rows)
    ranking = deciding.rank(query, state, rows[survey.fits])
    assert answers.fits.tolist() == survey.fits.tolist()
    assert len(set((totals_of(answers)[survey.fits] - ranking.totals).tolist())) == 1
    assert answers.best.tolist() == deciding.best(ranking, state.table).tolist()
    assert totals_of(answers)[~survey.fits].max(initial=-1) < 0


def totals_of(answers: CachedAnswers) -> Int64Column:
    """Of every node, by position."""
    ranking = answers._ranking
    totals = ranking._levels
    if answers._grouped is not None:
        kept = answers._grouped
        assert kept.by_group is not None
        assert ranking._of is not None
        totals = totals + kept.weight * np.array([kept.by_group.get(group, 0) for group in ranking._of.tolist()])
    return totals


def disturb(state: State, random: Random, serial: int, placed: list[str]) -> None:
    """Now and then pods leave, pods of others come, and a node is taken away or comes back."""
    match random.randrange(7):
        case 0 if placed:
            state.table.remove_pod(placed.pop(random.randrange(len(placed))))
        case 1:
            other = make_pod(f"other-{serial}", cpu="1", labels={"app": random.choice(["web", "db"])})
            state.table.add_pod(parse_pod(other), f"n{random.randrange(20)}")
        case 2 if not serial % 3:
            shy = make_pod(f"shy-{serial}", labels={"app": "db"}, **liking("podAntiAffinity", ZONE, weight=serial + 1))
            state.table.add_pod(parse_pod(shy), f"n{random.randrange(20)}")
        case 3 if not serial % 4:
            state.table.remove_node("n3")
        case 4:
            state.table.set_node(parse_node(node(3)))


def grouped(*axes: str) -> tuple[NodeTable, EquivalenceGroups]:
    """Six nodes by the values of these labels."""
    state = state_of([node(number) for number in range(6)])
    kinds = [Axis(state.table.domains(key)) for key in axes]
    groups = EquivalenceGroups.by(kinds, state.table.rows, np.ones(6, dtype=np.bool_))
    assert groups is not None
    return state.table, groups


def test_a_group_is_one_combination_of_places_on_all_axes() -> None:
    table, groups = grouped(ZONE, HOSTNAME)
    assert groups.shape == (3, 6)
    assert groups.nodes == 6
    assert sorted(groups.inhabited) == sorted(groups.of.tolist())
    assert [groups.places_inhabited(axis) for axis in (0, 1)] == [3, 6]
    zones, hosts = np.unravel_index(groups.of, groups.shape)
    assert zones.tolist() == table.domains(ZONE).ids[:6].tolist()
    assert hosts.tolist() == table.domains(HOSTNAME).ids[:6].tolist()


def test_a_place_whose_last_node_does_not_fit_any_more_is_not_inhabited() -> None:
    _, groups = grouped(ZONE, HOSTNAME)
    before = groups.settlement
    assert groups.move(0, 0, did_fit=True, fits=False)
    assert (groups.nodes, groups.places_inhabited(0), groups.places_inhabited(1)) == (5, 3, 5)
    assert groups.move(3, 3, did_fit=True, fits=False)
    assert (groups.nodes, groups.places_inhabited(0), groups.places_inhabited(1)) == (4, 2, 4)
    assert groups.settlement > before


def test_so_many_combinations_that_nodes_are_fewer_make_no_groups() -> None:
    hosts = [make_node(f"n{number}", labels={"a": f"a{number}", "b": f"b{number}"}) for number in range(70)]
    table = state_of(hosts).table
    axes = [Axis(table.domains(key)) for key in "ab"]
    assert MOST_GROUPS < 70 * 70
    assert EquivalenceGroups.by(axes, table.rows, np.ones(70, dtype=np.bool_)) is None


def test_so_many_inhabited_combinations_that_columns_are_faster_make_no_groups() -> None:
    hosts = [make_node(f"n{number}", labels={"a": f"a{number}"}) for number in range(MOST_INHABITED + 1)]
    table = state_of(hosts).table
    axes = [Axis(table.domains("a"))]
    fits = np.ones(len(hosts), dtype=np.bool_)
    assert EquivalenceGroups.by(axes, table.rows, fits) is None
    fits[0] = False
    groups = EquivalenceGroups.by(axes, table.rows, fits)
    assert groups is not None
    assert len(groups.inhabited) == MOST_INHABITED
