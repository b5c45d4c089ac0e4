"""What a filter promises about pods that leave a node: preemption looks at most nodes without moving a pod."""

from random import Random

import numpy as np
import pytest

from berth.engine.plugin import Plugin, Query
from berth.engine.registry import PLUGINS
from berth.engine.trial import moved
from berth.engine.verdict import Code, row_numbers
from engine.worlds import make, state_of, worlds

READERS = sorted(name for name, plugin in PLUGINS.items() if plugin.filters and plugin.reads_pods)


def before_and_after(name):
    """The plugin's verdicts on a node, as it is and with some of its pods gone; and whether it watches the node."""
    for world in worlds():
        state, plugin = state_of(world.objects), make(name, world)
        query = Query(world.pod, state.table)
        answer = plugin.pre_filter(query, state)
        if answer.skip or answer.code is not Code.FITS:
            continue
        whole, watched = plugin.filter(query, state, state.table.rows), plugin.watched(query, state)
        random = Random(world.id)
        for position, row in enumerate(row_numbers(state.table.rows).tolist()):
            node = state.table.name(row)
            pods = [(pod, node) for pod in state.table.pods_on(node).values()]
            leaving = [pair for pair in pods if random.random() < 0.7]
            with moved(query, state.table, remove=leaving):
                alone = plugin.filter(query, state, np.array([row], dtype=np.intp))
                before, after = int(whole.codes[position]), int(alone.codes[0])
                reasons = [v.reasons(p) if c else () for v, p, c in ((whole, position, before), (alone, 0, after))]
            yield plugin, watched is None or bool(watched[row]), (before, reasons[0]), (after, reasons[1])


def knows_whom_it_watches(name):
    return PLUGINS[name].watched is not Plugin.watched


@pytest.mark.parametrize("name", READERS)
def test_a_node_that_is_not_watched_gets_the_same_verdict_when_its_pods_leave(name):
    assert [
        (before, after) for _, watched, before, after in before_and_after(name) if not watched and before != after
    ] == []


@pytest.mark.parametrize("name", [name for name in READERS if PLUGINS[name].node_local])
def test_a_node_local_filter_never_refuses_a_node_because_pods_leave(name):
    found = [after for _, _, before, after in before_and_after(name) if before[0] == Code.FITS]
    assert found
    assert [after for after in found if after[0] != Code.FITS] == []


def test_the_filters_that_are_not_node_local_watch_some_nodes_only():
    for name in (name for name in READERS if not PLUGINS[name].node_local and knows_whom_it_watches(name)):
        assert {watched for _, watched, _, _ in before_and_after(name)} == {True, False}, name
