"""What one tenant multiplies costs the decisions for others next to nothing, and is gone when its pods are.

Work is counted in calls of functions, which is the same in every run.
"""

import sys
from collections.abc import Callable, Iterable
from random import Random
from types import FrameType
from typing import Any

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Placement
from berth.engine.state.state import State
from berth.model import Node, Pod, parse_namespace, parse_node, parse_pod
from berth.policy import BUILT_IN, compile_policy
from engine.expecting import as_placement
from support.builders import Body, make_node, make_object, make_pod
from support.floods import HOSTNAME, PREFERRED, REQUIRED, ZONE, pod_term

NODES = 40
MANY = 200
NOT_COUNTED = ("slots", "pod_questions", "wide_questions", "label_columns", "idle_terms")


class World:
    """A small cluster with pods of others, and a policy's pipeline."""

    def __init__(self) -> None:
        self.state = State()
        for number in range(NODES):
            self.label(number)
        self.pipeline, self._random, self._probes = compile_policy(BUILT_IN), Random(0), 0
        for number in range(NODES):
            self.place(make_pod(f"web-{number}", labels={"app": f"app-{number % 5}"}), f"n{number}")

    def label(self, number: int, **labels: str) -> None:
        there = {HOSTNAME: f"n{number}", ZONE: f"z{number % 4}", **labels}
        self.state.table.set_node(parse_node(make_node(f"n{number}", cpu="64", pods=2000, labels=there)))

    def place(self, body: Body, node: str = "n0") -> Pod:
        pod = parse_pod(body)
        self.state.table.add_pod(pod, node)
        return pod

    def remove(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.state.table.remove_pod(pod.uid)

    def decide(self, **asked: Any) -> Placement:
        return as_placement(self.outcome(**asked))

    def outcome(self, **asked: Any) -> Placement | Diagnosis:
        self._probes += 1
        arguments = {"labels": {"app": "app-1"}, "image": f"example.com/probe:{self._probes}", **asked}
        return self.pipeline.decide(parse_pod(make_pod("probe", **arguments)), self.state, self._random)

    def work(self, **asked: Any) -> int:
        """How many functions a decision calls for a pod like no other, of which some have been decided on."""
        self.decide(**asked)
        return self.calls(**asked)

    def calls(self, **asked: Any) -> int:
        """How many functions the next decision calls."""
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            self.decide(**asked)
        finally:
            sys.setprofile(None)
        return calls

    @property
    def counts(self) -> dict[str, int]:
        table = {**self.state.table.statistics(), **self.state.volumes.statistics()}
        return {name: count for name, count in table.items() if name not in NOT_COUNTED}


def anti(*terms: Body) -> Body:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


@pytest.fixture
def world() -> World:
    return World()


# --- topology keys ---------------------------------------------------------------------------------------------------


def carriers(world: World, key: Callable[[int], str], count: int = MANY) -> list[Pod]:
    return [world.place(make_pod(f"c{i}", affinity=anti(pod_term(i, key(i))))) for i in range(count)]


def test_terms_on_keys_that_no_node_has_cost_the_decisions_for_others_nothing(world: World) -> None:
    before = world.work()
    carried = carriers(world, lambda i: f"none-{i}")
    assert world.work() <= before + 5
    found = world.state.table.statistics()
    assert (found["carried_terms"], found["idle_terms"]) == (MANY, MANY)
    assert found["label_columns"] <= 3
    world.remove(carried)
    assert world.state.table.statistics()["carried_terms"] == 0


def test_a_term_on_a_key_that_other_nodes_have_but_not_that_of_its_carrier_is_idle(world: World) -> None:
    world.label(7, rack="r")
    carriers(world, lambda i: "rack")
    assert world.state.table.statistics()["idle_terms"] == MANY
    assert not world.state.table.terms.matching(parse_pod(make_pod("probe")))


def test_a_term_counts_from_when_the_node_of_its_carrier_gets_the_label_until_it_loses_it(world: World) -> None:
    """Also for pods whose answers are kept."""
    world.place(make_pod("c", affinity=anti(pod_term(0, "rack"))), "n0")
    asked = {"image": "example.com/same", "node_selector": {HOSTNAME: "n0"}}
    on_first = {"node_selector": None, "image": "example.com/same"}
    assert world.decide(**asked).node == "n0"
    assert world.decide(**on_first).feasible == NODES
    world.label(0, rack="r")
    world.label(1, rack="r")
    assert isinstance(world.outcome(**asked), Diagnosis)
    assert world.decide(**on_first).feasible == NODES - 2
    world.label(0)
    assert world.decide(**asked).node == "n0"
    assert world.decide(**on_first).feasible == NODES


def test_a_term_counts_on_a_node_that_comes_after_its_pods_and_goes_before_them(world: World) -> None:
    carrier = world.place(make_pod("c", affinity=anti(pod_term(0, "rack"))), "late")
    assert not world.state.table.terms.matching(parse_pod(make_pod("probe")))
    world.state.table.set_node(parse_node(make_node("late", labels={"rack": "r"})))
    assert len(world.state.table.terms.matching(parse_pod(make_pod("probe")))) == 1
    world.state.table.remove_node("late")
    assert not world.state.table.terms.matching(parse_pod(make_pod("probe")))
    world.remove([carrier])
    assert world.state.table.statistics()["carried_terms"] == 0


def test_a_term_that_a_pod_names_twice_is_near_once(world: World) -> None:
    term = pod_term(0, HOSTNAME)
    carrier = world.place(make_pod("c", affinity=anti(term, term)))
    other = world.place(make_pod("d", affinity=anti(term)))
    world.remove([carrier])
    assert [carried.near for carried in world.state.table.terms.matching(parse_pod(make_pod("probe")))] == [1]
    world.remove([other])
    assert not world.state.table.terms.matching(parse_pod(make_pod("probe")))


def test_own_terms_on_keys_that_no_node_has_ask_nothing_until_a_node_has_one(world: World) -> None:
    terms = [pod_term(i, f"none-{i}") for i in range(30)]
    assert world.decide(affinity=anti(*terms)).feasible == NODES
    assert world.state.table.statistics()["pod_questions"] <= 2
    world.label(3, **{"none-4": "x"})
    assert world.decide(affinity=anti(*terms)).feasible == NODES - 1


@pytest.mark.parametrize("key", [HOSTNAME, ZONE])
@pytest.mark.parametrize("strength", [REQUIRED, PREFERRED])
def test_many_terms_about_everybody_are_looked_at_once_by_pods_of_the_same_labels(
    world: World, key: str, strength: str
) -> None:
    """They come from one node: what is refused or liked less there is the same for one term and for many."""

    def affinity(number: int) -> Body:
        term = pod_term(number, key)
        weighted = {"weight": 1, "podAffinityTerm": term}
        return {"podAntiAffinity": {strength: [term if strength == REQUIRED else weighted]}}

    one = world.place(make_pod("one", affinity=affinity(10**6)))
    before = world.work()
    feasible = world.decide().feasible
    many = [world.place(make_pod(f"c{i}", affinity=affinity(i))) for i in range(MANY)]
    assert world.decide().feasible == feasible
    assert world.work() <= before + 60
    questions = world.state.table.statistics()["pod_questions"]
    world.remove([one, *many])
    assert world.state.table.statistics() | {"carried_terms": 0, "pod_questions": questions} == (
        world.state.table.statistics()
    )


def test_pods_that_differ_in_what_no_term_mentions_are_matched_once(world: World) -> None:
    """As those of the next revision do."""
    world.place(make_pod("one", affinity=anti(pod_term(10**6, HOSTNAME))))
    before = world.work(labels={"app": "app-1", "revision": "0"})
    carriers(world, lambda i: HOSTNAME)
    world.decide(labels={"app": "app-1", "revision": "1"})
    assert world.calls(labels={"app": "app-1", "revision": "2"}) <= before + 60
    world.place(make_pod("c", affinity=anti(pod_term(0, HOSTNAME, matchLabels={"revision": "3"}))), "n1")
    assert world.decide(labels={"app": "app-1", "revision": "2"}).feasible == NODES - 1
    assert world.decide(labels={"app": "app-1", "revision": "3"}).feasible == NODES - 2


def test_one_more_term_beside_many_is_added_and_not_all_summed_up(world: World) -> None:
    carriers(world, lambda i: HOSTNAME)
    before = world.work()
    world.place(make_pod("c", affinity=anti(pod_term(10**6, HOSTNAME))), "n1")
    assert world.calls() <= before + MANY
    assert world.decide().feasible == NODES - 2


def test_terms_that_come_and_go_are_seen_by_pods_whose_labels_were_matched_before(world: World) -> None:
    probe, terms = parse_pod(make_pod("probe", labels={"app": "web"})), world.state.table.terms

    def found() -> list[str]:
        selectors = [carried.term.selector for carried in terms.matching(probe)]
        return sorted(selector.requirements[0].values[0] for selector in selectors if selector is not None)

    placed: dict[int, Pod] = {}
    for step in range(400):
        number = step * 7 % 50
        if number in placed:
            world.remove([placed.pop(number)])
        else:
            placed[number] = world.place(make_pod(f"c{number}", affinity=anti(pod_term(number, HOSTNAME))))
        if step % 3 == 0 or step > 350:
            assert found() == sorted(f"no-{one}" for one in placed)


def test_a_namespace_that_gets_labels_is_selected_by_terms_that_it_was_matched_with_before(world: World) -> None:
    term = {"labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}, "topologyKey": HOSTNAME}
    world.place(make_pod("c", namespace="elsewhere", affinity=anti(term)))
    assert world.decide().feasible == NODES
    namespace = make_object("Namespace", "default")
    namespace["metadata"]["labels"] = {"team": "a"}
    world.state.put("Namespace", "default", parse_namespace(namespace))
    assert world.decide().feasible == NODES - 1


# --- questions about other pods --------------------------------------------------------------------------------------


def test_questions_that_neither_a_label_nor_a_namespace_finds_are_few(world: World) -> None:
    """As many as have 256 requirements together, and the last one in any case."""
    for number in range(MANY):
        world.outcome(affinity=anti(pod_term(number, HOSTNAME)))
    assert 0 < world.state.table.statistics()["wide_questions"] <= 128
    for first in range(6):
        long = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(first, first + 60)]
        world.outcome(affinity=anti(pod_term(0, HOSTNAME, matchExpressions=long)))
    assert world.state.table.statistics()["wide_questions"] == 4


def test_questions_about_one_namespace_are_not_asked_of_pods_of_others(world: World) -> None:
    def term(number: int) -> Body:
        return {**pod_term(number, HOSTNAME), "namespaceSelector": None, "namespaces": ["flooding"]}

    def calls_of_an_event() -> int:
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        pod = parse_pod(make_pod("new", labels={"app": "new"}))
        sys.setprofile(count)
        try:
            world.state.table.add_pod(pod, "n0")
            world.state.table.remove_pod(pod.uid)
        finally:
            sys.setprofile(None)
        return calls

    before = calls_of_an_event()
    for number in range(MANY):
        world.decide(affinity=anti(term(number)))
    assert calls_of_an_event() <= before + 5


# --- host ports ------------------------------------------------------------------------------------------------------


def test_a_port_that_is_held_on_many_addresses_is_looked_up_once(world: World) -> None:
    ports = [{"hostPort": 80, "containerPort": 80, "hostIP": f"10.0.{i // 250}.{i % 250}"} for i in range(MANY)]
    before = world.work(ports=[80])
    held = world.place(make_pod("held", ports=ports), "n5")
    assert world.work(ports=[80]) <= before + 30
    assert world.decide(ports=[80]).feasible == NODES - 1
    assert world.decide(ports=[{"hostPort": 80, "containerPort": 80, "hostIP": "10.9.9.9"}]).feasible == NODES
    world.remove([held])
    assert world.decide(ports=[80]).feasible == NODES


# --- taints ----------------------------------------------------------------------------------------------------------


def test_many_taint_sets_are_judged_once_for_the_same_tolerations(world: World) -> None:
    def node(number: int, taints: list[tuple[str, str, str]]) -> Node:
        return parse_node(make_node(f"n{number}", labels={HOSTNAME: f"n{number}"}, taints=taints))

    for number in range(NODES, NODES + MANY):
        world.state.table.set_node(node(number, []))
    before = world.work()
    for number in range(NODES, NODES + MANY):
        world.state.table.set_node(node(number, [(f"t-{number}", "v", "PreferNoSchedule")]))
    tolerating = [{"key": f"t-{NODES}", "operator": "Exists"}]
    world.decide()
    world.label(0, changed="yes")
    assert world.calls() <= before + MANY // 2
    world.label(0)
    assert world.calls(tolerations=tolerating) <= before + MANY
    for number in range(NODES, NODES + MANY):
        world.state.table.set_node(node(number, []))
    assert world.state.table.statistics()["taint_sets"] == 1
