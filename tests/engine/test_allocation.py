"""Resource scores on columns are exactly what whole numbers give, however large the amounts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.engine.plugin import Query
from berth.engine.plugins.common.allocation import cut_quotient
from berth.engine.state.node_table import EXACT
from berth.model import parse_pod
from engine.expecting import make_score
from engine.worlds import state_of
from support.builders import make_node, make_pod

HUNDREDFOLD = 100 * EXACT
SHAPE = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 37, "score": 10}, {"utilization": 100, "score": 3}]}
STRATEGIES = (
    {"type": "LeastAllocated"},
    {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 5}]},
    {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": SHAPE},
)

below = st.integers(1, EXACT - 1)
amounts = st.one_of(st.integers(1, 2**12), below, st.integers(EXACT - 2, EXACT + 2), st.integers(2**53 - 2, 2**56))


@given(below, st.integers(0, 100), st.sampled_from([-1, 0, 1]))
def test_floats_cut_quotients_as_whole_numbers_do_up_to_the_hundredfold(divisor: int, quotient: int, near: int) -> None:
    """Where it is hardest: right below, at and above a multiple of the divisor."""
    dividend = min(max(quotient * divisor + near, 0), 100 * divisor)
    assert dividend < HUNDREDFOLD < 2**53
    cut = cut_quotient(np.array([dividend], dtype=np.float64), np.array([divisor], dtype=np.float64))
    assert cut.tolist() == [dividend // divisor]


@given(st.lists(st.tuples(amounts, amounts), min_size=2, max_size=4), st.integers(0, 2**56))
def test_a_column_has_the_scores_that_single_nodes_get(nodes: list[tuple[int, int]], asked: int) -> None:
    bodies = [make_node(f"n{i}", cpu=1 + i, memory=memory) for i, (memory, _) in enumerate(nodes)]
    taken = [make_pod(f"p{i}", node=f"n{i}", cpu="300m", memory=used) for i, (_, used) in enumerate(nodes)]
    state = state_of([*bodies, *taken])
    query = Query(parse_pod(make_pod("web", cpu="250m", memory=asked)), state.table)
    plugins = [make_score("NodeResourcesFit", {"scoringStrategy": strategy}) for strategy in STRATEGIES]
    for plugin in [*plugins, make_score("NodeResourcesBalancedAllocation")]:
        rows = range(len(nodes))
        column = plugin.score(query, state, state.table.rows)
        assert column.tolist() == [plugin.score_row(query, state, row) for row in rows]


@pytest.mark.parametrize("size", [EXACT - 1, EXACT])
def test_floats_are_used_only_while_every_amount_is_exact_in_them(size: int) -> None:
    state = state_of([make_node("a", memory=1), make_node("b", memory=size)])
    assert state.table.exact is (size < EXACT)
    state = state_of(
        [make_node("a"), make_pod("big", node="a", memory=size // 2), make_pod("small", node="a", memory=1)]
    )
    assert state.table.exact
    state.table.add_pod(parse_pod(make_pod("another", memory=size - size // 2)), "a")
    assert not state.table.exact
