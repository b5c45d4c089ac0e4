"""What the pipeline makes of its plugins' columns: the node, or the words why there is none."""

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from berth.engine.diagnosis import Diagnosis
from berth.engine.events import ANY, Event
from berth.engine.pipeline import Pipeline, Placement, TieBreak
from berth.engine.plugin import FilterPlugin, Query, ScorePlugin
from berth.engine.state.state import State
from berth.engine.verdict import Code, PreFilter
from berth.model import parse_node, parse_pod
from engine.expecting import as_diagnosis, as_placement, make_filter, make_score
from engine.worlds import state_of
from support.builders import Body, make_node, make_pod

DEFAULT_FILTERS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")


def pipeline(*scores: tuple[str, int], tie_break: TieBreak = TieBreak.FIRST) -> Pipeline:
    filters = [make_filter(name) for name in DEFAULT_FILTERS]
    return Pipeline(filters, [(make_score(name), weight) for name, weight in scores], tie_break)


def decide(nodes: Iterable[Body], pod: Body, made: Pipeline | None = None, seed: int = 0) -> Placement | Diagnosis:
    return (made or pipeline()).decide(parse_pod(pod), state_of(nodes), Random(seed))


def test_a_pod_without_any_node_waits_for_anything_to_happen() -> None:
    diagnosis = decide([], make_pod("p"))
    assert isinstance(diagnosis, Diagnosis)
    assert diagnosis.message == "no nodes available to schedule pods"
    assert diagnosis.retry_events == ANY


def test_each_node_is_counted_under_the_first_plugin_that_refused_it_and_reasons_are_sorted_as_text() -> None:
    nodes = [
        make_node("tainted-and-small", cpu="1", taints=[("a", "b", "NoSchedule")]),
        *(make_node(f"small{i}", cpu="1") for i in range(10)),
        make_node("cordoned", unschedulable=True),
        make_node("full", pods=0),
    ]
    diagnosis = decide(nodes, make_pod("p", cpu="2"))
    assert isinstance(diagnosis, Diagnosis)
    assert diagnosis.message == (
        "0/13 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable, 10 Insufficient cpu."
    )
    assert diagnosis.plugins == {"TaintToleration", "NodeUnschedulable", "NodeResourcesFit"}
    assert {Event.NODE_TAINTS, Event.POD_REMOVED, Event.NODE_ADDED} <= diagnosis.retry_events
    assert Event.NODE_LABELS not in diagnosis.retry_events


def test_a_node_that_is_short_of_two_resources_counts_for_both() -> None:
    diagnosis = as_diagnosis(decide([make_node("n", cpu="1", memory="1Gi")], make_pod("p", cpu="2", memory="2Gi")))
    assert diagnosis.message == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."


def test_nodes_that_the_pod_names_are_the_only_ones_looked_at_and_the_others_are_counted() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                ]
            }
        }
    }
    nodes = [make_node(f"n{i}", cpu="1") for i in range(3)]
    assert decide(nodes, make_pod("p", affinity=affinity)) == Placement("n1", 1, 1)
    assert as_diagnosis(decide(nodes, make_pod("p", cpu="2", affinity=affinity))).message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_a_pre_filter_that_refuses_speaks_for_all_nodes() -> None:
    class Never(FilterPlugin):
        name = "Never"
        retry_events = frozenset({Event.CLAIM})

        def pre_filter(self, query: Query, state: State) -> PreFilter:
            return PreFilter(code=Code.UNRESOLVABLE, reasons=("not today",))

    made = Pipeline([Never({}), make_filter("NodeResourcesFit")], [])
    diagnosis = decide([make_node("a"), make_node("b")], make_pod("p", cpu="100"), made)
    assert diagnosis == Diagnosis(
        "0/2 nodes are available: not today.", 2, frozenset({"Never"}), frozenset({Event.CLAIM})
    )


def test_a_single_feasible_node_is_taken_without_scoring() -> None:
    class Unasked(ScorePlugin):
        name = "Unasked"

        def pre_score(self, query: Query, state: State) -> bool:
            raise AssertionError("must not be asked")

    made = Pipeline([make_filter("NodeResourcesFit")], [(Unasked({}), 1)])
    assert decide([make_node("big"), make_node("small", cpu="1")], make_pod("p", cpu="2"), made) == Placement(
        "big", 2, 1
    )


def test_weights_decide_between_scores() -> None:
    nodes = [
        make_node("empty", cpu="8"),
        make_node("has-image", cpu="8", images={"app:1": 1_000_000_000}),
        make_pod("other", node="has-image", cpu="4"),
    ]
    pod = make_pod("p", cpu="1", image="app:1")
    assert as_placement(decide(nodes, pod, pipeline(("NodeResourcesFit", 100), ("ImageLocality", 1)))).node == "empty"
    assert (
        as_placement(decide(nodes, pod, pipeline(("NodeResourcesFit", 1), ("ImageLocality", 100)))).node == "has-image"
    )


def test_first_takes_the_first_by_name_whatever_the_order_of_arrival() -> None:
    assert as_placement(decide([make_node(n) for n in "cab"], make_pod("p"))).node == "a"


def test_round_robin_takes_its_turns_in_the_order_of_names() -> None:
    made, state = pipeline(tie_break=TieBreak.ROUND_ROBIN), state_of([make_node(n) for n in "cab"])
    taken = [as_placement(made.decide(parse_pod(make_pod(f"p{i}")), state, Random(0))).node for i in range(5)]
    assert taken == ["a", "b", "c", "a", "b"]


def test_random_is_fair_and_the_same_for_the_same_seed() -> None:
    made, state, pod = pipeline(tie_break=TieBreak.RANDOM), state_of([make_node(n) for n in "cab"]), make_pod("p")

    def draw(seed: int) -> list[str]:
        random = Random(seed)
        return [as_placement(made.decide(parse_pod(pod), state, random)).node for _ in range(300)]

    assert draw(7) == draw(7) != draw(8)
    assert min(Counter(draw(7)).values()) > 60
    assert decide([make_node(n) for n in "abc"], pod, made, 3) == decide([make_node(n) for n in "bca"], pod, made, 3)


@pytest.mark.parametrize("tie_break", TieBreak)
def test_only_nodes_that_share_the_highest_total_are_drawn_from(tie_break: TieBreak) -> None:
    made = pipeline(("NodeResourcesFit", 1), tie_break=tie_break)
    state = state_of([make_node("a", cpu="1"), make_node("b", cpu="64", memory="512Gi"), make_node("c", cpu="1")])
    assert {
        as_placement(made.decide(parse_pod(make_pod("p", cpu="500m")), state, Random(i))).node for i in range(20)
    } == {"b"}


def test_what_is_kept_for_a_signature_does_not_outlive_a_change_of_the_nodes() -> None:
    made, state, pod = pipeline(), state_of([make_node("a"), make_node("b")]), parse_pod(make_pod("p"))
    assert as_placement(made.decide(pod, state, Random(0))).node == "a"
    state.table.set_node(parse_node(make_node("a", taints=[("k", "v", "NoSchedule")])))
    assert as_placement(made.decide(pod, state, Random(0))).node == "b"
    state.table.remove_node("b")
    assert isinstance(made.decide(pod, state, Random(0)), Diagnosis)
    state.table.set_node(parse_node(make_node("c")))
    assert as_placement(made.decide(pod, state, Random(0))).node == "c"


def test_two_pods_of_one_signature_are_each_judged_on_the_room_that_is_left() -> None:
    made, state = pipeline(), state_of([make_node("a", cpu="1"), make_node("b", cpu="1")])
    first = parse_pod(make_pod("p1", cpu="600m"))
    assert as_placement(made.decide(first, state, Random(0))).node == "a"
    state.table.add_pod(first, "a")
    assert as_placement(made.decide(parse_pod(make_pod("p2", cpu="600m")), state, Random(0))).node == "b"
