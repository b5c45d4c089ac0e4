"""Nodes that are drained, fail or come."""

import pytest

from berth.whatif.entries import Cause
from berth.whatif.errors import CannotSimulate
from support.builders import Body, make_node, make_pod
from whatif.clusters import (
    ask,
    budget,
    cluster,
    make_deployment,
    nodes_of,
    owned_pod,
    places,
    replica_set,
    workload,
    zoned_node,
    zoned_nodes,
)


def three_on(node: str, app: str = "web") -> list[Body]:
    return [replica_set(app), *(owned_pod(app, number, node, cpu=1) for number in range(3))]


class TestDrain:
    def test_pods_move_to_other_nodes_and_none_comes_to_the_drained_one(self) -> None:
        result = ask(cluster(zoned_nodes(), three_on("a-0")), make_deployment("new", 5, cpu=1), drains=["a-0"])
        assert nodes_of(result, "web").keys() <= {"b-0", "c-0"}
        assert nodes_of(result, "new").keys() <= {"b-0", "c-0"}
        assert [departure.cause for departure in workload(result, "web").departures] == [Cause.DRAINED] * 3
        assert workload(result, "web").before.nodes == {"a-0": 3}

    def test_pods_that_belong_to_the_node_stay(self) -> None:
        daemon = owned_pod("agent", "x", "a-0", kind="DaemonSet")
        static = owned_pod("a-0", "proxy", "a-0", kind="Node")
        result = ask(cluster(zoned_nodes(), daemon, static), drains=["a-0"])
        assert result.departures == []

    def test_a_pod_without_a_controller_is_lost_and_a_terminating_one_is_not_created_again(self) -> None:
        alone, ending = make_pod("alone", node="a-0"), owned_pod("web", 1, "a-0", deleting=True)
        result = ask(cluster(zoned_nodes(), alone, ending), drains=["a-0"])
        assert workload(result, "alone").lost == 1
        assert places(result) == {}
        assert sum(each.lost for each in result.workloads) == 1

    def test_a_stateful_pod_keeps_its_name(self) -> None:
        result = ask(cluster(zoned_nodes(), owned_pod("db", 0, "a-0", kind="StatefulSet")), drains=["a-0"])
        assert places(result).keys() == {"db-0"}
        assert places(result)["db-0"] in ("b-0", "c-0")

    def test_a_selector_drains_all_nodes_that_it_matches(self) -> None:
        nodes = [zoned_node("old-1", "a", labels={"pool": "old"}), zoned_node("old-2", "b", labels={"pool": "old"})]
        objects = cluster(nodes, make_node("new"), three_on("old-1"), three_on("old-2", "api"))
        result = ask(objects, drains=["pool in (old)"])
        assert nodes_of(result, "web") == nodes_of(result, "api") == {"new": 3} or not result.everything_fits
        assert result.steps == ["2 nodes drained: old-1, old-2"]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("a-1", 'there is no node "a-1"; did you mean a-0'),
            ("pool=none", 'no node has labels that match "pool=none"'),
            ("pool=(", '"pool=(" is no label selector'),
        ],
    )
    def test_what_means_no_node_is_said(self, text: str, words: str) -> None:
        with pytest.raises(CannotSimulate) as refusal:
            ask(cluster(zoned_nodes()), drains=[text])
        assert f"--drain: {words}" in str(refusal.value)

    def test_a_budget_holds_pods_back_until_new_ones_have_a_node(self) -> None:
        objects = cluster(zoned_nodes(), three_on("a-0"), budget("web", "web", 1))
        result = ask(objects, drains=["a-0"])
        assert result.blocked == []
        assert result.everything_fits
        assert "a-0" not in nodes_of(result, "web")

    def test_a_budget_blocks_the_drain_if_new_pods_find_no_node(self) -> None:
        nodes = [zoned_node("a-0", "a"), zoned_node("b-0", "b", cpu=1)]
        result = ask(cluster(nodes, three_on("a-0"), budget("web", "web", 1)), drains=["a-0"])
        assert nodes_of(result, "web") == {"a-0": 1, "b-0": 1}
        assert [(blocked.pod, blocked.node) for blocked in result.blocked] == [("default/web-1-2", "a-0")]
        assert result.blocked[0].message == "the disruption budget web does not allow it"
        assert workload(result, "web").pending == 1
        assert not result.everything_fits

    def test_a_pod_with_two_budgets_cannot_be_evicted(self) -> None:
        objects = cluster(zoned_nodes(), three_on("a-0"), budget("one", "web", 9), budget("two", "web", 9))
        result = ask(objects, drains=["a-0"])
        assert len(result.blocked) == 3
        assert "more than one PodDisruptionBudget" in result.blocked[0].message

    def test_drained_nodes_do_not_count_in_the_utilisation_afterwards(self) -> None:
        result = ask(cluster(zoned_nodes(), three_on("a-0")), drains=["a-0"])
        assert (result.before.total.nodes, result.after.total.nodes) == (3, 2)
        assert [node.name for node in result.after.nodes if node.cordoned] == ["a-0"]


class TestFailedZones:
    def test_nodes_and_pods_are_gone_and_controllers_create_new_pods(self) -> None:
        daemon = owned_pod("agent", "x", "a-0", kind="DaemonSet")
        result = ask(cluster(zoned_nodes(), three_on("a-0"), daemon), failed_zones=["a"])
        assert nodes_of(result, "web").keys() <= {"b-0", "c-0"}
        assert workload(result, "web").before.zones == {"a": 3, "b": 0, "c": 0}
        assert workload(result, "web").after.zones.keys() == {"b", "c"}
        assert sum(each.lost for each in result.workloads) == 0
        assert result.after.total.nodes == 2

    def test_budgets_count_what_was_lost(self) -> None:
        """Nothing is evicted here, but afterwards the budget allows no disruption more."""
        nodes = [zoned_node("a-0", "a"), zoned_node("b-0", "b", cpu=3), zoned_node("c-0", "c", cpu=0)]
        pods = [replica_set("web"), owned_pod("web", 0, "a-0", cpu=1), owned_pod("web", 1, "b-0", cpu=3)]
        result = ask(cluster(nodes, pods, budget("web", "web", 1)), failed_zones=["a"], drains=["b-0"])
        assert [blocked.pod for blocked in result.blocked] == ["default/web-1-1"]

    def test_an_unknown_zone_is_said_with_those_that_there_are(self) -> None:
        with pytest.raises(CannotSimulate, match='--fail-zone: no node is in zone "d"; there is a, b, c'):
            ask(cluster(zoned_nodes()), failed_zones=["d"])
        with pytest.raises(CannotSimulate, match="no node has a label for its zone"):
            ask(cluster(make_node("n")), failed_zones=["d"])

    def test_a_volume_of_the_zone_keeps_its_pod_pending(self) -> None:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data",
                "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]},
            "status": {"phase": "Bound"},
        }
        term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "csi": {"driver": "d", "volumeHandle": "h"},
                "claimRef": {"namespace": "default", "name": "data", "uid": "PersistentVolumeClaim/default/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
            "status": {"phase": "Bound"},
        }
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        pod = owned_pod("db", 0, "a-0", kind="StatefulSet", volumes=volumes)
        result = ask(cluster(zoned_nodes(), claim, volume, pod), failed_zones=["a"])
        assert "node(s) didn't match PersistentVolume's node affinity" in workload(result, "db").reasons[0].message


class TestAddedNodes:
    def test_new_nodes_are_like_the_other_and_have_the_pods_that_belong_to_a_node(self) -> None:
        node = zoned_node("a-0", "a", cpu=4, unschedulable=True, taints=[("node.kubernetes.io/x", "", "NoSchedule")])
        daemon = owned_pod("agent", "x", "a-0", kind="DaemonSet", cpu=1)
        other = owned_pod("web", 0, "a-0", cpu=2)
        result = ask(cluster(node, daemon, other), make_deployment("new", 4, cpu=2), add={"a-0": 3})
        assert nodes_of(result, "new") == {"a-0-new-1": 1, "a-0-new-2": 1, "a-0-new-3": 1}
        assert workload(result, "new").pending == 1
        assert (result.before.total.nodes, result.after.total.nodes) == (0, 3)
        assert result.steps == ["3 nodes like a-0 added"]

    def test_taints_that_its_owner_gave_it_are_copied(self) -> None:
        node = make_node("n", taints=[("dedicated", "x", "NoSchedule")])
        assert ask(cluster(node), make_deployment("new", 1), add={"n": 1}).everything_fits is False

    def test_they_help_pods_that_are_pending(self) -> None:
        result = ask(cluster(make_node("n", cpu=1), make_pod("waiting", cpu=1), make_pod("too", cpu=1)), add={"n": 1})
        assert result.everything_fits

    def test_a_node_that_is_not_there_is_said(self) -> None:
        with pytest.raises(CannotSimulate, match='--add-nodes: like: there is no node "x"'):
            ask(cluster(make_node("n")), add={"x": 1})

    def test_new_nodes_of_a_zone_that_fails_fail_with_it(self) -> None:
        result = ask(cluster(zoned_nodes()), make_deployment("web", 2, cpu=4), add={"a-0": 2}, failed_zones=["a"])
        assert nodes_of(result, "web") == {"b-0": 1, "c-0": 1}
        assert result.after.total.nodes == 2
