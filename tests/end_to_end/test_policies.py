"""SchedulingPolicies: applied, edited, broken, mended, deleted; each takes effect on the next pod."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from control_plane.client import PODS, POLICIES, ApiError, Client, Object
from control_plane.launcher import ControlPlane
from end_to_end.watching import StartBerth, are_bound, bound, only_real
from support.builders import make_node, make_pod

SHIPPED = Path(__file__).resolve().parents[2] / "policies"


def condition(policy: Object, kind: str) -> tuple[str, str]:
    for found in policy.get("status", {}).get("conditions", []):
        if found["type"] == kind:
            return found["status"], found["reason"]
    return "", ""


def policy(name: str, scheduler: str, *priorities: Object, **spec: object) -> Object:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "priorities": list(priorities), **spec},
    }


SPREAD: Object = {"name": "NodeResourcesFit", "weight": 50}
PACK: Object = {"name": "NodeResourcesFit", "weight": 50, "args": {"scoringStrategy": {"type": "MostAllocated"}}}


async def place(api: Client, prefix: str, count: int, scheduler: str = "berth") -> Counter[str]:
    """Where `count` new pods go, one after the other."""
    nodes: Counter[str] = Counter()
    for i in range(count):
        name = f"{prefix}-{i}"
        await api.create(make_pod(name, cpu="100m", memory="100Mi", scheduler=scheduler))
        pods = await api.wait_until(PODS, partial(_is_bound, f"default/{name}"), timeout_seconds=30)
        nodes[pods[f"default/{name}"]["spec"]["nodeName"]] += 1
    return nodes


def _is_bound(key: str, pods: Mapping[str, Object]) -> bool:
    return bool(pods[key]["spec"].get("nodeName"))


def _are_in_force(policies: Mapping[str, Object]) -> bool:
    return len(policies) == 2 and all(condition(found, "Active") == ("True", "InForce") for found in policies.values())


@only_real
async def test_the_shipped_policies_are_taken_and_kubectl_shows_it(
    control_plane: ControlPlane, api: Client, berth_process: StartBerth
) -> None:
    berth_process()
    control_plane.kubectl("apply", "-f", str(SHIPPED))
    await api.wait_until(POLICIES, _are_in_force, timeout_seconds=30)

    lines = control_plane.kubectl("get", "schedulingpolicies").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["binpack", "berth-binpack"], ["default", "berth"]]
    assert control_plane.kubectl("get", "sp", "-o", "name").stdout.split() == [
        "schedulingpolicy.berth.dev/binpack",
        "schedulingpolicy.berth.dev/default",
    ]
    assert "weight" in control_plane.kubectl("explain", "sp.spec.priorities").stdout


async def test_an_edit_decides_the_next_pod_and_nothing_restarts(api: Client, berth_process: StartBerth) -> None:
    await api.create_many(make_node(f"n{i}", cpu="4", memory="4Gi") for i in range(4))
    berth = berth_process()
    pid = berth.process.pid
    await api.apply(policy("mine", "berth", SPREAD))
    assert max((await place(api, "spread", 4)).values()) == 1

    await api.apply(policy("mine", "berth", PACK))
    await api.wait_until(
        POLICIES, lambda found: found["mine"]["status"].get("activeGeneration") == 2, timeout_seconds=30
    )
    assert len(await place(api, "pack", 5)) == 1

    await api.delete(f"{POLICIES}/mine")
    assert len(await place(api, "built-in", 6)) > 1
    assert berth.process.pid == pid


async def test_a_bad_edit_leaves_the_last_good_policy_in_force_and_says_what_is_wrong(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(f"n{i}", cpu="4", memory="4Gi") for i in range(3))
    berth_process()
    await api.apply(policy("mine", "berth", PACK))
    await api.wait_until(POLICIES, lambda found: condition(found["mine"], "Active")[0] == "True", timeout_seconds=30)
    await api.apply(policy("mine", "berth", {"name": "NodeResorcesFit"}))

    found = await api.wait_until(
        POLICIES, lambda found: condition(found["mine"], "Accepted") == ("False", "Invalid"), timeout_seconds=30
    )
    status = found["mine"]["status"]
    assert condition(found["mine"], "Active") == ("True", "LastGoodInForce")
    assert (status["observedGeneration"], status["activeGeneration"]) == (2, 1)
    assert any("spec.priorities[0].name" in c["message"] for c in status["conditions"])
    assert len(await place(api, "still-packed", 4)) == 1

    await api.apply(policy("mine", "berth", SPREAD))
    await api.wait_until(POLICIES, lambda found: condition(found["mine"], "Accepted")[0] == "True", timeout_seconds=30)
    assert len(await place(api, "mended", 4)) > 1


async def test_pods_of_a_scheduler_name_that_nobody_serves_are_taken_up_when_a_policy_does(
    api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n"))
    berth_process()
    await api.create(make_pod("early", scheduler="batch"))
    await api.create(make_pod("ours"))
    pods = await api.wait_until(PODS, are_bound(1), timeout_seconds=30)
    assert [pod["metadata"]["name"] for pod in bound(pods)] == ["ours"]

    await api.apply(policy("batch", "batch"))
    await api.wait_until(PODS, are_bound(2), timeout_seconds=30)


async def test_of_two_policies_for_one_name_the_first_by_name_is_active_and_both_say_so(
    api: Client, berth_process: StartBerth
) -> None:
    berth_process()
    await api.apply(policy("b", "berth"))
    await api.apply(policy("a", "berth"))
    await api.wait_until(
        POLICIES,
        lambda found: (
            condition(found["a"], "Active")[0] == "True" and condition(found["b"], "Active") == ("False", "Superseded")
        ),
        timeout_seconds=30,
    )


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (policy("x", "berth", {"name": "NodeResourcesFit", "weight": -1}), "spec.priorities[0].weight"),
        (policy("x", "berth", {"weight": 1}), "spec.priorities[0].name"),
        (policy("x", "berth", tieBreak="Coin"), "spec.tieBreak"),
        (policy("x", ""), "spec.schedulerName"),
    ],
)
async def test_nonsense_is_refused_by_the_api_server_with_the_field(
    api: Client, crds: None, broken: Object, field: str
) -> None:
    with pytest.raises(ApiError, match=re.escape(field)):
        await api.create(broken)
