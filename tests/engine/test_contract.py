"""Every plugin of the registry keeps the contract, on small clusters of every flavour."""

import copy
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.events import Event
from berth.engine.pipeline import Pipeline, Placement, TieBreak, row_numbers
from berth.engine.plugin import Query
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.queueing.marks import LABEL, NODE
from berth.engine.registry import PLUGINS
from berth.engine.state.node_table import NodeTable
from berth.engine.testing import add_stranger, check_free, fill
from berth.engine.verdict import SKIP, Code
from engine.worlds import World, make, scores_by_name, state_of, verdicts_by_name, worlds
from support.builders import make_node

FILTERS = sorted(name for name, plugin in PLUGINS.items() if plugin.filters)
SCORES = sorted(name for name, plugin in PLUGINS.items() if plugin.scores)


def shuffled(world: World):
    """The same cluster with its nodes in other slots, and slots that were used before."""
    state = state_of([])
    for body in [b for b in world.objects if b["kind"] == "Node"][:2]:
        gone = copy.deepcopy(dict(body))
        gone["metadata"]["name"] = "gone-" + gone["metadata"]["name"]
        state.table.set_node(state_of([gone]).table.node(gone["metadata"]["name"]))
    table, state = state.table, state_of(reversed(world.objects))
    for node in list(table.nodes()):
        state.table.set_node(node)
        state.table.remove_node(node.name)
    return state


def columns(table: NodeTable) -> list[np.ndarray]:
    return [
        table.allocatable.copy(),
        table.used.copy(),
        table.nonzero.copy(),
        table.taint_sets.copy(),
        table.unschedulable.copy(),
    ]


@pytest.mark.parametrize("name", FILTERS)
def test_reordering_nodes_reorders_verdicts(name):
    for world in worlds():
        plugin = make(name, world)
        assert verdicts_by_name(plugin, world, state_of(world.objects)) == verdicts_by_name(
            plugin, world, shuffled(world)
        )


@pytest.mark.parametrize("name", SCORES)
def test_reordering_nodes_reorders_scores(name):
    for world in worlds():
        plugin = make(name, world)
        assert scores_by_name(plugin, world, state_of(world.objects)) == scores_by_name(plugin, world, shuffled(world))


@pytest.mark.parametrize("name", FILTERS)
def test_asking_about_some_rows_gives_the_verdicts_of_those_rows(name):
    for world in worlds():
        plugin, state = make(name, world), state_of(world.objects)
        whole = verdicts_by_name(plugin, world, state)
        rows = row_numbers(state.table.rows)[1::2]
        some = verdicts_by_name(plugin, world, state, rows)
        if isinstance(whole, dict) and isinstance(some, dict):
            assert some == {name: whole[name] for name in some}


@pytest.mark.parametrize("name", [name for name in SCORES if PLUGINS[name].node_local])
def test_a_node_local_plugin_gives_some_rows_the_scores_that_they_have_among_all_before_normalisation(name):
    for world in worlds():
        plugin, state = make(name, world), state_of(world.objects)
        whole = scores_by_name(plugin, world, state, normal=False)
        some = scores_by_name(plugin, world, state, row_numbers(state.table.rows)[1::2], normal=False)
        if whole is not None and some is not None:
            assert some == {name: whole[name] for name in some}


@pytest.mark.parametrize("name", [name for name in FILTERS if PLUGINS[name].node_local])
def test_a_node_local_plugin_says_the_same_of_a_node_when_other_nodes_are_not_there(name):
    for world in worlds():
        plugin = make(name, world)
        whole = verdicts_by_name(plugin, world, state_of(world.objects))
        nodes = [body["metadata"]["name"] for body in world.objects if body["kind"] == "Node"][::2]
        fewer = [b for b in world.objects if b["kind"] != "Node" or b["metadata"]["name"] in nodes]
        some = verdicts_by_name(plugin, world, state_of(fewer))
        if isinstance(whole, dict) and isinstance(some, dict):
            assert some == {name: whole[name] for name in nodes}


@pytest.mark.parametrize("name", [name for name in FILTERS if PLUGINS[name].reads_only_usage])
def test_a_filter_that_reads_only_usage_says_the_same_with_the_columns_handed_over(name):
    for world in worlds():
        check_free(make(name, world), world.pod, state_of(world.objects))


def test_a_filter_that_says_otherwise_with_the_columns_handed_over_is_found_out():
    class Generous(NodeResourcesFit):
        def filter_with_free(self, query, free, allocatable):
            return super().filter_with_free(query, free + 1, allocatable)

    caught = 0
    for world in worlds():
        try:
            check_free(Generous({}), world.pod, state_of([*world.objects, make_node("no-room", pods=0)]))
        except AssertionError:
            caught += 1
    assert caught


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_nothing_that_a_plugin_is_given_is_changed(name):
    for world in worlds():
        plugin, state = make(name, world), state_of(world.objects)
        ask(plugin, world, state)  # what is asked for the first time may add columns
        before, pod = columns(state.table), copy.deepcopy(world.pod)
        ask(plugin, world, state)
        assert all(np.array_equal(a, b) for a, b in zip(before, columns(state.table), strict=True))
        assert world.pod == pod


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_the_same_question_gets_the_same_answer(name):
    for world in worlds():
        plugin, state = make(name, world), state_of(world.objects)
        assert ask(plugin, world, state) == ask(plugin, world, state) == ask(make(name, world), world, state)


@pytest.mark.parametrize("name", sorted(PLUGINS))
@pytest.mark.parametrize("count", [0, 1])
def test_no_node_and_one_node_are_answered_too(name, count):
    for world in worlds():
        nodes = [body for body in world.objects if body["kind"] == "Node"][:count]
        state = state_of([*nodes, *(body for body in world.objects if body["kind"] != "Node")])
        verdicts, scores = ask(make(name, world), world, state)
        assert not isinstance(verdicts, dict) or len(verdicts) == count
        assert scores is None or len(scores) == count


@pytest.mark.parametrize("name", SCORES)
def test_scores_lie_between_0_and_100(name):
    for world in worlds():
        scores = scores_by_name(make(name, world), world, state_of(world.objects))
        assert scores is None or all(0 <= score <= 100 for score in scores.values())


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_a_plugin_has_a_face(name):
    plugin = PLUGINS[name]
    assert plugin.name == name
    assert plugin.filters or plugin.scores
    assert isinstance(plugin.wakes_on, frozenset)
    assert all(isinstance(event, Event) for event in plugin.wakes_on)


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_an_argument_that_no_plugin_has_is_refused_by_name(name):
    with pytest.raises(ValueError, match="no-such-argument"):
        PLUGINS[name]({"no-such-argument": 1})


STEPS = ("full", "stranger", "joins", "leaves", "pods leave", "lands")


@pytest.mark.parametrize("name", sorted(PLUGINS))
@settings(max_examples=8, deadline=None)
@given(which=st.integers(0, 10**6), steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))
def test_what_is_kept_between_decisions_follows_the_table_as_it_grows(name, which, steps):
    """Between two decisions columns get longer, by a pod of a node that is not known or by a node that joins."""
    world = worlds()[which % len(worlds())]
    plugin, state = make(name, world), state_of(world.objects)
    keeping = pipeline_of(plugin)
    for number, step in enumerate(("full", "stranger", *steps)):
        pod = replace(world.pod, uid=f"decided-{number}", name=f"decided-{number}", node_name="")
        said = keeping.decide(pod, state, Random(0))
        assert said == pipeline_of(plugin).decide(pod, state, Random(0))
        if step == "lands" and isinstance(said, Placement):
            state.table.add_pod(pod, said.node)
        else:
            change(state, step, number)
    assert keeping.decide(world.pod, state, Random(0)) == pipeline_of(plugin).decide(world.pod, state, Random(0))


def pipeline_of(plugin):
    return Pipeline([plugin] if plugin.filters else [], [(plugin, 1)] if plugin.scores else [], TieBreak.FIRST)


def change(state, step, number):
    nodes = sorted(state.table.nodes(), key=lambda node: node.name)
    if step == "full" and state.table.capacity < 512:
        fill(state)
    elif step == "stranger":
        add_stranger(state)
    elif step == "joins" and nodes:
        state.table.set_node(replace(nodes[number % len(nodes)], name=f"joined-{number}"))
    elif step == "leaves" and nodes:
        state.table.remove_node(nodes[number % len(nodes)].name)
    elif step == "pods leave" and nodes:
        for uid in list(state.table.pods_on(nodes[number % len(nodes)].name)):
            state.table.remove_pod(uid)


def ask(plugin, world, state):
    verdicts = verdicts_by_name(plugin, world, state) if plugin.filters else None
    return verdicts, scores_by_name(plugin, world, state) if plugin.scores else None


@pytest.mark.parametrize("name", FILTERS)
def test_a_node_that_a_plugin_does_not_admit_the_pod_to_is_refused_by_its_filter(name):
    for world in worlds():
        plugin, state = make(name, world), state_of(world.objects)
        query = Query(world.pod, state.table)
        screened = plugin.pre_filter(query, state) if plugin.concerns(world.pod) else SKIP
        if screened.skip or screened.code is not Code.FITS:
            continue
        rows, named = row_numbers(state.table.rows), plugin.named_nodes(world.pod)
        marks = plugin.node_marks(query, state)
        for row, fits in zip(rows, plugin.filter(query, state, rows).codes == Code.FITS, strict=True):
            node = state.table.node(state.table.name(int(row)))
            admits = plugin.admits(query, state, node)
            assert admits or not fits, (world.id, node.name)
            assert not admits or named is None or node.name in named, (world.id, node.name)
            assert not admits or marks is None or marks & marks_of_node(node), (world.id, node.name)


def marks_of_node(node):
    labels = node.labels.items()
    return {(NODE, node.name, ""), *((LABEL, key, "") for key, _ in labels), *((LABEL, *label) for label in labels)}


@pytest.mark.parametrize("name", FILTERS)
def test_a_plugin_has_local_events_among_those_that_it_wakes_on(name):
    assert PLUGINS[name].local_events <= PLUGINS[name].wakes_on
    assert not PLUGINS[name].local_events or PLUGINS[name].node_local
