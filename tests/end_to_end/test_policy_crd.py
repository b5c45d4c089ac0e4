"""The definition of SchedulingPolicy on an API server: what it takes, refuses, fills in and explains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from control_plane.client import POLICIES, ApiError, Client, Object
from control_plane.launcher import ControlPlane
from end_to_end.policing import policy
from end_to_end.watching import StartBerth, only_real
from policy.bad_policies import BAD_POLICIES, Bad, By
from policy.builders import make_policy

pytestmark = pytest.mark.usefixtures("crds")

FILES = sorted((Path(__file__).resolve().parents[2] / "policies").glob("*.yaml"))
SHIPPED: list[Object] = [manifest for path in FILES for manifest in yaml.safe_load_all(path.read_text())]
REFUSED = [bad for bad in BAD_POLICIES if bad.by is By.SERVER]
STRICTLY = {"fieldValidation": "Strict"}  # as kubectl asks for it


async def apply(api: Client, manifest: Object) -> Object:
    return await api.request("POST", POLICIES, manifest, parameters=STRICTLY)


def test_there_are_thirty_of_them() -> None:
    assert len(REFUSED) >= 30


@pytest.mark.parametrize("bad", REFUSED, ids=lambda bad: bad.title)
async def test_nonsense_is_refused_in_a_message_that_names_the_field(api: Client, bad: Bad) -> None:
    with pytest.raises(ApiError) as refusal:
        await apply(api, bad.manifests[-1])
    assert refusal.value.status in (400, 422)
    assert bad.server_field in str(refusal.value)


async def test_what_only_berth_can_judge_is_taken(api: Client) -> None:
    for bad in BAD_POLICIES:
        if bad.by is not By.SERVER:
            for manifest in bad.manifests:
                assert (await apply(api, manifest))["metadata"]["generation"] == 1


async def test_the_shipped_policies_are_taken(api: Client) -> None:
    for manifest in SHIPPED:
        assert (await apply(api, manifest))["spec"]["schedulerName"] == manifest["spec"]["schedulerName"]


async def test_a_policy_with_every_field_is_taken_as_it_is(api: Client) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    extender = {
        "urlPrefix": "https://extender.example:8443/scheduler",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": 2,
        "timeoutSeconds": 0.5,
        "nodeCacheCapable": True,
        "managedResources": [{"name": "example.com/fpga", "ignoredByScheduler": True}],
        "ignorable": True,
        "tls": {"insecure": True, "serverName": "extender.example"},
    }
    manifest = make_policy(
        mode="Shadow",
        base="common",
        namespaceSelector={"matchLabels": {"team": "research", "empty": ""}},
        podSelector={"matchExpressions": [{"key": "example.com/gpu", "operator": "Exists"}]},
        predicates=[
            {"name": "NodeAffinity", "preFilterOnly": True, "enabled": True, "args": {"addedAffinity": {"x": [1]}}},
            {"name": "mine", "enabled": True, "expression": "true", "message": "no"},
            {"name": "of-the-base", "enabled": True, "message": "in other words"},
        ],
        predicateOrder=["mine"],
        priorities=[
            {"name": "pack", "plugin": "NodeResourcesFit", "enabled": True, "weight": 2147483647},
            {"name": "spot", "enabled": True, "expression": "1", "normalize": True},
        ],
        parameters={"anything": {"goes": [1, "x", None, 1.5]}},
        extenders=[extender],
        preemption={"enabled": False, "minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1},
        tieBreak="First",
        backoff={"initialSeconds": 0.5, "maxSeconds": 60},
        flushSeconds=30,
        bindTimeoutSeconds=0,
        percentageOfNodesToScore=0,
        alwaysCheckAllPredicates=True,
        defaultConstraints={"type": "List", "constraints": [constraint]},
        annotatePods=True,
        shadow={"samplePercent": 10},
    )
    assert (await apply(api, manifest))["spec"] == manifest["spec"]


async def test_only_what_the_base_has_no_say_in_is_filled_in(api: Client) -> None:
    spec = (await apply(api, make_policy(predicates=[{"name": "NodeName"}])))["spec"]
    assert spec == {
        "schedulerName": "berth",
        "mode": "Active",
        "base": "KubernetesDefault",
        "predicates": [{"name": "NodeName", "enabled": True}],
    }


async def test_a_whole_status_is_taken(api: Client) -> None:
    time = "2026-01-01T00:00:00Z"
    condition = {"type": "Degraded", "status": "True", "observedGeneration": 1, "lastTransitionTime": time}
    counts = dict.fromkeys(("judged", "same", "different", "unplaced", "gained", "skipped"), 1)
    status = {
        "observedGeneration": 2,
        "activeGeneration": 1,
        "activeHash": "0123456789ab",
        "activeSince": time,
        "placed": 3,
        "pending": 1,
        "preempted": 0,
        "lastDecisionTime": time,
        "errors": [{"source": "extender https://x", "count": 2, "message": "it hangs", "lastTime": time}],
        "shadow": {
            **counts,
            "examples": [{"pod": "a/b", "active": "n1", "shadow": "", "time": time, "message": "why"}],
        },
        "conditions": [{**condition, "reason": "ExtenderFailing", "message": "extender https://x failed"}],
    }
    await apply(api, make_policy("used"))
    patch = "application/merge-patch+json"
    after = await api.request(
        "PATCH", f"{POLICIES}/used/status", {"status": status}, parameters=STRICTLY, content_type=patch
    )
    assert after["status"] == status


@only_real
def test_kubectl_explains_every_field_and_shows_what_users_ask_first(control_plane: ControlPlane) -> None:
    control_plane.kubectl("api-resources")  # kubectl remembers what there was when it last looked
    told = control_plane.kubectl("explain", "sp.spec.priorities").stdout
    assert "MostAllocated" in told
    assert "ImageLocality 1" in told.replace("\n", " ").replace("  ", " ")
    for field in ("base", "extenders.tls", "defaultConstraints.constraints", "predicates.expression"):
        assert "DESCRIPTION" in control_plane.kubectl("explain", f"sp.spec.{field}").stdout
    control_plane.kubectl("apply", "-f", "-", input=json.dumps(make_policy("shown")))
    [head, line] = control_plane.kubectl("get", "sp").stdout.splitlines()
    assert " ".join(head.split()) == "NAME SCHEDULER MODE READY ACTIVE ACCEPTED IN FORCE PLACED PENDING AGE"
    assert line.split()[:3] == ["shown", "berth", "Active"]
    wide = control_plane.kubectl("get", "sp", "-o", "wide").stdout
    assert wide.splitlines()[0].split()[-3:] == ["GENERATION", "REASON", "HASH"]


@only_real
def test_kubectl_waits_until_an_edited_policy_is_ready(control_plane: ControlPlane, berth_process: StartBerth) -> None:
    berth_process()
    wait = ("wait", "--for=condition=Ready", "sp/waited")
    for weight in (1, 2):
        entry = {"name": "ImageLocality", "weight": weight}
        control_plane.kubectl("apply", "-f", "-", input=json.dumps(policy("waited", "berth", entry)))
        assert "condition met" in control_plane.kubectl(*wait, "--timeout=30s").stdout
        found = control_plane.kubectl("get", "sp", "waited", "-o", "jsonpath={.status.activeGeneration}").stdout
        assert found == str(weight)
    broken = policy("waited", "berth", {"name": "ImageLocalityy"})
    control_plane.kubectl("apply", "-f", "-", input=json.dumps(broken))
    control_plane.kubectl("wait", "--for=condition=Ready=False", "sp/waited", "--timeout=30s")
    said = control_plane.kubectl(*wait, "--timeout=1s", check=False)
    assert said.returncode != 0


@only_real
def test_kubectl_apply_refuses_in_words(control_plane: ControlPlane) -> None:
    manifest = make_policy("wrong", predicates=[{"name": "mine", "expression": "true", "plugin": "NodeName"}])
    said = control_plane.kubectl("apply", "-f", "-", input=json.dumps(manifest), check=False)
    assert said.returncode != 0
    assert "spec.predicates[0].plugin" in said.stderr
    assert "plugin does not go with an expression" in said.stderr
