"""Pods that are to leave count against their budgets for as long as the budgets do not show it."""

from berth.engine.state.state import State
from berth.model import Pod, parse, parse_node, parse_pod
from berth.scheduler.object_events import ObjectEvent, identify
from berth.scheduler.preemption.disruptions import LEAST_SECONDS, MOST_SECONDS, Disruptions
from scheduler.virtual_clock import VirtualClock
from support.builders import make_node, make_object, make_pod

KEY = "default/web"


def state_with_budget() -> State:
    state = State()
    for name in "ab":
        state.table.set_node(parse_node(make_node(name)))
    put_budget(state, version="1", healthy=5)
    return state


def put_budget(state: State, version: str, healthy: int) -> ObjectEvent:
    """Puts a version of the budget into the state; returns the event by which components hear of it."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    status = {"disruptionsAllowed": healthy - 1, "currentHealthy": healthy}
    body = make_object("PodDisruptionBudget", "web", namespace="default", spec=spec, status=status)
    body["metadata"]["resourceVersion"] = version
    state.put("PodDisruptionBudget", KEY, parse("PodDisruptionBudget", body))
    identity = identify(body)
    assert identity is not None
    return ObjectEvent("PodDisruptionBudget", identity, body)


def web(node: str, name: str = "web") -> Pod:
    return parse_pod(make_pod(name, uid=name, node=node, labels={"app": "web"}))


def evict(disruptions: Disruptions, state: State, *names: str) -> None:
    """Decides that the pods are evicted from node a, all before the first is gone."""
    for name in names:
        state.table.add_pod(web("a", name), "a")
        disruptions.begin(web("a", name), "a")
    for name in names:
        state.table.remove_pod(name)
        disruptions.follow(name)


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


async def test_an_eviction_counts_until_the_budget_has_as_many_fewer_healthy_pods() -> None:
    clock, state = VirtualClock(), state_with_budget()
    disruptions = Disruptions(state, clock)
    evict(disruptions, state, "first", "second")
    await clock.advance(LEAST_SECONDS)
    disruptions.on_event(put_budget(state, version="2", healthy=5))  # by a controller that has seen neither go
    disruptions.end_included()
    assert state.disrupting == {KEY: {"first", "second"}}
    disruptions.on_event(put_budget(state, version="3", healthy=4))
    disruptions.end_included()
    assert state.disrupting == {KEY: {"second"}}
    disruptions.on_event(put_budget(state, version="4", healthy=3))
    disruptions.end_included()
    assert state.disrupting == {}


async def test_an_eviction_that_a_budget_included_once_stops_counting_although_new_pods_are_healthy_since() -> None:
    clock, state = VirtualClock(), state_with_budget()
    disruptions = Disruptions(state, clock)
    evict(disruptions, state, "web")
    disruptions.on_event(put_budget(state, version="2", healthy=4))
    disruptions.on_event(put_budget(state, version="3", healthy=6))
    disruptions.end_included()
    assert state.disrupting == {KEY: {"web"}}
    await clock.advance(LEAST_SECONDS)
    disruptions.end_included()
    assert state.disrupting == {}


async def test_an_eviction_stops_counting_against_a_budget_that_is_deleted() -> None:
    clock, state = VirtualClock(), state_with_budget()
    disruptions = Disruptions(state, clock)
    evict(disruptions, state, "web")
    event = put_budget(state, version="2", healthy=5)
    state.drop("PodDisruptionBudget", KEY)
    disruptions.on_event(event._replace(is_removal=True))
    await clock.advance(LEAST_SECONDS)
    disruptions.end_included()
    assert state.disrupting == {}
