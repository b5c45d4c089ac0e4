"""Resources have columns while nodes have any of them; what pods use of others costs no more than the pods."""

import gc
import tracemalloc
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, Placement, TieBreak
from berth.engine.plugin import Query
from berth.engine.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.preemption.preemption import Preemption
from berth.engine.preemption.victims import Nomination
from berth.engine.state import resources
from berth.engine.state.amounts import MOST
from berth.engine.state.node_table import EXACT, NOWHERE, NodeTable
from berth.engine.state.resources import FIRST_RESOURCES, MOST_RESOURCES
from berth.engine.state.state import State
from berth.engine.verdict import Code
from berth.model import Node, Pod, parse_node, parse_pod
from engine.expecting import row_of
from support.builders import make_node, make_pod

GPU = "example.com/gpu"


def named(count: int, first: int = 0) -> dict[str, str]:
    return {f"example.com/r{number}": "1" for number in range(first, first + count)}


def a_pod(name: str = "p", requests: Mapping[str, str | int] | None = None, **more: Any) -> Pod:
    return parse_pod(make_pod(name, requests=requests or {}, uid=name, **more))


def a_node(name: str = "n", extended: Mapping[str, str | int] | None = None, **more: Any) -> Node:
    return parse_node(make_node(name, extended=extended or {}, **more))


def a_table(*nodes: Node) -> NodeTable:
    table = NodeTable()
    for node in nodes or (a_node(),):
        table.set_node(node)
    return table


def amounts(table: NodeTable, resource: int, row: int) -> tuple[int, int, int]:
    """What the node has, what its pods use, and what is free."""
    columns = (table.allocatable, table.used, table.free)
    allocatable, used, free = (int(column[resource, row]) for column in columns)
    return allocatable, used, free


def shapes(table: NodeTable) -> set[int]:
    """How many columns there are of everything that has one for each resource."""
    floats = (table.floats.allocatable, table.floats.used)
    return {len(column) for column in (table.allocatable, table.used, table.free, *floats, table.pods.usage)}


# --- resources that no node has --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1000, 20_000])
def test_a_bound_pod_with_many_resource_names_adds_no_column(count: int) -> None:
    table = a_table()
    before = table.static_version, table.numbering
    table.add_pod(a_pod(requests=named(count)), "n")
    assert shapes(table) == {len(FIRST_RESOURCES)}
    assert (table.static_version, table.numbering) == before
    assert table.statistics()["resources_without_column"] == count
    assert table.known_resource("example.com/r0") == NOWHERE
    table.remove_pod("p")
    assert table.statistics()["resources_without_column"] == 0


def test_pods_with_a_resource_name_each_leave_no_memory_behind_when_they_are_gone() -> None:
    table = a_table(*(a_node(f"n{number}") for number in range(100)))
    pods = [a_pod(f"p{number}", named(1, number)) for number in range(2000)]

    def live_through(some: Sequence[Pod]) -> None:
        for number, pod in enumerate(some):
            table.add_pod(pod, f"n{number % 100}")
        for pod in some:
            table.remove_pod(pod.uid)
        table.compact()
        gc.collect()

    live_through(pods[:1000])  # what is made once and kept, such as slots, is there now
    tracemalloc.start()
    try:
        live_through(pods[1000:])
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left < 200 * 1024  # of which most is the journal and the slots of pods, which are as long as before
    assert shapes(table) == {len(FIRST_RESOURCES)}
    assert table.statistics()["resources_without_column"] == 0


def test_names_that_are_gone_are_given_back_even_while_a_few_others_stay() -> None:
    table = a_table()
    table.add_pod(a_pod("small", named(3, 90_000)), "n")
    large = a_pod("large", named(20_000))
    tracemalloc.start()
    try:
        table.add_pod(large, "n")
        table.remove_pod("large")
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left < 100 * 1024  # the names alone were some 600 KiB
    assert table.used_of("example.com/r90000", row_of(table, "n")) == 1


def test_a_pod_that_asks_for_what_no_node_has_is_told_every_name_and_takes_a_single_column() -> None:
    state = State()
    for number in range(3):
        state.table.set_node(a_node(f"n{number}"))
    pod = a_pod(requests={"cpu": "1", **named(20_000)})
    query = Query(pod, state.table)
    plugin = NodeResourcesFit({})
    verdicts = plugin.filter(query, state, state.table.rows)
    assert verdicts.codes.tolist() == [Code.UNRESOLVABLE] * 3
    assert len(set(verdicts.causes.tolist())) == 1
    assert sorted(verdicts.reasons(0)) == sorted(f"Insufficient {name}" for name in named(20_000))
    assert not plugin.fits_row(query, state, 0)


def test_pods_that_leave_help_nobody_who_asks_for_what_no_node_has() -> None:
    """They used the resource on the node, which has none: without them there is still none."""
    state = State()
    state.table.set_node(a_node())
    users = [a_pod(f"user-{number}", {GPU: "4"}) for number in range(3)]
    for pod in users:
        state.table.add_pod(pod, "n")
    query = Query(a_pod("asks", {GPU: "1"}, priority=10), state.table)
    assert not NodeResourcesFit({}).fits_without(query, state, 0, users)


# --- a node that has the resource ------------------------------------------------------------------------------------


def test_a_node_that_reports_a_resource_later_finds_what_pods_use_of_it() -> None:
    table = a_table(a_node("n"), a_node("other"))
    table.add_pod(a_pod("first", {"cpu": "1", GPU: "1"}), "n")
    table.add_pod(a_pod("second", {GPU: "2"}), "n")
    table.add_pod(a_pod("third", {GPU: "5"}), "other")
    table.add_pod(a_pod("early", {GPU: "7"}), "unknown")
    table.set_node(a_node("n", {GPU: 8}))
    index, row = table.known_resource(GPU), row_of(table, "n")
    assert amounts(table, index, row) == (8, 3, 5)
    assert (float(table.floats.allocatable[index, row]), float(table.floats.used[index, row])) == (8, 3)
    assert amounts(table, index, row_of(table, "other")) == (0, 5, -5)
    table.set_node(a_node("unknown", {GPU: 8}))
    assert table.free[index, table.row("unknown")] == 1
    table.remove_pod("second")
    assert amounts(table, index, row) == (8, 1, 7)
    assert table.statistics()["resources_without_column"] == 0


def test_a_column_that_no_node_has_any_more_is_given_back_and_what_pods_use_stays_known() -> None:
    table = a_table(a_node("n", {GPU: 8, "example.com/last": 1}))
    table.add_pod(a_pod("p", {GPU: "3"}), "n")
    table.set_node(a_node("n", {"example.com/last": 1}))
    assert GPU not in table.resource_index
    assert table.used_of(GPU, 0) == 3
    assert table.resource_index["example.com/last"] == len(FIRST_RESOURCES)
    assert table.allocatable[len(FIRST_RESOURCES), 0] == 1
    table.remove_node("n")
    assert shapes(table) == {len(FIRST_RESOURCES)}
    table.remove_pod("p")
    table.set_node(a_node("n", {GPU: 8}))
    assert table.free[table.known_resource(GPU), 0] == 8


def test_a_resource_of_which_a_node_has_none_has_no_column() -> None:
    table = a_table(a_node("n", {"hugepages-1Gi": 0}))
    assert shapes(table) == {len(FIRST_RESOURCES)}


def test_the_resources_of_a_node_are_added_in_one_step_and_given_back_in_one() -> None:
    table = a_table()
    before = table.numbering
    table.set_node(a_node("n", named(100)))
    assert table.numbering == before + 1
    assert shapes(table) == {len(FIRST_RESOURCES) + 100}
    table.set_node(a_node("n"))
    assert table.numbering == before + 2
    assert shapes(table) == {len(FIRST_RESOURCES)}


def test_names_that_come_one_by_one_do_not_move_all_columns_each_time() -> None:
    table, moves = a_table(), 0
    for number in range(200):
        store, capacity = table.used.base, table.capacity
        table.set_node(a_node(f"n{number % 50}-{number}", named(1, number)))
        moves += table.used.base is not store and table.capacity == capacity
    assert moves <= 6


def test_nodes_with_more_resources_than_there_can_be_columns_are_bounded_and_catch_up() -> None:
    table = a_table(a_node("n", named(20_000)))
    assert shapes(table) == {MOST_RESOURCES + 1}  # with the one for what no node has
    left_out = 20_000 + len(FIRST_RESOURCES) - 1 - MOST_RESOURCES
    assert table.resources_left_out == left_out
    assert table.known_resource("example.com/r19999") == NOWHERE
    table.set_node(a_node("other", {"example.com/r19999": 4}))
    table.add_pod(a_pod("p", {"example.com/r19999": "1"}), "other")
    assert table.known_resource("example.com/r19999") == NOWHERE
    table.remove_node("n")  # which makes room for the other's
    assert shapes(table) == {len(FIRST_RESOURCES) + 1}
    index, row = table.known_resource("example.com/r19999"), row_of(table, "other")
    assert amounts(table, index, row) == (4, 1, 3)
    assert table.floats.allocatable[index, row] == 4
    assert table.resources_left_out == 0


def test_sums_beyond_64_bits_survive_that_a_column_comes_and_goes() -> None:
    table = a_table(a_node("n"), a_node("m", {GPU: 1, "example.com/first": 1}))
    most = str(2**63 - 1)
    for number in range(3):
        table.add_pod(a_pod(f"p{number}", {GPU: most}), "n")
    index = table.known_resource(GPU)
    assert table.used[index, 0] == MOST
    table.set_node(a_node("m", {"example.com/last": 1}))  # the columns of two others go, and one moves
    assert table.used_of(GPU, 0) == 3 * (2**63 - 1)
    table.set_node(a_node("n", {GPU: 8}))
    assert (table.used[table.known_resource(GPU), 0], table.exact) == (MOST, False)
    for number in range(3):
        table.remove_pod(f"p{number}")
    assert table.free[table.known_resource(GPU), 0] == 8
    assert table.statistics()["saturated_sums"] == 0


# --- who reads the columns -------------------------------------------------------------------------------------------


def test_preemption_counts_what_victims_use_of_a_resource_that_came_later() -> None:
    state = State()
    state.table.set_node(a_node("n", cpu="8"))
    for number in range(3):
        state.table.add_pod(a_pod(f"old-{number}", {GPU: "1"}, priority=number), "n")
    state.table.set_node(a_node("n", {GPU: 3}, cpu="8"))
    pipeline, pod = Pipeline([NodeResourcesFit({})], []), a_pod("new", {GPU: "1"}, priority=10)
    said = pipeline.decide(pod, state, Random(0))
    assert isinstance(said, Diagnosis)
    assert said.query is not None
    assert said.survey is not None
    found = Preemption().preempt(pipeline, said.query, said.survey, state, Random(0))
    assert isinstance(found, Nomination)
    assert [victim.name for victim in found.victims] == ["old-0"]


def test_room_is_promised_by_the_numbers_that_resources_have_now() -> None:
    state = State()
    state.table.set_node(a_node("n", {"example.com/first": 1}))
    state.table.set_node(a_node("m"))
    state.nominate(a_pod("waits", {"cpu": "1", GPU: "2", **named(1000)}, priority=5), "n")
    other = a_pod("other", priority=5)

    def reserved() -> dict[str, int]:
        found = state.nominated_pods.usage_beside(other)
        assert found is not None
        return {name: int(found.amounts[i, 0]) for name, i in state.table.resource_index.items() if found.amounts[i, 0]}

    assert reserved() == {"cpu": 1000, "pods": 1}
    state.table.set_node(a_node("n", {"example.com/first": 1, GPU: 4}))
    assert reserved() == {"cpu": 1000, "pods": 1, GPU: 2}
    state.table.set_node(a_node("n", {GPU: 4}))
    assert reserved() == {"cpu": 1000, "pods": 1, GPU: 2}
    state.table.set_node(a_node("n"))
    assert reserved() == {"cpu": 1000, "pods": 1}


def test_what_is_kept_of_one_resource_is_not_taken_for_another_that_gets_its_number() -> None:
    """Node a alone has the first resource, and loses it: gpus get its number while all other nodes stay as they are."""
    first = "example.com/first"

    def state_of(*extended: Mapping[str, str | int]) -> State:
        state = State()
        for name, amounts in zip("abc", extended, strict=True):
            state.table.set_node(a_node(name, amounts, cpu="10"))
        for number in range(4):
            state.table.add_pod(a_pod(f"old-{number}", {"cpu": "1", GPU: "1"}), "bc"[number % 4 == 3])
        return state

    def a_pipeline() -> Pipeline:
        weighed = [{"name": name, "weight": 1} for name in ("cpu", first, GPU)]
        scores = NodeResourcesBalancedAllocation({"resources": weighed})
        return Pipeline([NodeResourcesFit({})], [(scores, 1)], TieBreak.FIRST)

    def decided(pipeline: Pipeline, state: State) -> list[tuple[Placement | Diagnosis, list[int]]]:
        ranked = []
        for number, request in enumerate(({GPU: "1", "cpu": "3"}, {first: "1", "cpu": "3"}, {"cpu": "1"})):
            pod = a_pod(f"new-{number}", request)
            query = Query(pod, state.table)
            rows = pipeline.survey(query, state).rows
            column = pipeline.scores[0][0].score(query, state, rows)
            ranked.append((pipeline.decide(pod, state, Random(0)), column.tolist()))
        return ranked

    state, pipeline = state_of({first: 4, GPU: 4}, {GPU: 4}, {GPU: 8}), a_pipeline()
    before = decided(pipeline, state)
    assert state.table.resource_index[first] < state.table.resource_index[GPU]
    state.table.set_node(a_node("a", {GPU: 4}, cpu="10"))
    after = decided(pipeline, state)
    assert after == decided(a_pipeline(), state_of({GPU: 4}, {GPU: 4}, {GPU: 8}))
    assert after != before


# --- against plain sums ----------------------------------------------------------------------------------------------

NAMES = [f"example.com/r{number}" for number in range(8)]
NODES = ("a", "b", "c", "d")
AMOUNTS = st.sampled_from([1, 1, 2, 2, 3, 7, EXACT, 2**62, 2**63 - 1])
SOME = st.dictionaries(st.sampled_from(NAMES), AMOUNTS, max_size=5)
FEW = len(FIRST_RESOURCES) + 4


def a_pipeline() -> Pipeline:
    """One that reads every resource: whether there is room, how full nodes are, and how evenly."""
    weighed = [{"name": name, "weight": 1} for name in ("cpu", *NAMES)]
    fit = NodeResourcesFit({"scoringStrategy": {"type": "MostAllocated", "resources": weighed}})
    balanced = NodeResourcesBalancedAllocation({"resources": weighed})
    return Pipeline([fit], [(fit, 3), (balanced, 1)], TieBreak.FIRST)


class ResourceMachine(RuleBasedStateMachine):
    """Nodes and pods come and go with any resources; all columns are what plain sums over them say."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, str]] = {}
        self.waiting: dict[str, tuple[Pod, str]] = {}

    @initialize(limit=st.sampled_from([FEW, MOST_RESOURCES]))
    def begin(self, limit: int) -> None:
        self.limit = limit
        self._patch.setattr(resources, "MOST_RESOURCES", limit)
        self.state = State()
        self.table = self.state.table
        self.pipeline = a_pipeline()

    def teardown(self) -> None:
        self._patch.undo()

    @rule(name=st.sampled_from(NODES), amounts=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9), max_size=6))
    def set_node(self, name: str, amounts: dict[str, int]) -> None:
        self.nodes[name] = a_node(name, amounts)
        self.table.set_node(self.nodes[name])

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.table.remove_node(name)

    @rule(number=st.integers(0, 9), name=st.sampled_from(NODES), amounts=SOME)
    def add_pod(self, number: int, name: str, amounts: dict[str, int]) -> None:
        pod = a_pod(f"p{number}", {resource: str(amount) for resource, amount in amounts.items()})
        if pod.uid not in self.pods:
            self.pods[pod.uid] = pod, name
            self.table.add_pod(pod, name)

    @rule(number=st.integers(0, 9))
    def remove_pod(self, number: int) -> None:
        self.pods.pop(f"p{number}", None)
        self.table.remove_pod(f"p{number}")

    @rule(number=st.integers(0, 3), name=st.sampled_from(NODES), amounts=st.sets(st.sampled_from(NAMES), max_size=4))
    def nominate(self, number: int, name: str, amounts: set[str]) -> None:
        if self.waiting.pop(f"w{number}", None) is not None:
            self.state.withdraw(f"w{number}")
        pod = a_pod(f"w{number}", dict.fromkeys(amounts, "1"), priority=5)
        self.waiting[pod.uid] = pod, name
        self.state.nominate(pod, name)

    @rule()
    def compact(self) -> None:
        self.table.compact()

    @rule(amounts=st.sets(st.sampled_from(NAMES), max_size=3), lands=st.booleans())
    def decide(self, amounts: set[str], lands: bool) -> None:
        pod = a_pod("decided", dict.fromkeys(amounts, "1"), priority=9)
        fitting = [
            name
            for name, node in self.nodes.items()
            if all(resource in self.table.resource_index for resource in amounts)
            and all(node.allocatable.get(resource, 0) - self.used(name)[resource] >= 1 for resource in amounts)
        ]
        for _ in range(2):  # the second time from what is kept
            said = self.pipeline.decide(pod, self.state, Random(0))
            assert said == a_pipeline().decide(pod, self.state, Random(0))
            if not self.table.resources_left_out:
                assert said == a_pipeline().decide(pod, self.rebuilt(), Random(0))
            assert said.node in fitting if isinstance(said, Placement) else not fitting
            if lands and isinstance(said, Placement):
                landed = replace(pod, uid=f"landed-{len(self.pods)}")
                if landed.uid not in self.pods:
                    self.pods[landed.uid] = landed, said.node
                    self.table.add_pod(landed, said.node)
                return

    def rebuilt(self) -> State:
        state = State()
        for node in self.nodes.values():
            state.table.set_node(node)
        for pod, name in self.pods.values():
            state.table.add_pod(pod, name)
        return state

    def used(self, name: str) -> Counter[str]:
        total = Counter({"pods": sum(node == name for _, node in self.pods.values())})
        for pod, node in self.pods.values():
            if node == name:
                total.update(pod.usage)
        return total

    @invariant()
    def columns_are_of_what_nodes_have(self) -> None:
        if not hasattr(self, "table"):
            return
        have = {name for node in self.nodes.values() for name in node.allocatable if node.allocatable[name] > 0}
        index = dict(self.table.resource_index)
        assert sorted(index.values()) == list(range(len(index)))
        assert set(index) - set(FIRST_RESOURCES) <= have
        assert len(index) == min(len(have | set(FIRST_RESOURCES)), self.limit + 1)
        assert self.table.resources_left_out == len(have - set(index))
        assert shapes(self.table) == {len(index)}
        used = {name for pod, _ in self.pods.values() for name in pod.usage}
        assert self.table.statistics()["resources_without_column"] == len(used - set(index))

    @invariant()
    def amounts_are_plain_sums(self) -> None:
        for name, node in self.nodes.items():
            row, used = row_of(self.table, name), self.used(name)
            for resource in (*FIRST_RESOURCES[:-1], *NAMES):
                taken = used[resource]
                index = self.table.resource_index.get(resource)
                assert min(self.table.used_of(resource, row), MOST) == min(taken, MOST)
                assert self.table.used_column(resource)[row] == min(taken, MOST)
                if index is not None:
                    there = node.allocatable.get(resource, 0)
                    assert self.table.allocatable[index, row] == self.table.floats.allocatable[index, row] == there
                    assert self.table.used[index, row] == min(taken, MOST)
                    assert self.table.free[index, row] == there - min(taken, MOST)

    @invariant()
    def pods_and_promises_have_the_numbers_of_now(self) -> None:
        if not hasattr(self, "table"):
            return
        index, columns = self.table.resource_index, self.table.pods
        for slot in np.flatnonzero(columns.row >= 0).tolist():
            pod = columns.record(slot)
            wanted = {index[name]: amount for name, amount in {"pods": 1, **pod.usage}.items() if name in index}
            assert {i: v for i, v in enumerate(columns.usage[:, slot].tolist()) if v} == wanted
        found = self.state.nominated_pods.usage_beside(a_pod("asks", priority=0))
        if found is None:
            return
        for position, row in enumerate(found.rows.tolist()):
            nominated: Counter[str] = Counter()
            for pod, name in self.waiting.values():
                if self.table.row(name) == row:
                    nominated.update({"pods": 1, **pod.usage})
            said = {name: int(found.amounts[i, position]) for name, i in index.items()}
            assert said == {name: nominated[name] for name in index}


TestResources = ResourceMachine.TestCase
TestResources.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
