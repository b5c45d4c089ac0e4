"""Pods are placed one after another, as the scheduler would place them."""

from typing import Any

import pytest

from berth.whatif.entries import Cause
from berth.whatif.errors import CannotSimulate
from berth.whatif.placing import GATED
from policy.builders import make_policy
from support.builders import Body, make_node, make_pod
from whatif.clusters import (
    ask,
    budget,
    cluster,
    make_deployment,
    owned_pod,
    places,
    priority_class,
    replica_set,
    workload,
    zoned_node,
    zoned_nodes,
)

ONE_NODE = [make_node("n", cpu=2)]


class TestOrder:
    def test_each_pod_sees_those_that_were_placed_before_it(self) -> None:
        result = ask(cluster(zoned_nodes(cpu=1)), make_deployment("web", 3, cpu=1))
        assert sorted(places(result).values()) == ["a-0", "b-0", "c-0"]

    def test_higher_priority_goes_first_then_the_order_of_creation(self) -> None:
        objects = cluster(
            ONE_NODE, priority_class("high", 10), make_pod("first", cpu=1, created="2026-01-02T00:00:00Z")
        )
        high = make_deployment("high", 1, cpu=1, priorityClassName="high")
        result = ask(objects, make_deployment("low", 1, cpu=1), high)
        assert {each.workload.name: each.placed for each in result.workloads} == {"first": 1, "high": 1, "low": 0}

    def test_pods_that_are_pending_already_go_by_their_age_before_new_ones(self) -> None:
        older = make_pod("b", cpu=1, created="2026-01-01T00:00:00Z")
        newer = make_pod("a", cpu=2, created="2026-01-02T00:00:00Z")
        result = ask(cluster(ONE_NODE, newer, older), make_deployment("web", 1, cpu=1))
        assert places(result)["b"] == "n"
        assert places(result)["a"] == ""
        assert workload(result, "web").placed == 1

    def test_the_seed_decides_among_equal_nodes_and_the_same_seed_decides_the_same(self) -> None:
        nodes = zoned_nodes(4)
        found = {seed: places(ask(cluster(nodes), make_deployment("web", 6, cpu=1), seed=seed)) for seed in (1, 2, 3)}
        assert len({tuple(each.items()) for each in found.values()}) > 1
        assert places(ask(cluster(nodes), make_deployment("web", 6, cpu=1), seed=2)) == found[2]

    def test_a_pod_that_needs_another_one_beside_it_is_tried_again_when_that_is_placed(self) -> None:
        term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        web = make_deployment("web", 2, cpu=1, affinity=affinity)
        result = ask(cluster(zoned_nodes()), web, make_deployment("db", 1, cpu=1))
        [node] = workload(result, "db").after.nodes
        assert workload(result, "web").after.nodes == {node: 2}


class TestPending:
    def test_a_pod_without_a_node_has_the_sentence_of_kube_scheduler(self) -> None:
        result = ask(cluster(ONE_NODE), make_deployment("web", 3, cpu=1))
        [reason] = workload(result, "web").reasons
        assert reason.message == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )
        assert len(reason.pods) == 1
        assert not result.everything_fits

    def test_pods_like_one_that_failed_fail_alike_and_draw_the_same_from_the_random_stream(self) -> None:
        """The second and third are not judged again; the pods after them must get the nodes that they would get."""
        taken = [make_pod(f"there-{number}", node=f"small-{number}", cpu=1, priority=5) for number in range(3)]
        small = [make_node(f"small-{number}", cpu=3, labels={"only": "this"}) for number in range(3)]
        objects = [*zoned_nodes(3, labels={"only": "that"}), *small, *taken, priority_class("p", 5)]
        selector = {"nodeSelector": {"only": "this"}}
        big = make_deployment("big", 3, cpu=3, priorityClassName="p", **selector)
        web = make_deployment("web", 5, cpu=1, node_selector={"only": "that"})
        alike = ask(cluster(objects), big, web, seed=4)
        differing = [
            make_deployment(f"big-{number}", 1, cpu=3, memory=number, priorityClassName="p", **selector)
            for number in (1, 2, 3)
        ]
        unlike = ask(cluster(objects), *differing, web, seed=4)
        assert workload(alike, "web").after == workload(unlike, "web").after

    def test_a_gated_pod_stays_pending(self) -> None:
        result = ask(cluster(ONE_NODE), make_pod("gated", gates=["x"]))
        assert workload(result, "gated").reasons[0].message == GATED

    def test_a_scheduler_name_that_no_policy_has_is_said(self) -> None:
        result = ask(cluster(ONE_NODE), make_pod("x", scheduler="berth-typo"))
        assert "no SchedulingPolicy with schedulerName berth-typo" in workload(result, "x").reasons[0].message

    def test_pods_of_kube_scheduler_are_placed_by_its_default_profile_and_that_is_noted(self) -> None:
        result = ask(cluster(ONE_NODE), make_pod("x", scheduler="default-scheduler"))
        assert places(result) == {"x": "n"}
        assert any("default-scheduler" in note for note in result.notes)

    def test_what_was_pending_before_counts_only_if_nothing_else_is_asked(self) -> None:
        stuck = make_pod("stuck", cpu=9)
        assert not ask(cluster(ONE_NODE, stuck)).everything_fits
        assert ask(cluster(ONE_NODE, stuck), make_deployment("web", 1, cpu=1)).everything_fits

    def test_no_nodes_at_all(self) -> None:
        result = ask(cluster(make_pod("x")))
        assert workload(result, "x").reasons[0].message == "no nodes available to schedule pods"


class TestPreemption:
    def _full(self, **more: Any) -> list[Body]:
        return [*ONE_NODE, replica_set("low"), owned_pod("low", 0, "n", cpu=2, **more), priority_class("high", 100)]

    def test_victims_leave_and_their_controllers_create_new_pods(self) -> None:
        objects = cluster(self._full(), make_node("other", cpu=2, taints=[("x", "", "NoSchedule")]))
        tolerant = [{"key": "x", "operator": "Exists"}]
        result = ask(objects, make_deployment("high", 1, cpu=2, priorityClassName="high"))
        assert workload(result, "high").after.nodes == {"n": 1}
        [departure] = workload(result, "low").departures
        assert (departure.cause, departure.node, departure.pod.name) == (Cause.PREEMPTED, "n", "low-1-0")
        assert departure.by.startswith("default/high-")
        assert departure.successor is not None
        assert departure.successor.is_pending
        assert not departure.is_loss
        again = cluster(self._full(tolerations=tolerant), make_node("other", cpu=2, taints=[("x", "", "NoSchedule")]))
        result = ask(again, make_deployment("high", 1, cpu=2, priorityClassName="high"))
        assert workload(result, "low").after.nodes == {"other": 1}
        assert result.everything_fits

    def test_a_victim_without_a_controller_is_lost(self) -> None:
        objects = cluster(ONE_NODE, make_pod("alone", node="n", cpu=2), priority_class("high", 100))
        result = ask(objects, make_deployment("high", 1, cpu=2, priorityClassName="high"))
        assert workload(result, "alone").lost == 1

    def test_a_policy_may_forbid_it(self) -> None:
        objects = cluster(self._full(), make_policy("berth", preemption={"enabled": False}))
        result = ask(objects, make_deployment("high", 1, cpu=2, priorityClassName="high"))
        assert result.departures == []
        assert workload(result, "high").pending == 1

    def test_budgets_are_used_up_by_each_eviction(self) -> None:
        """Two nodes, one pod of a guarded workload on each, and a budget for one: the other node's victim is free."""
        nodes = [make_node("n", cpu=2), make_node("m", cpu=2), make_node("o", cpu=2)]
        guarded = [replica_set("low"), owned_pod("low", 0, "n", cpu=2), owned_pod("low", 1, "m", cpu=2)]
        free = make_pod("free", node="o", cpu=2)
        objects = cluster(nodes, guarded, free, budget("low", "low", 1), priority_class("high", 100))
        result = ask(objects, make_deployment("high", 2, cpu=2, priorityClassName="high"))
        assert sorted(departure.workload.name for departure in result.departures) == ["free", "low"]

    def test_a_pod_that_the_simulation_placed_may_be_preempted_too(self) -> None:
        """A pod that waits for another one beside it finds its room taken when that is there."""
        term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        high = make_deployment("high", 1, cpu=2, priorityClassName="high", affinity=affinity)
        objects = cluster(zoned_node("n", "a", cpu=3), priority_class("high", 100))
        db = make_deployment("db", 1, cpu=1, priorityClassName="high")
        result = ask(objects, high, make_deployment("web", 2, cpu=1), db)
        assert workload(result, "high").placed == 1
        assert workload(result, "web").placed == 0
        assert [departure.simulated for departure in workload(result, "web").departures] == [True, True]
        assert workload(result, "web").before.nodes == {}


MOST = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
PACK = make_policy(
    "pack",
    base="Empty",
    predicates=[{"name": "NodeResourcesFit"}],
    priorities=[{"name": "NodeResourcesFit", "args": MOST}],
)


class TestPolicies:
    def test_a_policy_replaces_the_one_of_its_name_or_is_added(self) -> None:
        web = make_deployment("web", 3, cpu=1)
        assert len(workload(ask(cluster(zoned_nodes()), web), "web").after.nodes) == 3
        packed = ask(cluster(zoned_nodes()), web, policies=[PACK])
        assert len(workload(packed, "web").after.nodes) == 1
        spread = {**PACK, "spec": {"schedulerName": "berth"}}
        assert len(workload(ask(cluster(zoned_nodes(), PACK), web, policies=[spread]), "web").after.nodes) == 3

    def test_one_in_a_manifest_counts_as_well(self) -> None:
        packed = ask(cluster(zoned_nodes()), make_deployment("web", 3, cpu=1), PACK)
        assert len(workload(packed, "web").after.nodes) == 1

    def test_an_invalid_one_is_refused_by_name_and_field(self) -> None:
        bad = make_policy("bad", priorities=[{"name": "Magic"}])
        with pytest.raises(CannotSimulate, match=r"SchedulingPolicy bad: is not valid: spec\.priorities\[0\]\.name"):
            ask(cluster(ONE_NODE), policies=[bad])

    def test_an_invalid_one_of_the_cluster_is_noted(self) -> None:
        result = ask(cluster(ONE_NODE, make_policy("bad", priorities=[{"name": "Magic"}])))
        assert any("SchedulingPolicy bad is not valid" in note for note in result.notes)

    def test_extenders_are_not_called_and_that_is_refused_unless_it_is_wanted(self) -> None:
        extended = make_policy("berth", extenders=[{"urlPrefix": "http://x", "filterVerb": "filter"}])
        with pytest.raises(CannotSimulate, match=r"SchedulingPolicy berth has extenders.*--ignore-extenders"):
            ask(cluster(ONE_NODE, extended), make_deployment("web"))
        result = ask(cluster(ONE_NODE, extended), make_deployment("web"), ignore_extenders=True)
        assert result.everything_fits
        assert "SchedulingPolicy berth: its extenders are not called" in result.notes
