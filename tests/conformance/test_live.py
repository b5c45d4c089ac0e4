"""The scheduler at work decides what `berth judge` says: the whole way, from the reports of a watch to the node."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from berth.judge import judge
from berth.judge.history import history
from berth.model import object_key
from berth.policy import import_configuration
from conformance.cases import theme, vectors
from scheduler.harness import Harness, running

OURS = "live"  # a name of our own: other pods of a case that wait are nobody's to place
THEMES = sorted({theme(vector) for vector in vectors()})
OF_EACH = 30


def with_our_name(case: Mapping[str, Any]) -> dict[str, Any]:
    return {**case, "pod": {**case["pod"], "spec": {**case["pod"]["spec"], "schedulerName": OURS}}}


async def decide(harness: Harness, case: Mapping[str, Any]) -> str:
    """The node that the scheduler gives the pod, "" where it finds none."""
    manifest: Any = import_configuration(case["config"]).manifests[0]
    manifest["metadata"] |= {"uid": "policy", "generation": 1}
    manifest["spec"]["schedulerName"] = OURS
    harness.observe("SchedulingPolicy", manifest)
    for kind, gone, body in history(case["objects"], Random(case["id"])):
        harness.cluster.objects[kind][object_key(body)] = body
        (harness.remove if gone else harness.observe)(kind, body)
    harness.write(case["pod"])
    await harness.go()
    table, uid = harness.cache.state.table, case["pod"]["metadata"]["uid"]
    return next((node.name for node in table.nodes() if uid in table.pods_on(node.name)), "")


@pytest.mark.parametrize("name", THEMES)
async def test_a_pod_goes_live_where_judge_has_it_best(name: str) -> None:
    elsewhere = {}
    for case in map(with_our_name, list(vectors(name))[:OF_EACH]):
        best = judge(case, nominated=True).get("best") or [""]
        async with running() as harness:
            node = await decide(harness, case)
        if node not in best:
            elsewhere[case["id"]] = node, best
    assert elsewhere == {}
