"""The columns of what unschedulable pods ask for, beside the filter that they stand for."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.events import Change, Event
from berth.engine.plugin import Query
from berth.engine.plugins.common.hints import fits_there
from berth.engine.plugins.node_resources_fit import NodeResourcesFit
from berth.engine.queueing.demand import PREEMPTS_NOBODY, Demand
from berth.engine.state.resources import FIRST_RESOURCES, MOST_RESOURCES
from berth.engine.state.state import State
from berth.model import Pod, parse_node, parse_pod
from support.builders import make_node, make_pod

FIT = NodeResourcesFit({})
GPU, DISK = "example.com/gpu", "ephemeral-storage"
AMOUNTS = st.sampled_from([0, 1, 2, 3, 2**53, 2**62, 2**63 - 1])
REQUESTS = st.fixed_dictionaries({}, optional={"memory": AMOUNTS, GPU: AMOUNTS, DISK: AMOUNTS})
PODS = st.builds(
    lambda requests, priority, policy: {"requests": requests, "priority": priority, "preemptionPolicy": policy},
    REQUESTS,
    st.integers(0, 3),
    st.sampled_from(["Never", "PreemptLowerPriority"]),
)


def state_of(allocatable: dict[str, int], pods: list[dict[str, Any]], places: int) -> State:
    state = State()
    extended = {name: amount for name, amount in allocatable.items() if name != "memory"}
    state.table.set_node(
        parse_node(make_node("a", cpu=1, memory=allocatable.get("memory", 0), pods=places, extended=extended))
    )
    for number, pod in enumerate(pods):
        state.table.add_pod(parse_pod(make_pod(f"placed-{number}", node="a", **pod)), "a")
    return state


def put(demand: Demand, slot: int, pod: Pod) -> None:
    demand.put(slot, FIT.needed_resources(pod), PREEMPTS_NOBODY if pod.preemption_policy == "Never" else pod.priority)


@settings(max_examples=150)
@given(
    allocatable=REQUESTS,
    placed=st.lists(PODS, max_size=4),
    asked=st.lists(PODS, max_size=6),
    places=st.integers(0, 5),
)
def test_a_node_has_room_for_a_pod_wherever_the_filter_says_so_at_once_or_after_a_preemption(
    allocatable: dict[str, int], placed: list[dict[str, Any]], asked: list[dict[str, Any]], places: int
) -> None:
    state, demand = state_of(allocatable, placed, places), Demand()
    pods = [parse_pod(make_pod(f"p-{number}", **pod)) for number, pod in enumerate(asked)]
    for slot, pod in enumerate(pods):
        put(demand, slot, pod)
    fits = demand.fitting(state, "a")
    change = Change(frozenset({Event.POD_REMOVED}), node="a")
    everything = [allocatable, *(pod["requests"] for pod in (*placed, *asked))]
    small = all(amount < 2**62 for amounts in everything for amount in amounts.values())
    for slot, pod in enumerate(pods):
        said = fits_there(FIT, Query(pod, state.table), state, change)
        assert fits[slot] or not said
        assert not small or said or not fits[slot] or 0 in pod.requests.values()
        assert (demand.count(state, "a", slot) > 0) == fits[slot]


def test_a_node_takes_as_many_pods_as_its_scarcest_resource_allows() -> None:
    demand, state = Demand(), state_of({"memory": 10, GPU: 3}, [{"requests": {"memory": 2}}], 5)
    put(demand, 0, parse_pod(make_pod("a", requests={"memory": 3})))
    put(demand, 1, parse_pod(make_pod("b", requests={"memory": 1, GPU: 1})))
    put(demand, 2, parse_pod(make_pod("c")))
    assert [demand.count(state, "a", slot) for slot in range(3)] == [2, 3, 4]
    assert demand.count(state, "unknown", 0) == 0
    assert not demand.fitting(state, "unknown").any()


def test_columns_are_given_back_and_used_again() -> None:
    demand, state = Demand(), state_of({"memory": 10, GPU: 1}, [], 5)
    for turn in range(3):
        for number in range(2 * MOST_RESOURCES):
            put(demand, number, parse_pod(make_pod("p", requests={f"example.com/{turn}-{number}": 1, GPU: 2})))
        found = demand.statistics()
        assert (found["columns"], found["width"]) == (MOST_RESOURCES, MOST_RESOURCES)
        assert not demand.fitting(state, "a")[: 2 * MOST_RESOURCES].any()
        for number in range(2 * MOST_RESOURCES):
            demand.clear(number)
    found = demand.statistics()
    assert (found["columns"], found["kinds"], found["uses"]) == (len(FIRST_RESOURCES), 0, 0)
    everything = state_of({"memory": 0, GPU: 0}, [], 0)
    assert demand.fitting(everything, "a").all()  # nothing is asked for any more
