"""Workloads of manifests become the pods that their controllers would create; --scale changes how many there are."""

from typing import Any

import pytest

from berth.whatif.entries import Cause
from berth.whatif.errors import CannotSimulate
from support.builders import Body, make_node, make_pod
from whatif.clusters import (
    ask,
    cluster,
    make_cron_job,
    make_daemon_set,
    make_deployment,
    make_job,
    make_stateful_set,
    nodes_of,
    owned_pod,
    places,
    priority_class,
    replica_set,
    workload,
    zoned_node,
    zoned_nodes,
)

NODES = zoned_nodes(2)


def storage_class(name: str, mode: str = "WaitForFirstConsumer", **more: Any) -> Body:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, **more},
        "provisioner": "example.com/disks",
        "volumeBindingMode": mode,
    }


def claim_template(name: str, storage: str | None = "fast") -> Body:
    spec: Body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec | ({"storageClassName": storage} if storage else {})}


class TestKinds:
    @pytest.mark.parametrize(
        ("body", "pods"),
        [
            (make_pod("one"), 1),
            (make_deployment("web", 3), 3),
            ({**make_deployment("web", 2), "kind": "ReplicaSet"}, 2),
            (make_stateful_set("db", 2), 2),
            (make_daemon_set("agent"), 6),
            (make_job("once"), 1),
            (make_job("many", parallelism=4, completions=10), 4),
            (make_job("few", parallelism=4, completions=2), 2),
            (make_job("later", parallelism=4, suspend=True), 0),
            (make_cron_job("nightly", parallelism=2), 2),
        ],
        ids=lambda each: each["kind"] if isinstance(each, dict) else None,
    )
    def test_a_workload_has_as_many_pods_as_its_controller_would_create(self, body: Body, pods: int) -> None:
        result = ask(cluster(NODES), body)
        assert len(places(result)) == pods
        assert {each.workload.kind for each in result.workloads} == ({body["kind"]} if pods else set())

    def test_pods_of_a_deployment_have_the_hash_of_their_template(self) -> None:
        """So that constraints of one revision (matchLabelKeys) count its pods only."""
        spread = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": ["pod-template-hash"],
        }
        there = [make_pod(f"x-{number}", node="a-0", labels={"app": "web"}) for number in range(5)]
        result = ask(cluster(NODES, there), make_deployment("web", 3, topologySpreadConstraints=[spread]))
        assert workload(result, "web").after.zones == {"a": 1, "b": 1, "c": 1}

    def test_default_spreading_knows_the_new_controller(self) -> None:
        """The profile spreads the pods of a ReplicaSet over zones; without it they would all go to the big node."""
        nodes = [
            zoned_node("a-0", "a", cpu=64, memory="64Gi"),
            zoned_node("b-0", "b", cpu=8),
            zoned_node("c-0", "c", cpu=8),
        ]
        result = ask(cluster(nodes), make_deployment("web", 6, cpu="100m", memory="100Mi"))
        assert set(workload(result, "web").after.zones.values()) == {2}

    def test_a_daemon_set_has_a_pod_on_each_node_that_it_selects_and_tolerates(self) -> None:
        nodes = [
            make_node("plain", labels={"disk": "ssd"}),
            make_node("cordoned", labels={"disk": "ssd"}, unschedulable=True),
            make_node("tainted", labels={"disk": "ssd"}, taints=[("x", "", "NoSchedule")]),
            make_node("other", labels={"disk": "hdd"}),
            make_node("full", labels={"disk": "ssd"}, cpu=0),
        ]
        result = ask(cluster(nodes), make_daemon_set("agent", cpu=1, node_selector={"disk": "ssd"}))
        assert nodes_of(result, "agent") == {"cordoned": 1, "plain": 1}
        assert workload(result, "agent").pending == 1

    def test_a_pod_with_a_node_name_is_there_without_a_decision(self) -> None:
        pod = make_pod("fixed", cpu=100, nodeName="a-0")
        assert places(ask(cluster(NODES), pod)) == {"fixed": "a-0"}
        with pytest.raises(CannotSimulate, match=r'Pod default/fixed: spec.nodeName: there is no node "x"'):
            ask(cluster(NODES), make_pod("fixed", nodeName="x"))

    def test_pods_that_ask_for_the_same_are_one_row(self) -> None:
        pods = [make_pod(f"job-{number}", cpu=1) for number in range(5)]
        result = ask(cluster(NODES), *pods, make_pod("other", cpu=2))
        assert sorted((each.workload.name, each.placed) for each in result.workloads) == [("job-0", 5), ("other", 1)]

    def test_a_version_of_a_workload_takes_the_place_of_the_one_that_is_there(self) -> None:
        there = [replica_set("web"), *(owned_pod("web", number, "a-0", cpu=1) for number in range(4))]
        result = ask(cluster([make_node("a-0", cpu=4)], there), make_deployment("web", 2, cpu=2))
        assert nodes_of(result, "web") == {"a-0": 2}
        assert {departure.cause for departure in result.departures} == {Cause.REPLACED}
        assert any(
            "Deployment default/web is there already: 4 pods of it leave before" in note for note in result.notes
        )

    def test_a_pod_of_a_name_that_is_taken_is_refused(self) -> None:
        with pytest.raises(CannotSimulate, match="Pod default/x: there is such a pod already"):
            ask(cluster(NODES, make_pod("x", node="a-0")), make_pod("x"))
        with pytest.raises(CannotSimulate, match="Pod default/x: there is such a pod already"):
            ask(cluster(NODES), make_pod("x"), make_pod("x"))


class TestAdmission:
    def test_the_priority_is_that_of_the_class(self) -> None:
        objects = cluster(NODES, priority_class("low", -5, globalDefault=True))
        result = ask(
            objects, make_deployment("web", priorityClassName="high"), make_pod("x"), priority_class("high", 7)
        )
        assert sorted(entry.pod.priority for entry in result.entries) == [-5, 7]
        with pytest.raises(CannotSimulate, match="no PriorityClass with name none was found; add the class with -f"):
            ask(cluster(NODES), make_deployment("web", priorityClassName="none"))

    def test_limits_are_requests_where_nothing_is_requested(self) -> None:
        pod = make_pod("x")
        pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "3"}}
        [entry] = ask(cluster(NODES), pod).entries
        assert entry.pod.requests == {"cpu": 3000}

    def test_limit_ranges_of_the_namespace_give_defaults(self) -> None:
        limit = {"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"memory": "1Gi"}}
        ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"}}
        [entry] = ask(cluster(NODES, {**ranges, "spec": {"limits": [limit]}}), make_pod("x", memory="1Mi")).entries
        assert entry.pod.requests == {"cpu": 2000, "memory": 2**20}

    def test_a_runtime_class_adds_overhead_and_a_selector(self) -> None:
        runtime = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "sandboxed"},
            "handler": "x",
            "overhead": {"podFixed": {"cpu": "1"}},
            "scheduling": {"nodeSelector": {"kubernetes.io/hostname": "b-1"}},
        }
        result = ask(cluster(NODES, runtime), make_pod("x", cpu=1, runtimeClassName="sandboxed"))
        assert places(result) == {"x": "b-1"}
        assert result.entries[0].pod.requests == {"cpu": 2000}
        with pytest.raises(CannotSimulate, match=r'spec.runtimeClassName: there is no RuntimeClass "x"'):
            ask(cluster(NODES), make_pod("x", runtimeClassName="x"))

    def test_what_the_api_server_refuses_is_refused_in_its_words(self) -> None:
        wrong = make_deployment("web")
        wrong["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        with pytest.raises(CannotSimulate, match=r"Deployment default/web: .*`selector` does not match template"):
            ask(cluster(NODES), wrong)
        with pytest.raises(CannotSimulate, match="quantities must match"):
            ask(cluster(NODES), make_deployment("web", cpu="much"))

    def test_a_namespace_that_is_not_there_is_refused_unless_no_namespace_is_known(self) -> None:
        body = make_deployment("web")
        body["metadata"]["namespace"] = "shop"
        assert ask(cluster(NODES), body).everything_fits
        default = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        with pytest.raises(CannotSimulate, match=r'metadata.namespace: there is no namespace "shop"'):
            ask(cluster(NODES, default), body)
        shop = {**default, "metadata": {"name": "shop"}}
        assert ask(cluster(NODES, default), shop, body).everything_fits


class TestClaims:
    def test_a_stateful_set_gets_its_claims_and_each_reserves_a_volume(self) -> None:
        objects = cluster(NODES, storage_class("fast"))
        result = ask(objects, make_stateful_set("db", 2, claims=[claim_template("data")]))
        assert places(result).keys() == {"db-0", "db-1"}
        assert result.everything_fits
        claims = objects.cache.state.objects["PersistentVolumeClaim"]
        assert claims.keys() == {"default/data-db-0", "default/data-db-1"}
        plans = objects.cache.state.volumes.reservations.plans.values()
        assert sorted(plan.provisions[0].name for plan in plans) == ["data-db-0", "data-db-1"]

    def test_the_default_class_is_used_and_without_one_the_claim_is_refused(self) -> None:
        default = storage_class("slow", annotations={"storageclass.kubernetes.io/is-default-class": "true"})
        default["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        body = make_stateful_set("db", 1, claims=[claim_template("data", None)])
        assert ask(cluster(NODES, default), body).everything_fits
        with pytest.raises(CannotSimulate, match=r"StatefulSet default/db: spec.volumeClaimTemplates\[data\]: has no"):
            ask(cluster(NODES), body)

    def test_a_class_that_binds_at_once_cannot_be_judged(self) -> None:
        body = make_stateful_set("db", 1, claims=[claim_template("data")])
        with pytest.raises(CannotSimulate, match='StorageClass "fast" binds at once'):
            ask(cluster(NODES, storage_class("fast", "Immediate")), body)

    def test_a_pod_that_moves_gets_a_new_claim_for_its_ephemeral_volume(self) -> None:
        ephemeral = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_template("x")["spec"]}}}
        deployment = make_deployment("web", 2, volumes=[ephemeral])
        objects = cluster(NODES, storage_class("fast"))
        assert ask(objects, deployment).everything_fits
        [claim] = [
            claim
            for claim in objects.cache.state.objects["PersistentVolumeClaim"].values()
            if claim.name.endswith("00000-scratch")
        ]
        assert claim.controller_uid.startswith("simulated-")
        old = owned_pod("web", 0, "a-0", volumes=[ephemeral])
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "web-1-0", "uid": "pod-default-web-1-0", "controller": True}
        there = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "web-1-0-scratch", "namespace": "default", "ownerReferences": [owner]},
            "spec": claim_template("x")["spec"],
        }
        result = ask(cluster(NODES, storage_class("fast"), there, replica_set("web"), old), drains=["a-0"])
        assert result.everything_fits


class TestScale:
    def there(self, count: int, **more: Any) -> list[Body]:
        names = [f"{zone}-{number}" for zone in "abc" for number in range(2)]
        return [
            replica_set("web"),
            *(
                owned_pod("web", place, names[place % len(names)], created=f"2026-01-01T00:00:{place:02}Z", **more)
                for place in range(count)
            ),
        ]

    def test_more_pods_are_like_the_newest_one(self) -> None:
        result = ask(cluster(NODES, self.there(2, cpu=2)), scale={"web": 5})
        assert workload(result, "web").after.nodes.total() == 5
        assert {entry.pod.requests["cpu"] for entry in result.entries} == {2000}
        assert {entry.pod.labels["app"] for entry in result.entries} == {"web"}

    def test_fewer_pods_are_those_that_share_a_node_then_the_newest(self) -> None:
        result = ask(cluster(NODES, self.there(8)), scale={"web": 5})
        assert [departure.pod.name for departure in result.departures] == ["web-1-7", "web-1-6", "web-1-5"]
        assert {departure.cause for departure in result.departures} == {Cause.SCALED_DOWN}
        assert sum(each.lost for each in result.workloads) == 0

    def test_pods_without_a_node_go_first(self) -> None:
        waiting = owned_pod("web", "waiting", cpu=100)
        result = ask(cluster(NODES, self.there(3), waiting), scale={"web": 3})
        assert result.departures == []
        assert places(result) == {}

    def test_a_stateful_set_loses_its_highest_numbers_and_gains_the_next(self) -> None:
        body = make_stateful_set("db", 3)
        there = [owned_pod("db", number, "a-0", kind="StatefulSet") for number in range(3)]
        less = ask(cluster(NODES, there, body), scale={"StatefulSet/db": 1})
        assert [departure.pod.name for departure in less.departures] == ["db-2", "db-1"]
        more = ask(cluster(NODES, there, body), scale={"StatefulSet/db": 5})
        assert places(more).keys() == {"db-3", "db-4"}

    def test_a_workload_without_pods_is_made_from_its_template(self) -> None:
        result = ask(cluster(NODES, make_deployment("web", 0)), scale={"web": 2})
        assert workload(result, "web").placed == 2

    def test_what_a_manifest_brings_can_be_scaled(self) -> None:
        assert len(places(ask(cluster(NODES), make_deployment("web", 1), scale={"web": 4}))) == 4

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("none", "Deployment default/none has no pods and is not in the input: give it with -f"),
            ("ReplicaSet/web-1", "ReplicaSet default/web-1 is managed by Deployment default/web: scale that"),
            ("StatefulSet/db", "StatefulSet default/db is not in the input, so its claims are not known"),
        ],
    )
    def test_what_cannot_be_scaled_is_said(self, name: str, words: str) -> None:
        objects = cluster(NODES, self.there(1), owned_pod("db", 0, "a-0", kind="StatefulSet"))
        with pytest.raises(CannotSimulate) as refusal:
            ask(objects, scale={name: 3})
        assert f"--scale: {words}" in str(refusal.value)


class TestManifests:
    def test_a_kind_whose_pods_are_not_known_is_refused(self) -> None:
        rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web"}}
        with pytest.raises(CannotSimulate, match=r"Rollout.argoproj.io default/web: cannot be judged.*give its pods"):
            ask(cluster(NODES), rollout)
        service = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "web"}}
        with pytest.raises(CannotSimulate, match=r"Service.serving.knative.dev default/web: cannot be judged"):
            ask(cluster(NODES), service)

    def test_kinds_without_effect_are_named_and_left_out(self) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        result = ask(cluster(NODES, {**secret, "kind": "ConfigMap"}), secret, make_pod("x"))
        assert "these objects have no effect on where pods go: 1 ConfigMap, 1 Secret" in result.notes

    def test_other_objects_are_applied(self) -> None:
        result = ask(cluster(), make_node("n"), make_pod("x"))
        assert places(result) == {"x": "n"}

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ({"metadata": {"name": "x"}}, "x: apiVersion and kind are required"),
            ({"apiVersion": "v1", "kind": "Pod"}, "Pod ?: metadata.name is required"),
            (make_node("n", cpu="much"), "Node n"),
        ],
    )
    def test_what_is_no_object_is_refused(self, body: Body, words: str) -> None:
        with pytest.raises(CannotSimulate) as refusal:
            ask(cluster(NODES), body)
        assert words in str(refusal.value)

    def test_a_deployment_of_the_input_without_pods_is_noted(self) -> None:
        result = ask(cluster(NODES, make_deployment("web", 2)))
        assert any("Deployment default/web of the input has no pods there" in note for note in result.notes)
        assert places(result) == {}

    def test_an_invalid_object_of_the_input_is_noted(self) -> None:
        objects = cluster(NODES)
        objects.take(make_node("bad", cpu="much"))
        assert any(note.startswith("Node bad: status.allocatable") for note in ask(objects).notes)
        for number in range(9):
            objects.take(make_node(f"bad-{number}", cpu="much"))
        notes = [note for note in ask(objects).notes if "left out" in note]
        assert (len(notes), notes[-1]) == (6, "5 more objects are invalid, and are left out")
