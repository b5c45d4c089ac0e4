"""Amounts up to 64 bits and sums far beyond: nothing wraps around, and decisions are those of plain integers."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.pipeline import Placement
from berth.engine.plugin import Query
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.preemption.preemption import NoNomination, Preemption
from berth.engine.state.amounts import MOST, difference, hundredths, sums, total
from berth.engine.state.node_table import MEMORY
from berth.judge.verdicts import verdict_on
from berth.model import parse_node, parse_pod
from berth.policy import import_configuration, load_policy
from conformance.agreement import differences
from engine.expecting import as_nomination, row_of
from engine.test_preemption import pipeline, preempt
from engine.worlds import state_of
from reference import engine as reference
from reference.profile import profile_of
from reference.world import World
from support.builders import Body, make_node, make_pod

EDGES = (1, 2, 100, 2**46, MOST // 100, MOST // 100 + 1, 2**60, 2**61, 2**62 - 1, 2**62, 2**62 + 1, MOST - 1, MOST)
WITHIN = st.sampled_from(EDGES) | st.integers(1, MOST)
BEYOND = WITHIN | st.sampled_from([2**63, 2**63 + 1, 2**64, 10**30])
STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def placed(name: str, node: str, memory: str | int, priority: int = 0, **more: Any) -> Body:
    return make_pod(name, node=node, cpu="1", memory=memory, priority=priority, **more)


def newcomer(memory: str | int, priority: int = 10, **more: Any) -> Body:
    return make_pod("new", cpu="1", memory=memory, priority=priority, **more)


# --- a pod of 8Ei that was bound by hand -----------------------------------------------------------------------------


def test_nobody_is_evicted_for_a_pod_that_does_not_fit_without_them_beside_a_pod_of_8ei() -> None:
    state = state_of(
        [
            make_node("n", cpu=8, memory="8Gi"),
            placed("by-hand", "n", "8Ei", priority=100),
            placed("innocent", "n", "1Gi"),
        ]
    )
    said = preempt(state, newcomer("1Gi"))
    assert isinstance(said, NoNomination)


def test_a_pod_of_8ei_that_goes_makes_room_for_what_the_node_has_and_no_more() -> None:
    others = [placed("by-hand", "n", "8Ei"), placed("big", "n", "6Gi", priority=50)]
    state = state_of([make_node("n", cpu=8, memory="8Gi"), *others])
    assert isinstance(preempt(state, newcomer("4Gi")), NoNomination)
    said = as_nomination(preempt(state, newcomer("2Gi")))
    assert [victim.name for victim in said.victims] == ["by-hand"]


def test_several_pods_of_8ei_are_all_victims_and_the_others_are_none() -> None:
    pods = [placed(f"by-hand-{number}", "n", "8Ei", priority=number) for number in range(3)]
    state = state_of([make_node("n", cpu=8, memory="8Gi"), *pods, placed("small", "n", "1Gi")])
    said = as_nomination(preempt(state, newcomer("4Gi")))
    assert sorted(victim.name for victim in said.victims) == ["by-hand-0", "by-hand-1", "by-hand-2"]


def test_nominated_pods_of_8ei_leave_no_room_for_others() -> None:
    state = state_of([make_node("a", memory="8Gi"), make_node("b", memory="8Gi")])
    for number in range(3):
        state.nominate(parse_pod(make_pod(f"nominated-{number}", memory="8Ei", priority=100)), "a")
    said = pipeline().decide(parse_pod(newcomer("1Gi")), state, Random(0))
    assert isinstance(said, Placement)
    assert said.node == "b"


def test_a_node_of_8ei_is_full_when_its_pods_take_that_much() -> None:
    state = state_of([make_node("n", cpu=8, memory="8Ei"), placed("half", "n", 2**62), placed("more", "n", 2**62 - 8)])
    table, row = state.table, state.table.row("n")
    assert table.free[MEMORY, row] == 7
    survey = pipeline().survey(Query(parse_pod(newcomer(8)), table), state)
    assert not survey.fits.any()
    table.add_pod(parse_pod(placed("too-much", "n", "8Ei")), "n")
    assert table.free[MEMORY, row] <= 0
    table.set_node(parse_node(make_node("n", cpu=8, memory="7Ei")))
    assert table.free[MEMORY, row] < 0


def test_a_pod_of_8ei_that_goes_beside_others_like_it_is_no_hint_that_there_is_room() -> None:
    bodies = [make_node("n", cpu=8, memory="8Gi"), placed("a", "n", "8Ei"), placed("b", "n", "8Ei")]
    state = state_of(bodies)
    query, pods = Query(parse_pod(newcomer("1Gi")), state.table), [parse_pod(body) for body in bodies[1:]]
    fit, row = NodeResourcesFit({}), row_of(state.table, "n")
    assert not fit.fits_without(query, state, row, pods[:1])
    assert fit.fits_without(query, state, row, pods)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_points_on_nodes_and_of_pods_of_8ei_are_those_of_plain_integers(kind: str) -> None:
    ratio = {"requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}
    strategy = {"type": kind, "resources": [{"name": "memory", "weight": 3}, {"name": "x/gpu", "weight": 1}]}
    fit = NodeResourcesFit(
        {"scoringStrategy": strategy | (ratio if kind == STRATEGIES[2] else {}), "ignoredResources": ["x/gpu"]}
    )
    bodies = [make_node(f"n{n}", memory=have, extended={"x/gpu": have}) for n, have in enumerate(EDGES)]
    bodies += [placed(f"p{n}", f"n{n}", have - have // 3) for n, have in enumerate(EDGES)]
    state = state_of(bodies)
    for memory in EDGES:
        query = Query(parse_pod(newcomer(memory, requests={"x/gpu": MOST})), state.table)
        column = fit.score(query, state, state.table.rows)
        assert column.tolist() == [fit.score_row(query, state, row) for row in range(len(EDGES))]
        assert 0 <= column.min() <= column.max() <= 100


# --- by comparison with plain integers -------------------------------------------------------------------------------


@given(st.lists(st.integers(-MOST, MOST) | WITHIN, min_size=1), st.data())
def test_differences_stop_at_the_lowest(amounts: list[int], data: st.DataObject) -> None:
    taken = data.draw(st.lists(WITHIN, min_size=len(amounts), max_size=len(amounts)))
    found = difference(np.array(amounts), np.array(taken)).tolist()
    assert found == [max(amount - less, -MOST) for amount, less in zip(amounts, taken, strict=True)]


@given(st.lists(st.tuples(WITHIN | st.just(0), WITHIN | st.just(0)), min_size=1))
def test_totals_stop_at_the_highest(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, dtype=np.int64).T
    assert total(one, other).tolist() == [min(sum(pair), MOST) for pair in pairs]


@given(st.lists(st.lists(WITHIN | st.just(0), min_size=1), min_size=1))
def test_sums_stop_at_the_highest(parts: list[list[int]]) -> None:
    begins = np.cumsum([0, *map(len, parts)])[:-1]
    amounts = np.array([amount for part in parts for amount in part])
    assert sums(amounts, begins).tolist() == [min(sum(part), MOST) for part in parts]
    both = sums(np.array([amounts, np.ones_like(amounts)]), begins)
    assert both.tolist() == [[min(sum(part), MOST) for part in parts], [len(part) for part in parts]]


@given(st.lists(st.tuples(WITHIN | st.just(0), WITHIN), min_size=1))
def test_hundredths_are_exact(pairs: list[tuple[int, int]]) -> None:
    parts, wholes = [min(pair) for pair in pairs], [max(pair) for pair in pairs]
    found = hundredths(np.array(parts), np.array(wholes)).tolist()
    assert found == [100 * part // whole for part, whole in zip(parts, wholes, strict=True)]


def configuration(kind: str) -> Body:
    strategy: Body = {"type": kind, "resources": [{"name": "memory", "weight": 2}, {"name": "x/gpu", "weight": 1}]}
    if kind == STRATEGIES[2]:
        points = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
        strategy["requestedToCapacityRatio"] = {"shape": points}
    args = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy, "ignoredResources": ["x/gpu"]}}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": args}],
    }


CONFIGURATIONS = [configuration(kind) for kind in STRATEGIES]
POLICIES = [load_policy(import_configuration(body).manifests[0]) for body in CONFIGURATIONS]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Body], Body]:
    """Nodes, pods on them and nominated to them, with amounts up to 64 bits and beyond; no two pods alike in age."""
    bodies, serial = [], 0
    for number in range(draw(st.integers(1, 4))):
        name, extended = f"n{number}", {"x/gpu": str(draw(BEYOND))}
        bodies.append(make_node(name, cpu=str(draw(BEYOND)), memory=str(draw(BEYOND)), pods=6, extended=extended))
        for _ in range(draw(st.integers(0, 4))):
            serial += 1
            nominated = draw(st.integers(0, 4)) == 0
            place = {"nominated": name} if nominated else {"node": name}
            status = {} if nominated else {"startTime": f"2026-01-01T00:00:{serial:02}Z"}
            bodies.append(some_pod(draw, f"p{serial}", status=status, **place))
    return bodies, some_pod(draw, "new")


def some_pod(draw: st.DrawFn, name: str, **more: Any) -> Body:
    requests = {"x/gpu": str(draw(BEYOND))} if draw(st.booleans()) else {}
    overhead = {"memory": str(draw(BEYOND))} if draw(st.integers(0, 9)) == 0 else None
    cpu, memory = str(draw(BEYOND)), str(draw(BEYOND))
    return make_pod(
        name, cpu=cpu, memory=memory, requests=requests, priority=draw(st.integers(0, 3)), overhead=overhead, **more
    )


@given(worlds(), st.integers(0, len(POLICIES) - 1))
@settings(max_examples=150)
def test_who_fits_who_goes_and_every_point_are_those_of_plain_integers(
    world: tuple[list[Body], Body], number: int
) -> None:
    bodies, new = world
    state = state_of(bodies)
    for body in bodies:
        node = body.get("status", {}).get("nominatedNodeName")
        if node:
            state.nominate(parse_pod(body), node)
    pod = parse_pod(new)
    want = reference.judge(World.of(bodies), profile_of(CONFIGURATIONS[number]), pod)
    assert list(differences(want, verdict_on(pod, POLICIES[number].pipeline, state, Preemption()))) == []
    table = state.table
    for name in (node.name for node in table.nodes()):
        row, placed_there = table.row(name), table.pods_on(name).values()
        for resource, index in table.resource_index.items():
            if resource in ("cpu", "memory", "x/gpu"):
                used = sum(other.usage.get(resource, 0) for other in placed_there)
                assert table.used[index, row] == min(used, MOST)
                assert table.free[index, row] == table.allocatable[index, row] - min(used, MOST)
