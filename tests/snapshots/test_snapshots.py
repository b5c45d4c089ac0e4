"""A snapshot has everything that decisions read, nothing else, and decides alike; also without names."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from berth.engine.pipeline import Pipeline
from berth.engine.plugin import Query
from berth.engine.state.state import State
from berth.engine.verdict import row_numbers
from berth.model import KIND, Pod, parse, parse_pod
from berth.policy import load_policy
from berth.policy.importing import import_configuration
from berth.snapshots.anonymising import anonymised
from berth.snapshots.files import BadSnapshot, read_file, render, write_file
from berth.snapshots.offline import OfflineCluster
from berth.snapshots.trimming import trimmed
from conformance.cases import some_of_each_theme
from engine.worlds import state_of
from mutated.samples import samples
from policy.builders import make_policy
from support.builders import make_node, make_object, make_pod

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
SECRET = "s3cret"


def full_pod() -> dict[str, Any]:
    """A pod as an API server has it, with much that no decision reads."""
    body = make_pod("web", cpu="1", labels={"app": "web"})
    body["metadata"] |= {"annotations": {"note": SECRET}, "managedFields": [{"manager": SECRET}]}
    container = body["spec"]["containers"][0]
    container |= {
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "command": [SECRET],
        "args": [SECRET],
        "volumeMounts": [{"name": "conf", "mountPath": SECRET}],
    }
    body["spec"] |= {
        "serviceAccountName": SECRET,
        "volumes": [
            {"name": "conf", "secret": {"secretName": SECRET}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    }
    body["status"] |= {"podIP": SECRET, "containerStatuses": [{"name": "main", "imageID": SECRET}]}
    return body


# --- what is in it ---------------------------------------------------------------------------------------------------


def read_by_decisions() -> list[dict[str, Any]]:
    return [body for body in samples(1, 1).values() if body["kind"] in KIND]


@pytest.mark.parametrize("body", read_by_decisions(), ids=lambda body: body["kind"])
def test_a_trimmed_object_is_the_same_to_decisions(body: dict[str, Any]) -> None:
    assert parse(body["kind"], trimmed(body)) == parse(body["kind"], body)


def test_all_objects_of_random_clusters_are_the_same_to_decisions() -> None:
    for vector in some_of_each_theme(4):
        for body in (*vector["objects"], vector["pod"]):
            assert parse(body["kind"], trimmed(body)) == parse(body["kind"], body)


def test_what_no_decision_reads_is_left_out() -> None:
    body = full_pod()
    assert SECRET in json.dumps(body)
    assert SECRET not in json.dumps(trimmed(body))
    assert parse_pod(trimmed(body)) == parse_pod(body)
    service = make_object("Service", "web", namespace="default", spec={"selector": {"a": "b"}, "clusterIP": SECRET})
    assert SECRET not in json.dumps(trimmed(service))
    nfs = {"nfs": {"server": SECRET}, "capacity": {"storage": "1Gi"}}
    volume = make_object("PersistentVolume", "pv", spec=nfs)
    assert SECRET not in json.dumps(trimmed(volume))
    assert parse("PersistentVolume", trimmed(volume)) == parse("PersistentVolume", volume)


def test_the_pods_of_a_deployment_are_trimmed_too() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": full_pod()["spec"]}
    body = make_object("Deployment", "web", namespace="default", spec={"replicas": 2, "template": template})
    said = trimmed(body)
    assert SECRET not in json.dumps(said)
    assert said["spec"]["replicas"] == 2


@pytest.mark.parametrize("body", [{"kind": "Pod"}, {"kind": "Pod", "metadata": 1, "spec": [], "status": "x"}])
def test_what_has_another_form_is_kept_as_it_is(body: dict[str, Any]) -> None:
    assert trimmed(body) == body


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["s.json", "s.yaml", "s.json.gz"])
def test_a_file_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    items = [make_node("n1"), make_pod("web"), make_policy("p")]
    path = str(tmp_path / name)
    write_file(path, render(items, NOW, as_yaml=name.endswith("yaml")))
    assert read_file(path) == items


def test_a_snapshot_says_when_it_was_taken() -> None:
    assert json.loads(render([], NOW))["metadata"] == {
        "annotations": {"berth.dev/snapshot-taken": "2026-07-01T12:00:00Z"}
    }


def test_lists_of_kubectl_are_read_and_their_items_get_their_kind(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: web}\n---\nkind: Node\nmetadata: {}\n")
    assert [item["kind"] for item in read_file(str(path))] == ["Pod", "Node"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "has no object in it"), ("[1, 2]", "holds something that is no object"), ("a: [", "is not YAML")],
)
def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(BadSnapshot, match=problem):
        read_file(str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSnapshot, match="cannot be read: No such file"):
        read_file(str(tmp_path / "nothing"))


def test_an_offline_cluster_has_nodes_pods_and_policies() -> None:
    policy = make_policy("calm", schedulerName="calm")
    job = make_object("Job", "j", namespace="default")
    without_uid = make_pod("by-hand")
    del without_uid["metadata"]["uid"]
    cluster = OfflineCluster([make_node("n1"), make_pod("web"), without_uid, policy, job])
    assert len(cluster.cache.state.table) == 1
    assert {pod.name for pod in cluster.cache.pending.values()} == {"web", "by-hand"}
    assert cluster.policies.serves("calm")


# --- without names ---------------------------------------------------------------------------------------------------


def judged(pod: Pod, state: State, pipeline: Pipeline) -> list[tuple[bool, int]]:
    """What is said of each node in the order of their names: whether it fits, and its total."""
    query = Query(pod, state.table)
    survey = pipeline.survey(query, state)
    rows = row_numbers(survey.rows)[survey.fits]
    ranking = pipeline.rank(query, state, rows) if len(rows) else None
    totals = {} if ranking is None else dict(zip(ranking.rows.tolist(), ranking.totals.tolist(), strict=True))
    return [(row in totals, totals.get(row, -1)) for row in state.table.rows_by_name.tolist()]


def test_decisions_are_the_same_without_names() -> None:
    for vector in some_of_each_theme(12):
        imported = import_configuration(vector["config"])
        manifest = dict(imported.manifests[0])
        pipeline = load_policy(manifest).pipeline
        bodies = [trimmed(body) for body in vector["objects"]]
        *objects, pod, _ = anonymised([*bodies, trimmed(vector["pod"]), manifest])
        before = judged(parse_pod(vector["pod"]), state_of(bodies), pipeline)
        assert judged(parse_pod(pod), state_of(objects), pipeline) == before, vector["id"]


def test_no_name_is_left_over() -> None:
    items = [
        make_node("acme-node", labels={"acme.com/team": "acme", "kubernetes.io/hostname": "acme-node"}),
        make_pod(
            "acme-web",
            namespace="acme",
            labels={"app": "acme-shop"},
            node="acme-node",
            image="registry.acme.com/shop:v1",
            node_selector={"acme.com/team": "acme"},
            uid="acme-uid",
            gates=[],
        ),
        make_object("Namespace", "acme", metadata={"labels": {"owner": "acme-corp"}}),
        make_object("Service", "acme-web", namespace="acme", spec={"selector": {"app": "acme-shop"}}),
    ]
    assert "acme" in json.dumps(items)
    said = anonymised(items)
    assert "acme" not in json.dumps(said)
    node, pod = said[0], said[1]
    assert pod["spec"]["nodeName"] == node["metadata"]["name"] == node["metadata"]["labels"]["kubernetes.io/hostname"]
    assert pod["spec"]["nodeSelector"].items() <= node["metadata"]["labels"].items()


def test_the_claim_of_an_ephemeral_volume_is_found_under_its_new_name() -> None:
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
    pod = make_pod("web", volumes=volumes)
    claim = make_object("PersistentVolumeClaim", "web-scratch", namespace="default", spec={})
    said_pod, said_claim = anonymised([pod, claim])
    (volume,) = parse_pod(said_pod).volumes
    assert volume.claim == said_claim["metadata"]["name"] != "web-scratch"


def test_what_policies_name_stays() -> None:
    policy = make_policy("p", podSelector={"matchLabels": {"team": "red"}})
    pod = make_pod("web", labels={"team": "red", "other": "blue"})
    *_, said = anonymised([policy, pod])
    assert said["metadata"]["labels"]["team"] == "red"
    assert "blue" not in said["metadata"]["labels"].values()


def test_every_kind_of_a_cluster_survives() -> None:
    for body in anonymised(map(trimmed, read_by_decisions())):
        parse(body["kind"], body)
