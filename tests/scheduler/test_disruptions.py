"""Pods that are to leave count against their budgets for as long as the budgets do not show it."""

from berth.engine.state.state import State
from berth.model import Pod, parse, parse_node, parse_pod
from berth.scheduler.preemption.disruptions import MOST_SECONDS, Disruptions
from scheduler.virtual_clock import VirtualClock
from support.builders import make_node, make_object, make_pod

KEY = "default/web"


def state_with_budget() -> State:
    state = State()
    for name in "ab":
        state.table.set_node(parse_node(make_node(name)))
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budget = make_object("PodDisruptionBudget", "web", namespace="default", spec=spec, status={"disruptionsAllowed": 1})
    state.put("PodDisruptionBudget", KEY, parse("PodDisruptionBudget", budget))
    return state


def web(node: str) -> Pod:
    return parse_pod(make_pod("web", uid="web", node=node, labels={"app": "web"}))


async def test_a_pod_that_is_to_leave_the_node_that_it_came_to_counts_although_it_left_another() -> None:
    clock, state = VirtualClock(), state_with_budget()
    disruptions = Disruptions(state, clock)
    state.table.add_pod(web("a"), "a")
    disruptions.begin(web("a"), "a")
    state.table.remove_pod("web")
    state.table.add_pod(web("b"), "b")
    disruptions.follow("web")
    disruptions.begin(web("b"), "b")
    await clock.advance(MOST_SECONDS)
    disruptions.end_included()
    assert state.disrupting == {KEY: {"web"}}
    state.table.remove_pod("web")
    disruptions.follow("web")
    await clock.advance(MOST_SECONDS)
    disruptions.end_included()
    assert state.disrupting == {}


async def test_a_pod_that_is_relabelled_while_it_is_to_leave_counts_against_its_new_budget_too() -> None:
    clock, state = VirtualClock(), state_with_budget()
    disruptions = Disruptions(state, clock)
    plain = parse_pod(make_pod("web", uid="web", node="a"))
    state.table.add_pod(plain, "a")
    disruptions.begin(plain, "a")
    assert state.disrupting == {}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"tier": "front"}}}
    other = make_object("PodDisruptionBudget", "front", namespace="default", spec=spec)
    state.put("PodDisruptionBudget", "default/front", parse("PodDisruptionBudget", other))
    disruptions.begin(web("a"), "a")
    both = parse_pod(make_pod("web", uid="web", node="a", labels={"app": "web", "tier": "front"}))
    disruptions.begin(both, "a")
    assert state.disrupting == {KEY: {"web"}, "default/front": {"web"}}
    disruptions.end("web")
    assert state.disrupting == {}
