"""Pods that the API server accepts and that are easily taken for nonsense: they take room, and find some."""

from __future__ import annotations

from typing import Any

from control_plane.client import PODS, Client
from end_to_end.watching import StartBerth, are_bound, overfull_nodes, refusal
from support.builders import make_node, make_pod

BOTH_INTAKES = True


def compared_with_no_integer() -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["abc"]}]},
        {"matchExpressions": [{"key": "gone", "operator": "DoesNotExist"}]},
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


async def test_a_pod_whose_affinity_compares_with_no_integer_takes_room_and_finds_some(
    api: Client, berth_process: StartBerth
) -> None:
    affinity = compared_with_no_integer()
    await api.create(make_node("n", cpu="4", labels={"generation": "5"}))
    await api.create(make_pod("theirs", cpu="3", node="n", scheduler="default-scheduler", affinity=affinity))
    berth_process()
    await api.create(make_pod("large", cpu="3"))
    await api.create(make_pod("small", cpu="1", affinity=affinity))

    pods = await api.wait_until(
        PODS, lambda pods: are_bound(2)(pods) and refusal(pods["default/large"]) is not None, timeout_seconds=30
    )
    assert pods["default/small"]["spec"]["nodeName"] == "n"
    assert "Insufficient cpu" in (refusal(pods["default/large"]) or ("", ""))[1]
    assert await overfull_nodes(api) == []
