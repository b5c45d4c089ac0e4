"""Extenders' answers, a search that ends early, and messages that count every refusal."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from berth.engine.diagnosis import Diagnosis
from berth.engine.extender_result import LEFT_OUT, ExtenderResult, Refusal
from berth.engine.pipeline import Pipeline, Placement, TieBreak
from berth.engine.verdict import Code
from berth.model import parse_pod
from engine.expecting import as_diagnosis, as_placement, make_filter, make_score
from engine.worlds import state_of
from support.builders import Body, make_node, make_pod

FILTERS = ("NodeUnschedulable", "TaintToleration", "NodeResourcesFit")
NODES = [make_node("a"), make_node("b"), make_node("c"), make_node("small", cpu="1m")]


def pipeline(scores: Sequence[tuple[str, int]] = (("NodeResourcesFit", 1),), **settings: Any) -> Pipeline:
    made = [(make_score(name), weight) for name, weight in scores]
    filters = [make_filter(name) for name in FILTERS]
    return Pipeline(filters, made, TieBreak.FIRST, **settings)


def decide(
    outside: ExtenderResult | None = None, nodes: Sequence[Body] = NODES, **settings: Any
) -> Placement | Diagnosis:
    return pipeline(**settings).decide(parse_pod(make_pod("p", cpu="1")), state_of(nodes), Random(0), outside)


def test_only_nodes_that_were_let_through_are_taken() -> None:
    assert decide(ExtenderResult(frozenset({"c"}))) == Placement("c", 4, 1)


def test_points_from_outside_are_added_to_the_totals() -> None:
    assert as_placement(decide(ExtenderResult(frozenset({"a", "b", "c"}), points={"b": 1}))).node == "b"
    assert as_placement(decide(ExtenderResult(frozenset({"a", "b", "c"}), points={"b": -1}))).node == "a"


def test_a_node_that_does_not_fit_any_more_is_not_taken_although_it_was_let_through() -> None:
    assert as_placement(decide(ExtenderResult(frozenset({"small", "b"}), points={"small": 1000}))).node == "b"


def test_a_node_that_has_gone_since_does_no_harm() -> None:
    assert (
        as_placement(
            decide(ExtenderResult(frozenset({"gone", "b"}), {"away": Refusal(Code.UNSCHEDULABLE, "no")}, {"gone": 7}))
        ).node
        == "b"
    )


def test_what_extenders_say_is_counted_after_what_the_filters_say() -> None:
    refused = {"a": Refusal(Code.UNSCHEDULABLE, "no licence"), "b": Refusal(Code.UNRESOLVABLE, "no licence")}
    diagnosis = decide(ExtenderResult(frozenset(), refused))
    assert isinstance(diagnosis, Diagnosis)
    assert diagnosis.message == f"0/4 nodes are available: 1 Insufficient cpu, 1 {LEFT_OUT}, 2 no licence."
    assert diagnosis.plugins == {"NodeResourcesFit", "Extenders"}


def test_a_message_that_counts_every_refusal_does_not_blame_extenders_for_nodes_they_were_not_asked_about() -> None:
    assert as_diagnosis(decide(ExtenderResult(frozenset()), check_all=True)).message == (
        f"0/4 nodes are available: 1 Insufficient cpu, 3 {LEFT_OUT}."
    )


def test_feasible_are_the_nodes_that_extenders_are_asked_about() -> None:
    made, pod = pipeline(), parse_pod(make_pod("p", cpu="1"))
    assert made.feasible(pod, state_of(NODES)) == ["a", "b", "c"]
    nowhere = made.feasible(parse_pod(make_pod("p", cpu="999")), state_of(NODES))
    assert isinstance(nowhere, Diagnosis)
    assert nowhere.message == "0/4 nodes are available: 4 Insufficient cpu."


def test_a_message_counts_a_node_under_every_plugin_that_refuses_it_if_asked_to() -> None:
    nodes = [make_node("n", cpu="1m", taints=[("a", "b", "NoSchedule")], unschedulable=True)]
    assert as_diagnosis(decide(nodes=nodes)).message == "0/1 nodes are available: 1 node(s) were unschedulable."
    assert as_diagnosis(decide(nodes=nodes, check_all=True)).message == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )


def taken(count: int, percentage: int, pods: int = 40) -> Counter[str]:
    """Where pods go that leave no trace, in a cluster of equal nodes."""
    state, made = state_of([make_node(f"n{i:03}") for i in range(count)]), pipeline((), node_percentage=percentage)
    pod = parse_pod(make_pod("p", cpu="1"))
    return Counter(as_placement(made.decide(pod, state, Random(0))).node for _ in range(pods))


def test_a_search_that_ends_early_goes_on_next_time_where_it_ended() -> None:
    assert taken(400, 50) == {"n000": 20, "n200": 20}
    assert taken(400, 25) == {"n000": 10, "n100": 10, "n200": 10, "n300": 10}


def test_at_least_a_hundred_nodes_are_looked_for() -> None:
    assert taken(400, 1) == taken(400, 25)
    assert taken(100, 1) == {"n000": 40}


def test_without_a_percentage_fewer_nodes_are_looked_for_the_larger_the_cluster() -> None:
    assert taken(1000, 0) == taken(1000, 42)


def test_a_search_that_ends_early_scores_only_what_it_found() -> None:
    nodes = [make_node(f"n{i:03}", cpu="8" if i else "64") for i in range(400)]
    made, state, pod = pipeline(node_percentage=50), state_of(nodes), parse_pod(make_pod("p", cpu="1"))
    assert made.decide(pod, state, Random(0)) == Placement("n000", 400, 200)
    assert as_placement(made.decide(pod, state, Random(0))).node == "n200"
