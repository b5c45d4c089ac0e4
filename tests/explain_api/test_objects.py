"""Objects, lists, tables and refusals."""

from pathlib import Path

import pytest

from berth.explain_api import paging
from berth.explain_api.port import Detail
from explain_api.fakes import FakeExplanations, decision, explanation, node_view
from explain_api.harness import TABLE, RunningApi, running


@pytest.fixture
def port() -> FakeExplanations:
    port = FakeExplanations(nodes={name: node_view(name) for name in ("n1", "n2")})
    port.put(
        explanation("web-1", labels={"app": "web", "tier": "front"}),
        explanation("web-2", labels={"app": "web"}, reason="Taints", attempts=0, state="Pending"),
        explanation("db-1", "data", labels={"app": "db"}, state="Gated", waitsFor=["a.example/x"]),
        explanation("old-1", state="Bound", nodeName="n1"),
    )
    port.decided["shop", "web-0.1"] = decision("web-0.1")
    return port


async def names(api: RunningApi, path: str) -> list[str]:
    answer = await api.get(path)
    assert answer.status == 200, answer.text
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def test_an_explanation_is_read_by_the_name_of_its_pod(tmp_path: Path, port: FakeExplanations) -> None:
    async with running(tmp_path, port) as api:
        answer = await api.get("namespaces/shop/explanations/web-1")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["kind"] == "Explanation"
    assert answer.json["status"] == port.pods["shop", "web-1"]["status"]
    assert answer.json["metadata"]["resourceVersion"].isdigit()


async def test_verdicts_are_asked_for_by_node(tmp_path: Path, port: FakeExplanations) -> None:
    async with running(tmp_path, port) as api:
        await api.get("namespaces/shop/explanations/web-1?node=n1&node=n2&node=n1")
        await api.get("namespaces/shop/explanations/web-1?node=*")
    assert [call[3] for call in port.asked] == [Detail(("n1", "n2")), Detail((), every_node=True)]


async def test_a_list_has_the_pending_pods_of_a_namespace_or_of_all(tmp_path: Path, port: FakeExplanations) -> None:
    async with running(tmp_path, port) as api:
        answer = await api.get("namespaces/shop/explanations")
        assert (answer.json["kind"], answer.json["apiVersion"]) == ("ExplanationList", "explain.berth.dev/v1alpha1")
        assert [item["metadata"]["name"] for item in answer.json["items"]] == ["web-1", "web-2"]
        assert await names(api, "explanations") == ["db-1", "web-1", "web-2"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("labelSelector=app%3Dweb", ["web-1", "web-2"]),
        ("labelSelector=app%3Dweb,tier!%3Dfront", ["web-2"]),
        ("labelSelector=app in (db, cache)", ["db-1"]),
        ("labelSelector=app notin (db),tier", ["web-1"]),
        ("labelSelector=!tier", ["db-1", "web-2"]),
        ("fieldSelector=status.state%3DGated", ["db-1"]),
        ("fieldSelector=status.reason!%3DTaints,metadata.namespace%3Dshop", ["web-1"]),
        ("fieldSelector=metadata.name%3Dweb-2", ["web-2"]),
        ("labelSelector=app%3Ddb&fieldSelector=status.state%3DPending", []),
    ],
)
async def test_lists_are_selected_by_labels_and_fields(
    tmp_path: Path, port: FakeExplanations, selector: str, found: list[str]
) -> None:
    async with running(tmp_path, port) as api:
        assert await names(api, f"explanations?{selector}") == found


async def test_a_list_of_one_name_finds_a_pod_that_is_pending_no_more(tmp_path: Path, port: FakeExplanations) -> None:
    """As `kubectl wait` asks."""
    async with running(tmp_path, port) as api:
        assert await names(api, "namespaces/shop/explanations?fieldSelector=metadata.name%3Dold-1") == ["old-1"]
        assert await names(api, "namespaces/shop/explanations?fieldSelector=metadata.name%3Dnobody") == []


async def test_a_list_is_read_page_by_page(tmp_path: Path) -> None:
    port = FakeExplanations()
    port.put(*(explanation(f"pod-{number:03}", f"ns-{number % 3}") for number in range(25)))
    seen: list[str] = []
    versions = set()
    async with running(tmp_path, port) as api:
        path = "explanations?limit=10"
        while path:
            page = (await api.get(path)).json
            seen += [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in page["items"]]
            versions.add(page["metadata"]["resourceVersion"])
            token = page["metadata"].get("continue", "")
            assert page["metadata"].get("remainingItemCount", 0) == 25 - len(seen)
            path = f"explanations?limit=10&continue={token}" if token else ""
    assert seen == sorted(seen)
    assert len(set(seen)) == 25
    assert len(versions) == 1


async def test_no_page_has_more_than_500_objects(tmp_path: Path) -> None:
    port = FakeExplanations()
    port.put(*(explanation(f"pod-{number:03}") for number in range(501)))
    async with running(tmp_path, port) as api:
        for query in ("", "?limit=0", "?limit=100000"):
            page = (await api.get(f"explanations{query}")).json
            assert len(page["items"]) == 500
            assert page["metadata"]["remainingItemCount"] == 1


async def test_the_other_kinds_are_read_and_listed(tmp_path: Path, port: FakeExplanations) -> None:
    async with running(tmp_path, port) as api:
        assert await names(api, "nodeviews") == ["n1", "n2"]
        assert (await api.get("nodeviews/n1")).json["status"]["zone"] == "a"
        assert await names(api, "clusterviews") == ["current"]
        assert (await api.get("clusterviews/current")).json["status"]["nodes"] == 3
        assert await names(api, "namespaces/shop/decisions") == ["web-0.1"]
        assert await names(api, "namespaces/data/decisions") == []
        assert (await api.get("namespaces/shop/decisions/web-0.1")).json["status"]["nodeName"] == "n1"


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_kubectl_gets_a_table(tmp_path: Path, port: FakeExplanations, version: str) -> None:
    accept = f"application/json;as=Table;v={version};g=meta.k8s.io,application/json"
    async with running(tmp_path, port) as api:
        table = (await api.get("explanations", accept=accept)).json
    assert (table["kind"], table["apiVersion"]) == ("Table", f"meta.k8s.io/{version}")
    shown = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert shown == ["Name", "State", "Reason", "Since", "Attempts", "Next"]
    assert [column["name"] for column in table["columnDefinitions"] if column["priority"]]
    gated, unschedulable, pending = (row["cells"] for row in table["rows"])
    assert gated[0] == "db-1"
    assert gated[5] == "needs its gates removed: a.example/x"
    assert [*unschedulable[:3], unschedulable[4]] == ["web-1", "Unschedulable", "InsufficientCPU", 4]
    assert unschedulable[5] == "tried when the cluster changes"
    assert unschedulable[6] == "default@2"
    assert pending[5] == "tried in its turn"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])


@pytest.mark.parametrize("path", ["nodeviews", "clusterviews", "decisions", "nodeviews/n1", "clusterviews/current"])
async def test_every_kind_has_a_table(tmp_path: Path, port: FakeExplanations, path: str) -> None:
    async with running(tmp_path, port) as api:
        table = (await api.get(f"{path}?includeObject=Object", accept=TABLE)).json
    assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])
    assert table["rows"][0]["object"]["status"]


async def test_metadata_alone_can_be_asked_for(tmp_path: Path, port: FakeExplanations) -> None:
    async with running(tmp_path, port) as api:
        one = await api.get("nodeviews/n1", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        many = await api.get("nodeviews", accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    assert (one.json["kind"], one.json["metadata"]["name"]) == ("PartialObjectMetadata", "n1")
    assert (many.json["kind"], len(many.json["items"])) == ("PartialObjectMetadataList", 2)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "accept", "status", "reason"),
    [
        ("GET", "namespaces/shop/explanations/nobody", "", 404, "NotFound"),
        ("GET", "nodeviews/nobody", "", 404, "NotFound"),
        ("GET", "clusterviews/other", "", 404, "NotFound"),
        ("GET", "namespaces/shop/nodeviews", "", 404, "NotFound"),
        ("GET", "explanations/web-1", "", 404, "NotFound"),
        ("GET", "namespaces/shop/explanations/web-1/log", "", 404, "NotFound"),
        ("GET", "pods", "", 404, "NotFound"),
        ("GET", "/apis/explain.berth.dev/v2/explanations", "", 404, "NotFound"),
        ("GET", "/metrics", "", 404, "NotFound"),
        ("POST", "namespaces/shop/explanations", "", 405, "MethodNotAllowed"),
        ("DELETE", "nodeviews/n1", "", 405, "MethodNotAllowed"),
        ("PATCH", "/apis", "", 405, "MethodNotAllowed"),
        ("GET", "nodeviews", "application/vnd.kubernetes.protobuf", 406, "NotAcceptable"),
        ("GET", "nodeviews", "application/json;as=Table;v=v9;g=meta.k8s.io", 406, "NotAcceptable"),
        ("GET", "nodeviews?limit=many", "", 400, "BadRequest"),
        ("GET", "nodeviews?limit=-1", "", 400, "BadRequest"),
        ("GET", "nodeviews?continue=nonsense", "", 400, "BadRequest"),
        ("GET", f"nodeviews?continue={paging.token(1, ('a', 'b'))[:-3]}", "", 400, "BadRequest"),
        ("GET", "nodeviews?includeObject=Everything", "", 400, "BadRequest"),
        ("GET", "nodeviews?fieldSelector=spec.podCIDR%3D1", "", 400, "BadRequest"),
        ("GET", "nodeviews?fieldSelector=metadata.name", "", 400, "BadRequest"),
        ("GET", "nodeviews?labelSelector=a in b", "", 400, "BadRequest"),
        ("GET", "nodeviews?labelSelector=(", "", 400, "BadRequest"),
        ("GET", "nodeviews?labelSelector=a>x", "", 400, "BadRequest"),
        ("GET", "nodeviews?labelSelector=a b", "", 400, "BadRequest"),
        ("GET", f"nodeviews?labelSelector={'a' * 5000}", "", 400, "BadRequest"),
        (
            "GET",
            "namespaces/shop/explanations/web-1?" + "&".join(f"node=n{n}" for n in range(101)),
            "",
            400,
            "BadRequest",
        ),
    ],
)
async def test_what_cannot_be_answered_is_refused_with_a_status(
    tmp_path: Path, port: FakeExplanations, method: str, path: str, accept: str, status: int, reason: str
) -> None:
    async with running(tmp_path, port) as api:
        answer = await api.get(path, method=method, accept=accept)
    assert answer.status == answer.json["code"] == status
    assert (answer.json["kind"], answer.json["apiVersion"], answer.json["status"]) == ("Status", "v1", "Failure")
    assert answer.json["reason"] == reason
    assert answer.json["message"]
    assert status != 405 or answer.headers["Allow"] == "GET, HEAD"


async def test_a_missing_object_is_named_as_the_api_server_would(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        answer = await api.get("namespaces/shop/explanations/nobody")
    assert answer.json["message"] == 'explanations.explain.berth.dev "nobody" not found'
    assert answer.json["details"] == {"name": "nobody", "group": "explain.berth.dev", "kind": "explanations"}


async def test_an_error_inside_is_answered_and_the_next_request_as_well(tmp_path: Path, port: FakeExplanations) -> None:
    async with running(tmp_path, port) as api:
        port.failing = RuntimeError("surprise")
        answer = await api.get("nodeviews")
        port.failing = None
        assert (answer.status, answer.json["reason"]) == (500, "InternalError")
        assert "surprise" not in answer.text
        assert (await api.get("nodeviews")).status == 200


async def test_head_is_answered_without_a_body(tmp_path: Path, port: FakeExplanations) -> None:
    async with running(tmp_path, port) as api:
        answer = await api.get("nodeviews", method="HEAD")
    assert (answer.status, answer.text) == (200, "")
