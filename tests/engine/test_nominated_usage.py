"""Resources reserved for nominated pods: in columns, as by moving the pods in the table one node after the other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.engine.plugin import Query
from berth.engine.state.state import State
from berth.model import parse_node, parse_pod
from engine.test_preemption import Bystander, pipeline
from engine.worlds import state_of
from support.builders import make_node, make_pod

NODES = "abcd"
AMOUNTS = st.sampled_from(["0", "1", "2", "3"])
PLACED = st.lists(st.tuples(st.sampled_from(NODES), AMOUNTS), max_size=6)
WAITING = st.lists(
    st.tuples(st.sampled_from([*NODES, "gone"]), st.integers(0, 3), AMOUNTS, st.sampled_from(["", "1", "2"])),
    max_size=8,
)


def world(placed: list[tuple[str, str]], waiting: list[tuple[str, int, str, str]]) -> State:
    nodes = [make_node(name, cpu="4", memory="4", extended={"x/gpu": "2"}) for name in NODES]
    pods = [make_pod(f"placed-{i}", node=node, cpu=cpu) for i, (node, cpu) in enumerate(placed)]
    state = state_of([*nodes, *pods])
    for i, (node, priority, cpu, gpu) in enumerate(waiting):
        nominee = make_pod(
            f"nominee-{i}", cpu=cpu, memory="1", priority=priority, requests={"x/gpu": gpu} if gpu else {}
        )
        state.nominate(parse_pod(nominee), node)
    return state


@given(PLACED, WAITING, AMOUNTS, st.integers(0, 3), st.booleans())
def test_what_is_said_of_the_nodes_is_what_moving_the_nominated_pods_says(
    placed: list[tuple[str, str]], waiting: list[tuple[str, int, str, str]], cpu: str, priority: int, is_nominated: bool
) -> None:
    state = world(placed, waiting)
    name = "nominee-0" if is_nominated else "newcomer"
    pod = parse_pod(make_pod(name, cpu=cpu, memory="1", priority=priority, requests={"x/gpu": "1"}))
    free = state.table.free.copy()
    at_once, one_by_one = pipeline(), pipeline(Bystander({}))
    columns, moved = (each.survey(Query(pod, state.table), state) for each in (at_once, one_by_one))
    assert columns.fits.tolist() == moved.fits.tolist()
    assert at_once.diagnose(columns, 4).message == one_by_one.diagnose(moved, 4).message
    assert (state.table.free == free).all()


def test_pods_come_and_go_and_only_those_count_that_the_pod_has_to_yield_to() -> None:
    state = world([], [])
    nominees = [parse_pod(make_pod(f"nominee-{i}", cpu="1", priority=i % 3)) for i in range(200)]
    for i, nominee in enumerate(nominees):
        state.nominate(nominee, NODES[i % 4])
    newcomer = parse_pod(make_pod("newcomer", priority=2))
    found = state.nominated_pods.usage_beside(newcomer)
    assert found is not None
    expected = [sum(1 for i in range(200) if i % 3 == 2 and i % 4 == place) for place in range(4)]
    cpu = found.amounts[state.table.known_resource("cpu")]
    assert dict(
        zip([state.table.name(row) for row in found.rows.tolist()], (cpu // 1000).tolist(), strict=True)
    ) == dict(zip(NODES, expected, strict=True))
    for nominee in nominees:
        state.withdraw(nominee.uid)
    assert state.nominated_pods.usage_beside(newcomer) is None


def test_a_node_that_is_made_again_finds_its_guests() -> None:
    state = world([], [])
    pod, newcomer = parse_pod(make_pod("nominee", cpu="3")), parse_pod(make_pod("newcomer", cpu="2"))

    def nodes_with_nominated() -> list[str] | None:
        found = state.nominated_pods.usage_beside(newcomer)
        return None if found is None else [state.table.name(row) for row in found.rows.tolist()]

    state.nominate(pod, "late")
    assert nodes_with_nominated() is None
    state.table.set_node(parse_node(make_node("late", cpu="4")))
    assert nodes_with_nominated() == ["late"]
    state.table.remove_node("late")
    assert nodes_with_nominated() is None
    state.table.set_node(parse_node(make_node("another", cpu="4")))
    state.table.set_node(parse_node(make_node("late", cpu="4")))
    assert nodes_with_nominated() == ["late"]
    survey = pipeline().survey(Query(newcomer, state.table), state)
    fits = dict(
        zip(
            [state.table.name(int(row)) for row in np.arange(state.table.span)[survey.rows]],
            survey.fits.tolist(),
            strict=True,
        )
    )
    assert not fits["late"]
    assert fits["another"]
