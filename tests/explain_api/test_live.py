"""The live port: what is said of pods, nodes and the cluster while a scheduler runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from berth.engine.binding_points import Permit
from berth.explain_api import schemas
from berth.explain_api.live import LiveExplanations
from berth.explain_api.port import Body, Detail, Wanted
from berth.explain_api.sources import Sources
from berth.explain_api.summaries import dominant_code
from policy.builders import make_policy
from scheduler.harness import Harness, running
from scheduler.staged_plugins import installed
from scheduler.test_stages import acting
from support.builders import make_node, make_pod

ALL = Wanted()
ZONE = "topology.kubernetes.io/zone"


class World:
    """A scheduler that runs, and answers from it."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.leads = True
        self.problems: list[str] = []
        sources = Sources(harness.scheduler, lambda: self.leads, "berth-1", lambda: self.problems)
        self.port = LiveExplanations(sources)

    async def why(self, name: str, **detail: Any) -> dict[str, Any]:
        body = await self.finish(self.port.explanation("default", name, Detail(**detail)))
        assert body is not None, f"there is no pod {name}"
        check(body, "explanations")
        status: dict[str, Any] = body["status"]
        return status

    async def pending(self, wanted: Wanted = ALL) -> dict[str, dict[str, Any]]:
        found = await self.finish(self.port.pending(wanted))
        for body in found.items:
            check(body, "explanations")
        return {body["metadata"]["name"]: body["status"] for body in found.items}

    async def finish(self, answer: Any) -> Any:
        """Time passes while it is computed, as answers pause between their pieces."""
        task = asyncio.ensure_future(answer)
        while not task.done():
            await self.harness.clock.advance(0.01)
        return task.result()


@asynccontextmanager
async def world(**options: Any) -> AsyncIterator[World]:
    async with running(**options) as harness:
        yield World(harness)


def check(body: Body, plural: str) -> None:
    """That a body has no field that its schema does not know."""
    unknown = list(unknown_fields(body["status"], schemas.STATUS[plural], "status"))
    assert not unknown, f"the schema of {plural} lacks {unknown}"


def unknown_fields(value: Any, schema: dict[str, Any], path: str) -> list[str]:
    if schema["type"] == "array":
        assert isinstance(value, list)
        return [field for item in value for field in unknown_fields(item, schema["items"], f"{path}[]")]
    if schema["type"] != "object":
        kinds: dict[str, type | tuple[type, ...]] = {
            "string": str,
            "integer": int,
            "number": (int, float),
            "boolean": bool,
        }
        assert isinstance(value, kinds[schema["type"]]), f"{path}: {value!r} is not of type {schema['type']}"
        return []
    found = []
    for key, item in value.items():
        if key not in schema["properties"]:
            found.append(f"{path}.{key}")
        else:
            found += unknown_fields(item, schema["properties"][key], f"{path}.{key}")
    return found


# --- explanations ----------------------------------------------------------------------------------------------------


async def test_a_pod_that_fits_nowhere_is_explained_with_its_attempts_and_its_next_try() -> None:
    async with world() as here:
        here.harness.write(make_node("n1", cpu="1"), make_node("n2", cpu="2"), make_pod("big", cpu="8"))
        await here.harness.pass_time(30)
        said = await here.why("big")
        listed = (await here.pending())["big"]
    for status in (said, listed):
        assert (status["state"], status["reason"], status["attempts"]) == ("Unschedulable", "InsufficientResource", 1)
        assert status["schedulerMessage"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        assert status["nextTry"] > "2026-01-01T00:04"
        assert status["policy"]["name"] == "(built-in)"
        assert status["leads"] is True
    assert said["reasons"][0]["nodes"] == 2
    assert said["prospect"]["outlook"] == "Never"
    assert "reasons" not in listed


async def test_verdicts_are_given_for_the_nodes_that_are_named_or_for_all() -> None:
    async with world() as here:
        here.harness.write(make_node("n1", cpu="1"), make_node("n2", cpu="2"), make_pod("big", cpu="8"))
        await here.harness.go()
        one = await here.why("big", nodes=("n2", "nowhere"))
        all_of_them = await here.why("big", every_node=True)
    assert [verdict["nodeName"] for verdict in one["verdicts"]] == ["n2"]
    assert [verdict["nodeName"] for verdict in all_of_them["verdicts"]] == ["n1", "n2"]


async def test_a_bound_pod_is_explained_by_its_recorded_decision() -> None:
    async with world() as here:
        here.harness.write(make_node("big", cpu="16"), make_node("mid", cpu="8"))
        here.harness.write(make_pod("web", cpu="1"))
        await here.harness.go()
        said = await here.why("web")
        listed = await here.pending()
    choice = said["choice"]
    assert (said["state"], said["nodeName"], choice["evidence"]) == ("Bound", "big", "Recorded")
    assert choice["chosen"]["nodeName"] == "big"
    assert choice["others"][0]["nodeName"] == "mid"
    assert (choice["evaluated"], choice["feasible"]) == (2, 2)
    assert listed == {}


async def test_a_gated_pod_names_its_gates() -> None:
    async with world() as here:
        here.harness.write(make_node("n1"), make_pod("held", gates=["example.com/quota"]))
        await here.harness.go()
        for said in (await here.why("held"), (await here.pending())["held"]):
            assert (said["state"], said["waitsFor"]) == ("Gated", ["example.com/quota"])


async def test_a_scheduler_name_that_is_nearly_served_is_listed_and_others_are_not() -> None:
    async with world() as here:
        here.harness.write(make_node("n1"), make_pod("typo", scheduler="berht"), make_pod("other", scheduler="volcano"))
        await here.harness.go()
        listed = await here.pending()
        other = await here.why("other")
    assert list(listed) == ["typo"]
    assert (listed["typo"]["state"], listed["typo"]["didYouMean"]) == ("NotServed", "berth")
    assert other["state"] == "OtherScheduler"


async def test_a_pod_without_a_policy_says_so() -> None:
    async with world() as here:
        here.harness.write(make_policy("picky", schedulerName="picky", podSelector={"matchLabels": {"a": "b"}}))
        here.harness.write(make_node("n1"), make_pod("lost", scheduler="picky"))
        await here.harness.go()
        assert (await here.pending())["lost"]["state"] == "NotServed"
        assert (await here.why("lost"))["state"] == "NotServed"


async def test_a_pod_that_nobody_knows_has_no_explanation() -> None:
    async with world() as here:
        assert await here.finish(here.port.explanation("default", "nobody", Detail())) is None


async def test_a_standby_says_that_it_does_not_lead_and_counts_no_attempts() -> None:
    async with world() as here:
        here.harness.write(make_node("n1", cpu="1"), make_pod("big", cpu="8"))
        await here.harness.pass_time(5)
        here.leads = False
        for said in (await here.why("big"), (await here.pending())["big"]):
            assert said["leads"] is False
            assert (said["state"], said["reason"]) == ("Unschedulable", "InsufficientResource")
            assert "attempts" not in said
            assert "nextTry" not in said


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).", "UntoleratedTaint"),
        (
            "0/3 nodes are available: 3 Insufficient example.com/gpu. preemption: 0/3 nodes are available: 9 "
            "No preemption victims found for incoming pod.",
            "InsufficientResource",
        ),
        ("no nodes available to schedule pods", ""),
        ("the scheduler failed: KeyError", ""),
        ("0/2 nodes are available:", ""),
        ("", ""),
    ],
)
def test_the_dominant_reason_is_read_from_the_sentence(message: str, code: str) -> None:
    assert dominant_code(message) == code


async def test_a_pod_that_waits_for_a_permit_is_listed_and_names_the_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed(tmp_path, monkeypatch) as script:
        script.says("one", "permit", Permit.wait(600))
        async with world() as here:
            here.harness.write(acting("one"), make_node("a", cpu=1), make_pod("web", cpu=1))
            await here.harness.go()
            said, listed = await here.why("web"), (await here.pending())["web"]
    for status in (said, listed):
        assert (status["state"], status["waitsFor"]) == ("WaitingForPermit", ["one"])
    assert said["nodeName"] == "a"


async def test_an_active_pod_knows_its_place() -> None:
    async with world() as here:
        here.harness.scheduler.close()
        here.harness.write(make_node("n1", cpu="1"), make_pod("late"), make_pod("first", priority=5))
        await here.harness.go()
        assert [(await here.why(name))["placeInQueue"] for name in ("first", "late")] == [1, 2]
        assert "placeInQueue" not in (await here.pending())["late"]


# --- decisions -------------------------------------------------------------------------------------------------------


async def test_decisions_are_listed_and_read_by_name() -> None:
    async with world() as here:
        here.harness.write(make_node("big", cpu="16"), make_node("mid", cpu="8"))
        here.harness.write(make_pod("web", cpu="1", labels={"app": "web"}))
        await here.harness.go()
        found = await here.finish(here.port.decisions(ALL))
        (body,) = found.items
        check(body, "decisions")
        assert await here.finish(here.port.decision("default", body["metadata"]["name"])) == body
        assert await here.finish(here.port.decision("other", body["metadata"]["name"])) is None
        assert await here.finish(here.port.decision("default", "web.99")) is None
    status = body["status"]
    assert (status["podName"], status["nodeName"], status["runnerUpNodeName"]) == ("web", "big", "mid")
    assert (status["nodesEvaluated"], status["nodesFeasible"], status["attempts"]) == (2, 2, 1)
    assert status["total"] > status["runnerUpTotal"]
    assert body["metadata"]["labels"] == {"app": "web"}


# --- views -----------------------------------------------------------------------------------------------------------


async def test_a_node_shows_its_room_its_pods_by_policy_and_what_it_rejects() -> None:
    async with world() as here:
        here.harness.write(make_node("n1", cpu="4", labels={ZONE: "a"}), make_node("n2", cpu="1", labels={ZONE: "b"}))
        here.harness.write(make_pod("web", cpu="1500m"), make_pod("foreign", node="n1", scheduler="other", cpu="500m"))
        await here.harness.go()
        here.harness.write(
            make_pod("big", cpu="8"), make_pod("big-too", cpu="8"), make_pod("picky", node_selector={"a": "b"})
        )
        await here.harness.go()
        view = await here.finish(here.port.node_view("n1"))
        assert await here.finish(here.port.node_view("nowhere")) is None
        listed = await here.finish(here.port.node_views(ALL))
    check(view, "nodeviews")
    status = view["status"]
    cpu = next(entry for entry in status["resources"] if entry["name"] == "cpu")
    assert cpu == {"name": "cpu", "allocatable": "4", "requested": "2", "free": "2", "percent": 50}
    assert (status["zone"], status["podCount"]) == ("a", 2)
    assert status["pods"] == [{"policy": "(built-in)", "count": 1}, {"policy": "(other)", "count": 1}]
    rejected = {entry["pod"].partition("/")[2]: entry for entry in status["rejects"]}
    assert set(rejected) in ({"big", "picky"}, {"big-too", "picky"})
    assert rejected["picky"]["code"] == "NodeAffinityMismatch"
    assert [body["metadata"]["name"] for body in listed.items] == ["n1", "n2"]


async def test_the_cluster_is_summed_up_by_zone_state_reason_and_policy() -> None:
    async with world() as here:
        here.harness.write(
            make_policy("pack", schedulerName="pack"),
            make_policy("try", schedulerName="berth", mode="Shadow"),
            make_policy("wrong", schedulerName="wrong", percentageOfNodesToScore=-1),
        )
        here.harness.write(
            make_node("n1", cpu="4", labels={ZONE: "a"}),
            make_node("n2", cpu="2", labels={ZONE: "b"}, unschedulable=True),
            make_node("n3", cpu="2"),
            make_pod("web", cpu="1"),
            make_pod("big", cpu="64"),
            make_pod("held", gates=["example.com/quota"]),
        )
        await here.harness.pass_time(5)
        view = await here.finish(here.port.cluster_view())
    check(view, "clusterviews")
    status = view["status"]
    assert (status["nodes"], status["unschedulableNodes"], status["pods"], status["pending"]) == (3, 1, 1, 2)
    assert [(zone["zone"], zone["nodes"]) for zone in status["zones"]] == [("", 1), ("a", 1), ("b", 1)]
    assert status["resources"][0] == {"name": "cpu", "allocatable": "8", "requested": "1", "free": "7", "percent": 12}
    assert status["queue"] == [{"state": "Gated", "pods": 1}, {"state": "Unschedulable", "pods": 1}]
    assert status["reasons"] == [{"reason": "InsufficientResource", "pods": 1}]
    assert (status["replica"], status["leads"]) == ("berth-1", True)
    assert status["rates"]["decisionsPerSecond"] == pytest.approx(1 / 60, abs=0.01)
    policies = {policy["name"]: policy for policy in status["policies"]}
    states = {name: policy["state"] for name, policy in policies.items()}
    assert states == {"(built-in)": "InForce", "pack": "InForce", "try": "Shadow", "wrong": "NeverValid"}
    assert "percentageOfNodesToScore" in policies["wrong"]["problem"]
    assert (status["healthy"], status["problems"]) == (True, [])
    assert (policies["try"]["mode"], policies["(built-in)"]["placed"]) == ("Shadow", 1)
    assert sum(policies["try"]["shadow"].values()) >= 1


async def test_the_view_of_the_cluster_says_why_the_replica_is_not_ready() -> None:
    async with world() as here:
        here.problems.append("cache: 1 of 12 kinds are not synced")
        view = await here.finish(here.port.cluster_view())
    check(view, "clusterviews")
    assert (view["status"]["healthy"], view["status"]["problems"]) == (False, ["cache: 1 of 12 kinds are not synced"])
