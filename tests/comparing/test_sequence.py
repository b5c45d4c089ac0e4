"""Two policies place the pods of a cluster one after another, and pods of a workload that change alike are one row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.comparing import Comparison, DecisionChange
from berth.comparing.cluster import cluster_subjects
from berth.comparing.report import as_json, as_text
from berth.comparing.sequence import Side, compare_in_sequence, copied
from berth.policy import ActivePolicy, load_policy
from berth.whatif.cluster_objects import ClusterObjects
from policy.builders import make_policy
from support.builders import Body, make_node, make_pod
from whatif.clusters import cluster, owned_pod, replica_set

MOST = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
ONLY_FIT: Body = {"base": "Empty", "predicates": [{"name": "NodeResourcesFit"}]}


def spreading(**spec: Any) -> ActivePolicy:
    return load_policy(make_policy(**ONLY_FIT, priorities=[{"name": "NodeResourcesFit"}], **spec))


def packing(**spec: Any) -> ActivePolicy:
    return load_policy(make_policy(**ONLY_FIT, priorities=[{"name": "NodeResourcesFit", "args": MOST}], **spec))


def compared(objects: ClusterObjects, first: ActivePolicy, second: ActivePolicy, *, placed: bool = False) -> Comparison:
    subjects = cluster_subjects(objects, [first.policy], placed=placed)
    return compare_in_sequence(subjects, objects, first, second)


def nodes_of(comparison: Comparison, side: str) -> list[str]:
    outcomes = [each.first if side == "a" else each.second for each in comparison.differences]
    return [outcome.nodes[0] if outcome.nodes else "" for outcome in outcomes]


THREE = [make_node(name) for name in "abc"]


def test_each_pod_sees_those_that_its_policy_placed_before_it() -> None:
    found = compared(cluster(THREE, [make_pod(f"p{number}", cpu=1) for number in range(6)]), spreading(), packing())
    names = [each.name.removeprefix("default/") for each in found.differences]
    assert (names, nodes_of(found, "a"), nodes_of(found, "b")) == (["p1", "p2", "p5"], ["b", "c", "c"], ["a", "a", "b"])


def test_pods_go_in_the_order_of_the_queue() -> None:
    pods = [
        make_pod("young", cpu=4, created="2026-01-02T00:00:00Z"),
        make_pod("old", cpu=4, created="2026-01-01T00:00:00Z"),
        make_pod("important", cpu=4, priority=9, created="2026-01-03T00:00:00Z"),
    ]
    subjects = cluster_subjects(cluster(THREE, pods), [spreading().policy], placed=False)
    assert [subject.name for subject in subjects] == ["default/important", "default/old", "default/young"]


def test_a_tie_is_no_difference_and_leads_to_none() -> None:
    pods = [make_pod(f"p{number}", cpu=1) for number in range(12)]
    assert compared(cluster(THREE, pods), spreading(), spreading(tieBreak="First")).differences == []
    assert compared(cluster(THREE, pods), spreading(), spreading(percentageOfNodesToScore=50)).differences == []


def test_a_pod_that_finds_no_room_any_more_is_a_difference() -> None:
    pods = [make_pod("x", cpu=2), make_pod("y", cpu=2), make_pod("z", cpu=4)]
    found = compared(cluster(THREE[:2], pods), packing(), spreading())
    assert {each.name: each.change for each in found.differences} == {
        "default/y": DecisionChange.MOVED,
        "default/z": DecisionChange.LOST,
    }


def test_pods_that_have_a_node_are_taken_off_it_all_at_once() -> None:
    there = [make_pod(f"p{number}", node="a", cpu=1) for number in range(3)]
    found = compared(cluster(THREE, there), spreading(), packing(), placed=True)
    assert (found.compared, nodes_of(found, "a"), nodes_of(found, "b")) == (3, ["b", "c"], ["a", "a"])


def test_a_preemptor_takes_the_place_of_its_victims() -> None:
    """The first of two pods of high priority takes the only victim's place, and the second finds no other."""
    objects = cluster(
        make_node("a", cpu=2),
        make_pod("low", node="a", cpu=2, priority=1),
        make_pod("one", cpu=2, priority=9),
        make_pod("two", cpu=2, priority=9),
    )
    found = compared(objects, spreading(), spreading(preemption={"enabled": False}))
    [difference] = found.differences
    assert (difference.name, difference.change) == ("default/one", DecisionChange.PREEMPTION)


def test_pods_of_a_workload_are_one_row() -> None:
    pods = [owned_pod("web", f"{number:03}", cpu="10m") for number in range(539)]
    nodes = [make_node(name, pods=400) for name in "abc"]
    found = compared(cluster(nodes, replica_set("web"), pods), spreading(), packing())
    assert len(found.differences) > 300
    head, row, _, summary = as_text(found, "spread", "pack", colours=False).splitlines()
    assert head.split() == ["NAMESPACE", "WORKLOAD", "PODS", "CHANGE", "A:", "spread", "B:", "pack"]
    assert row.split()[:3] == ["default", "deployment/web", str(len(found.differences))]
    assert "other node" in row
    assert summary.endswith("other node")
    [group] = as_json(found, "a", "b")["workloads"]
    assert (group["kind"], group["name"], group["pods"]) == ("Deployment", "web", len(found.differences))
    assert sum(group["a"].values()) == group["pods"]


def test_reasons_of_a_workload_are_said_once() -> None:
    pods = [owned_pod("web", number, cpu=9) for number in range(5)]
    closed = make_node("a", unschedulable=True)
    found = compared(cluster(closed, pods), spreading(), load_policy(make_policy()))
    lines = as_text(found, "a", "b", colours=False).splitlines()
    assert [line.strip() for line in lines if line.startswith("  ")] == [
        "A: 0/1 nodes are available: 1 Insufficient cpu. (5 pods)",
        "B: 0/1 nodes are available: 1 node(s) were unschedulable. (5 pods)",
    ]


def test_a_copied_state_has_the_same_objects_and_is_another_one() -> None:
    objects = cluster(THREE, make_pod("x", node="a", cpu=1), make_pod("y", nominated="b"), replica_set("web"))
    state = objects.cache.state
    other = copied(state)
    assert {name: dict(other.table.pods_on(name)) for name in "abc"} == {
        name: dict(state.table.pods_on(name)) for name in "abc"
    }
    assert (other.objects, other.nominated) == (state.objects, state.nominated)
    other.table.remove_pod("pod-default-x")
    assert state.table.pods_on("a")


amounts = st.sampled_from([1, 2, 3])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.lists(st.tuples(amounts, st.integers(0, 2)), max_size=8))
def test_a_fast_choice_is_that_of_a_close_look(nodes: list[int], wanted: list[tuple[int, int]]) -> None:
    bodies: list[Body] = [make_node(f"n{place}", cpu=cpu) for place, cpu in enumerate(nodes)]
    bodies += [make_pod(f"p{place}", cpu=cpu, priority=rank) for place, (cpu, rank) in enumerate(wanted)]
    fast = compared(cluster(bodies), spreading(), packing())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Side, "decide", lambda side, pod: None)
        close = compared(cluster(bodies), spreading(), packing())
    assert fast == close
