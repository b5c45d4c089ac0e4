"""ClusterKopfPeerings, as replicas use them: records in a status that is no subresource, and a name beside them."""

from __future__ import annotations

import pytest

from contract.asking import refused
from control_plane.client import Client

PEERINGS = "/apis/kopf.dev/v1/clusterkopfpeerings"
MINE = f"{PEERINGS}/mine"
JSON_PATCH = "application/json-patch+json"
NAME = "/metadata/annotations/berth.dev~1leader"
BODY = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "mine"}}

pytestmark = pytest.mark.usefixtures("peerings")


async def test_records_come_change_and_go_by_merge_patches(api: Client) -> None:
    await api.create(BODY)
    record = {"priority": 2**52 - 1, "lifetime": 10, "lastseen": "2026-01-01T00:00:00+00:00"}
    await api.patch(MINE, {"status": {"a": {**record, "leadingSince": "x"}, "b": record}})
    after = await api.patch(MINE, {"status": {"a": {**record, "lifetime": 5}}})
    assert after["status"] == {"a": {**record, "lifetime": 5, "leadingSince": "x"}, "b": record}
    after = await api.patch(MINE, {"status": {"a": {"leadingSince": None}, "b": None}})
    assert after["status"] == {"a": {**record, "lifetime": 5}}
    await refused(api, 404, "PATCH", f"{MINE}/status", {}, content_type="application/merge-patch+json")


async def test_a_patch_that_says_nothing_changes_nothing(api: Client) -> None:
    made = await api.create(BODY)
    assert (await api.patch(MINE, {}))["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_name_is_taken_away_only_by_whom_it_names(api: Client) -> None:
    await api.create(BODY)
    await api.patch(MINE, {"metadata": {"annotations": {"berth.dev/leader": "a 10"}}})
    for other in ("b 10", "a 5"):
        steps = [{"op": "test", "path": NAME, "value": other}, {"op": "remove", "path": NAME}]
        await refused(api, 422, "PATCH", MINE, steps, content_type=JSON_PATCH)
    steps = [{"op": "test", "path": NAME, "value": "a 10"}, {"op": "remove", "path": NAME}]
    after = await api.request("PATCH", MINE, steps, content_type=JSON_PATCH)
    assert not after["metadata"].get("annotations")
    await refused(api, 422, "PATCH", MINE, steps, content_type=JSON_PATCH)
