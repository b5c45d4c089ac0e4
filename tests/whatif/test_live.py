"""A cluster is read with the user's rights, and what he may not read is said."""

from __future__ import annotations

from typing import Any

import pytest

from berth.cluster.errors import ApiError
from berth.cluster.resources import RESOURCES
from berth.whatif.cluster_objects import ClusterObjects
from berth.whatif.errors import CannotSimulate
from berth.whatif.live import CLASSES, read_cluster
from berth.whatif.workloads import Workload
from support.builders import Body, make_node
from whatif.clusters import ask, make_deployment, owned_pod, replica_set


class ReadOnlyApi:
    """An API server with these objects, by plural; the plurals in `forbidden` may not be read."""

    def __init__(self, objects: dict[str, list[Body]], forbidden: tuple[str, ...] = ()) -> None:
        self.objects = objects
        self.forbidden = forbidden
        self.asked: list[tuple[str, str]] = []

    async def request(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        self.asked.append((method, path))
        *_, plural = path.split("/")
        if plural in self.forbidden:
            raise ApiError(403, "Forbidden", f'{plural} is forbidden: User "jane" cannot list resource "{plural}"')
        [resource] = [each for each in (*RESOURCES, *CLASSES) if each.plural == plural]
        items = [{**body} for body in self.objects.get(plural, [])]
        for item in items:  # as API servers send them
            del item["kind"], item["apiVersion"]
        page = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "items": items}
        return 200, {**page, "metadata": {"resourceVersion": "1"}}


async def read(api: ReadOnlyApi, *scaled: Workload) -> tuple[ClusterObjects, list[str]]:
    told: list[str] = []
    return await read_cluster(api, scaled, told.append), told  # type: ignore[arg-type]


async def test_each_kind_is_listed_once_and_nothing_is_written() -> None:
    pods = [owned_pod("web", number, "n") for number in range(2)]
    api = ReadOnlyApi({"nodes": [make_node("n")], "pods": pods, "replicasets": [replica_set("web")]})
    objects, told = await read(api)
    assert {method for method, _ in api.asked} == {"GET"}
    assert len(api.asked) == len(set(api.asked)) == len(RESOURCES) + 3
    assert "reading nodes" in told
    result = ask(objects, scale={"web": 3})
    assert [each.workload.name for each in result.workloads] == ["web"]


async def test_what_decisions_need_and_may_not_be_read_is_named_with_a_way_out() -> None:
    with pytest.raises(CannotSimulate, match=r"^nodes: you may not read this: nodes is forbidden.*--snapshot FILE"):
        await read(ReadOnlyApi({}, ("nodes",)))


async def test_classes_that_may_not_be_read_are_missed_only_by_pods_that_name_one() -> None:
    objects, _ = await read(ReadOnlyApi({"nodes": [make_node("n")]}, ("priorityclasses", "limitranges")))
    assert objects.not_allowed == {"PriorityClass", "LimitRange"}
    assert ask(objects, make_deployment("web")).everything_fits
    with pytest.raises(CannotSimulate, match="you may not list priorityclasses, so add the class with -f"):
        ask(objects, make_deployment("api", priorityClassName="high"))
