"""Objects by name: made, read, replaced, patched, deleted, and the words of refusals."""

from __future__ import annotations

from typing import Any

from contract.asking import plain, refused
from control_plane.client import Client
from support.builders import make_node, make_pod

PODS = "/api/v1/namespaces/default/pods"
POD = f"{PODS}/web"
NODE = "/api/v1/nodes/n1"


async def test_what_is_made_has_an_identity_a_version_and_a_date(api: Client) -> None:
    made = await api.create(plain(make_pod("web", cpu="1", labels={"app": "web"})))
    metadata = made["metadata"]
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert await api.get(POD) == made


async def test_a_new_pod_is_pending_and_has_the_defaults_that_we_read(api: Client) -> None:
    made = await api.create(plain(make_pod("web", cpu="1")))
    assert made["status"]["phase"] == "Pending"
    assert made["status"]["qosClass"] == "Burstable"
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["spec"]["schedulerName"] == "berth"
    assert "nodeName" not in made["spec"]


async def test_a_name_is_taken_once(api: Client) -> None:
    await api.create(plain(make_pod("web")))
    assert await refused(api, 409, "POST", PODS, plain(make_pod("web"))) == 'pods "web" already exists'


async def test_a_generated_name_begins_as_asked(api: Client) -> None:
    body = plain(make_pod("web"))
    body["metadata"] = {"generateName": "web-", "namespace": "default"}
    names = {(await api.request("POST", PODS, body))["metadata"]["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_what_is_not_there_is_not_found_by_name(api: Client) -> None:
    assert await refused(api, 404, "GET", POD) == 'pods "web" not found'
    assert await refused(api, 404, "DELETE", NODE) == 'nodes "n1" not found'
    missing = "/apis/apps/v1/namespaces/default/replicasets/web"
    assert await refused(api, 404, "GET", missing) == 'replicasets.apps "web" not found'
    for unknown in ("/apis/apps/v1/things", "/apis/apps/v9", "/api/v9", "/api/v9/pods", "/api/v1/pods/web"):
        said = await refused(api, 404, "GET", unknown)
        assert said == "the server could not find the requested resource", unknown
    for nowhere in ("/apis/nobody.test/v1/things", "/apis/nobody.test/v1", "/apis/nobody.test"):
        assert await refused(api, 404, "GET", nowhere) == "404 page not found\n"


async def test_nothing_is_made_in_a_namespace_that_is_not_there(api: Client) -> None:
    path = "/api/v1/namespaces/nowhere/pods"
    assert await refused(api, 404, "POST", path, plain(make_pod("web", namespace="nowhere"))) == (
        'namespaces "nowhere" not found'
    )


async def test_a_write_to_an_older_version_is_a_conflict(api: Client) -> None:
    old = await api.create(plain(make_node("n1")))
    await api.patch(NODE, {"metadata": {"labels": {"a": "1"}}})
    assert await refused(api, 409, "PUT", NODE, old) == (
        'Operation cannot be fulfilled on nodes "n1": the object has been modified; please apply your changes to the '
        "latest version and try again"
    )


async def test_a_replaced_object_keeps_its_identity_and_a_write_that_changes_nothing_keeps_the_version(
    api: Client,
) -> None:
    made = await api.create(plain(make_node("n1")))
    changed = {**made, "metadata": {**made["metadata"], "labels": {"a": "1"}}}
    after = await api.request("PUT", NODE, changed)
    assert after["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(after["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    again = await api.request("PUT", NODE, after)
    assert again["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


async def test_a_merge_patch_removes_what_is_null(api: Client) -> None:
    await api.create(plain(make_pod("web", labels={"a": "1", "b": "2"})))
    after = await api.patch(POD, {"metadata": {"labels": {"a": None, "c": "3"}}})
    assert after["metadata"]["labels"] == {"b": "2", "c": "3"}


async def test_a_json_patch_tests_and_changes_and_a_failed_test_changes_nothing(api: Client) -> None:
    await api.create(plain(make_pod("web", labels={"a": "1"})))
    patch: Any = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "replace", "path": "/metadata/labels/a", "value": "2"},
    ]
    content_type = "application/json-patch+json"
    after = await api.request("PATCH", POD, patch, content_type=content_type)
    assert after["metadata"]["labels"] == {"a": "2"}
    await refused(api, 422, "PATCH", POD, patch, content_type=content_type)
    assert (await api.get(POD))["metadata"]["labels"] == {"a": "2"}


async def test_a_strategic_patch_of_conditions_goes_by_type(api: Client) -> None:
    await api.create(plain(make_pod("web")))
    for kind, reason in (("PodScheduled", "Unschedulable"), ("Ready", "No"), ("PodScheduled", "SchedulerError")):
        patch = {"status": {"conditions": [{"type": kind, "status": "False", "reason": reason}]}}
        after = await api.request(
            "PATCH", f"{POD}/status", patch, content_type="application/strategic-merge-patch+json"
        )
    reasons = {one["type"]: one["reason"] for one in after["status"]["conditions"]}
    assert reasons == {"PodScheduled": "SchedulerError", "Ready": "No"}


async def test_a_patch_with_another_uid_is_refused(api: Client) -> None:
    await api.create(plain(make_pod("web")))
    patch = {"metadata": {"uid": "another"}, "status": {"phase": "Failed"}}
    said = await refused(
        api, 422, "PATCH", f"{POD}/status", patch, content_type="application/strategic-merge-patch+json"
    )
    assert said == 'Pod "web" is invalid: metadata.uid: Invalid value: "another": field is immutable'


async def test_status_and_the_rest_are_written_apart(api: Client) -> None:
    await api.create(plain(make_node("n1", cpu="4")))
    await api.patch(NODE, {"metadata": {"labels": {"a": "1"}}, "status": {"allocatable": {"cpu": "8"}}})
    body = await api.get(NODE)
    assert (body["metadata"]["labels"].get("a"), body["status"]["allocatable"]["cpu"]) == ("1", "4")
    await api.patch(f"{NODE}/status", {"status": {"allocatable": {"cpu": "8"}}, "spec": {"unschedulable": True}})
    body = await api.get(NODE)
    assert (body["status"]["allocatable"]["cpu"], body["spec"].get("unschedulable")) == ("8", None)


async def test_a_dry_run_leaves_nothing_behind(api: Client) -> None:
    await api.request("POST", PODS, plain(make_pod("web")), parameters={"dryRun": "All"})
    assert not await api.exists(POD)


async def test_a_pod_that_is_not_bound_goes_at_once(api: Client) -> None:
    await api.create(plain(make_pod("web")))
    answer = await api.request("DELETE", POD)
    assert (answer["kind"], answer["metadata"]["name"]) == ("Pod", "web")
    assert not await api.exists(POD)


async def test_a_bound_pod_is_marked_and_stays_until_it_is_deleted_without_grace(api: Client) -> None:
    await api.create(plain(make_node("n1")))
    await api.create(plain(make_pod("web", node="n1")))
    answer = await api.request("DELETE", POD)
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await api.get(POD))["metadata"]["deletionTimestamp"].endswith("Z")
    await api.delete(POD, grace_period_seconds=0)
    assert not await api.exists(POD)


async def test_a_delete_for_another_uid_is_a_conflict(api: Client) -> None:
    await api.create(plain(make_pod("web")))
    said = await refused(api, 409, "DELETE", POD, {"preconditions": {"uid": "another"}})
    assert said.startswith(
        'Operation cannot be fulfilled on Pod "web": the UID in the precondition (another) does not '
    )
    assert await api.exists(POD)


async def test_a_finalizer_holds_an_object_until_it_is_taken_away(api: Client) -> None:
    body = plain(make_node("n1"))
    body["metadata"]["finalizers"] = ["example.test/hold"]
    await api.create(body)
    await api.request("DELETE", NODE)
    assert "deletionTimestamp" in (await api.get(NODE))["metadata"]
    await api.patch(NODE, {"metadata": {"finalizers": None}})
    assert not await api.exists(NODE)


async def test_a_deleted_node_is_answered_by_a_status_with_its_uid(api: Client) -> None:
    made = await api.create(plain(make_node("n1")))
    answer = await api.request("DELETE", NODE)
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "n1", "kind": "nodes", "uid": made["metadata"]["uid"]}


async def test_a_collection_is_deleted_by_selector(api: Client) -> None:
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        await api.create(plain(make_pod(name, labels={"app": app})))
    await api.request("DELETE", PODS, parameters={"labelSelector": "app=x"})
    assert [pod["metadata"]["name"] for pod in await api.list(PODS)] == ["c"]


async def test_a_namespaced_object_cannot_be_made_outside_a_namespace(api: Client) -> None:
    said = await refused(api, 405, "POST", "/api/v1/pods", plain(make_pod("web")))
    assert said == "the server does not allow this method on the requested resource"


async def test_a_body_of_another_namespace_is_refused(api: Client) -> None:
    body = plain(make_pod("web", namespace="kube-system"))
    assert await refused(api, 400, "POST", PODS, body) == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


async def test_an_event_is_the_same_in_both_apis(api: Client) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "berth",
        "reportingInstance": "berth-1",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "assigned",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "web", "uid": "u", "apiVersion": "v1"},
    }
    await api.create(event)
    core = await api.get("/api/v1/namespaces/default/events/web.1")
    assert (core["message"], core["reason"], core["reportingComponent"]) == ("assigned", "Scheduled", "berth")
    assert core["involvedObject"]["name"] == "web"
    found = await api.list("/api/v1/namespaces/default/events", fieldSelector="involvedObject.name=web")
    assert len(found) == 1


async def test_a_field_that_a_built_in_kind_has_not_is_refused_if_the_client_asks_for_that(api: Client) -> None:
    container = {"name": "a", "image": "b", "imag": "c", "resources": {"limits": {"cpu": "1"}}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd"}, "spec": {"containers": [container]}}
    body["spec"]["containerz"] = []  # type: ignore[index]
    path = "/api/v1/namespaces/default/pods"
    said = await refused(api, 400, "POST", path, body, parameters={"fieldValidation": "Strict"})
    assert 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: ' in said
    assert 'unknown field "spec.containers[0].imag"' in said
    assert 'unknown field "spec.containerz"' in said
    await api.request("POST", path, body, parameters={"fieldValidation": "Ignore"})
