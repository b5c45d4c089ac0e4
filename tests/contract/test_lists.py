"""Lists: pages, selectors, versions and forms."""

from __future__ import annotations

from contract.asking import plain, refused
from control_plane.client import Client, Object
from support.builders import make_node, make_pod

PODS = "/api/v1/pods"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def names(items: list[Object]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


async def fill(api: Client) -> None:
    await api.create(plain(make_node("n1")))
    await api.create(plain(make_pod("a", node="n1", labels={"app": "x"})))
    await api.create(plain(make_pod("b", labels={"app": "y", "tier": "1"})))
    await api.create(plain(make_pod("c")))
    await api.create(plain(make_pod("d", namespace="kube-system")))


async def form_of(api: Client, path: str, accept: str, **query: str) -> Object:
    async with api.session.get(path, headers={"Accept": accept}, params=query) as answer:
        assert answer.status == 200
        body: Object = await answer.json()
        return body


async def test_a_list_is_in_the_order_of_names_and_says_its_version(api: Client) -> None:
    await fill(api)
    items, version = await api.list_with_version(PODS)
    assert names(items) == ["a", "b", "c", "d"]
    assert int(version) >= max(int(item["metadata"]["resourceVersion"]) for item in items)
    assert names(await api.list("/api/v1/namespaces/default/pods")) == ["a", "b", "c"]


async def test_pages_together_are_the_list_at_one_version(api: Client) -> None:
    await fill(api)
    first = await api.request("GET", PODS, parameters={"limit": "3"})
    assert first["metadata"]["remainingItemCount"] == 1
    await api.create(plain(make_pod("z", namespace="kube-system")))
    token = first["metadata"]["continue"]
    second = await api.request("GET", PODS, parameters={"limit": "3", "continue": token})
    assert names(first["items"] + second["items"]) == ["a", "b", "c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


async def test_label_selectors(api: Client) -> None:
    await fill(api)
    for selector, expected in (
        ("app=x", ["a"]),
        ("app!=x", ["b", "c", "d"]),
        ("app in (x,y)", ["a", "b"]),
        ("app notin (x)", ["b", "c", "d"]),
        ("tier", ["b"]),
        ("!app", ["c", "d"]),
        ("app=y,tier==1", ["b"]),
    ):
        assert names(await api.list(PODS, labelSelector=selector)) == expected, selector


async def test_field_selectors(api: Client) -> None:
    await fill(api)
    for selector, expected in (
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName=", ["b", "c", "d"]),
        ("spec.nodeName!=", ["a"]),
        ("metadata.name=c", ["c"]),
        ("metadata.namespace=kube-system", ["d"]),
        ("status.phase!=Succeeded,status.phase!=Failed", ["a", "b", "c", "d"]),
        ("status.phase=Running", []),
        ("spec.schedulerName=berth", ["a", "b", "c", "d"]),
    ):
        assert names(await api.list(PODS, fieldSelector=selector)) == expected, selector


async def test_a_field_that_cannot_be_selected_by_is_refused(api: Client) -> None:
    said = await refused(api, 400, "GET", PODS, parameters={"fieldSelector": "spec.colour=red"})
    assert "field label not supported: spec.colour" in said


async def test_an_invalid_selector_is_refused(api: Client) -> None:
    said = await refused(api, 400, "GET", PODS, parameters={"labelSelector": "app in x"})
    assert "unable to parse requirement" in said


async def test_a_list_at_any_version_serves_what_is_there(api: Client) -> None:
    await fill(api)
    assert len(await api.list(PODS, resourceVersion="0")) <= 4  # a cache may answer, a little behind
    assert len(await api.list(PODS)) == 4


async def test_metadata_only_lists_carry_identities_and_nothing_else(api: Client) -> None:
    await fill(api)
    found = await form_of(api, PODS, METADATA_ONLY, limit="2")
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert found["metadata"]["continue"]
    assert names(found["items"]) == ["a", "b"]
    assert all(item["metadata"]["uid"] and "spec" not in item for item in found["items"])


async def test_tables_have_the_columns_that_kubectl_prints(api: Client) -> None:
    await fill(api)
    table = await form_of(api, PODS, TABLE)
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [
        ("Name", 0),
        ("Ready", 0),
        ("Status", 0),
        ("Restarts", 0),
        ("Age", 0),
        ("IP", 1),
        ("Node", 1),
        ("Nominated Node", 1),
        ("Readiness Gates", 1),
    ]
    first = table["rows"][0]
    assert [first["cells"][i] for i in (0, 1, 2, 3, 5, 6, 7, 8)] == [
        "a",
        "0/1",
        "Pending",
        "0",
        "<none>",
        "n1",
        "<none>",
        "<none>",
    ]
    assert first["object"]["kind"] == "PartialObjectMetadata"


async def test_every_built_in_table_has_the_same_columns_on_both_servers(api: Client) -> None:
    expected = {
        "/api/v1/nodes": (
            "Name Status Roles Age Version Internal-IP External-IP OS-Image Kernel-Version Container-Runtime"
        ),
        "/api/v1/namespaces": "Name Status Age",
        "/apis/apps/v1/deployments": "Name Ready Up-to-date Available Age Containers Images Selector",
        "/apis/apps/v1/replicasets": "Name Desired Current Ready Age Containers Images Selector",
        "/apis/apps/v1/statefulsets": "Name Ready Age Containers Images",
        "/apis/batch/v1/jobs": "Name Status Completions Duration Age Containers Images Selector",
        "/apis/scheduling.k8s.io/v1/priorityclasses": "Name Value Global-Default Age PreemptionPolicy",
        "/apis/coordination.k8s.io/v1/leases": "Name Holder Age",
        "/api/v1/events": "Last Seen Type Reason Object Subobject Source Message First Seen Count Name",
        "/api/v1/configmaps": "Name Data Age",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name Created At",
        "/apis/policy/v1/poddisruptionbudgets": "Name Min Available Max Unavailable Allowed Disruptions Age",
        "/apis/storage.k8s.io/v1/storageclasses": (
            "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age"
        ),
    }
    found = {}
    for path in expected:
        table = await form_of(api, path, TABLE)
        found[path] = " ".join(column["name"] for column in table["columnDefinitions"])
    assert found == expected


async def test_protobuf_alone_is_not_acceptable_or_is_served_and_behind_it_json_is_fine(api: Client) -> None:
    accept = "application/vnd.berth.nothing,application/json"
    assert (await form_of(api, PODS, accept))["kind"] == "PodList"
    async with api.session.get(PODS, headers={"Accept": "application/vnd.berth.nothing"}) as answer:
        assert answer.status == 406
