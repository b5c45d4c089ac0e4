"""SchedulingPolicies: applied, edited, broken, repaired, deleted; each takes effect on the next pod."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping

import pytest

from control_plane.client import PODS, POLICIES, ApiError, Client, Object
from control_plane.launcher import ControlPlane
from end_to_end.policing import (
    GENERATION,
    LIMIT_SECONDS,
    NAME,
    PACK,
    SPREAD,
    apply,
    condition,
    decided,
    node_of,
    policy,
    pool,
    told_by,
    wait_bound,
    wait_for_condition,
    wait_for_policies,
    wait_forgotten,
    wait_in_force,
    wait_refused,
)
from end_to_end.watching import EVENTS, Plane, StartBerth, are_bound, bound
from support.builders import make_node, make_pod

FAILING: Object = {"name": "failing", "expression": "node.labels['no-such-label'] == 'x'", "message": "no"}


async def place(api: Client, prefix: str, count: int, scheduler: str = "berth") -> Counter[str]:
    """Where `count` new pods go, one after the other."""
    pods = [make_pod(f"{prefix}-{i}", cpu="100m", memory="100Mi", scheduler=scheduler) for i in range(count)]
    return Counter([node_of(await decided(api, pod)) for pod in pods])


async def test_an_edit_decides_the_next_pod_and_nothing_restarts(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(f"n{i}", cpu="4", memory="4Gi") for i in range(4))
    berth = berth_process()
    pid = berth.process.pid
    await apply(control_plane, api, policy("mine", "berth", SPREAD))
    await wait_in_force(api, "mine")
    assert max((await place(api, "spread", 4)).values()) == 1

    await apply(control_plane, api, policy("mine", "berth", PACK))
    found = await wait_in_force(api, "mine")
    assert found["status"]["activeGeneration"] == 2
    assert len(await place(api, "pack", 5)) == 1

    await api.delete(f"{POLICIES}/mine")
    await wait_forgotten(berth, "mine")
    assert len(await place(api, "built-in", 6)) > 1
    assert berth.process.pid == pid


async def test_a_bad_edit_leaves_the_last_good_policy_in_force_and_says_what_is_wrong(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(f"n{i}", cpu="4", memory="4Gi") for i in range(3))
    berth_process()
    await apply(control_plane, api, policy("mine", "berth", PACK))
    good = (await wait_in_force(api, "mine"))["status"]
    broken = policy(
        "mine", "berth", {"name": "NodeResorcesFit"}, predicates=[{"name": "x", "expression": "node.colour"}]
    )
    await apply(control_plane, api, broken)

    found = await wait_for_condition(api, "mine", "Accepted", "False", "Invalid")
    status = found["status"]
    assert condition(found, "Active") == ("True", "LastGoodInForce")
    assert (status["observedGeneration"], status["activeGeneration"]) == (2, 1)
    assert (status["activeHash"], status["activeSince"]) == (good["activeHash"], good["activeSince"])
    message = told_by(found, "Accepted")["message"]
    assert "spec.priorities[0].name" in message
    assert "spec.predicates[0].expression" in message
    assert len(await place(api, "still-packed", 4)) == 1

    await apply(control_plane, api, policy("mine", "berth", SPREAD))
    await wait_in_force(api, "mine")
    assert len(await place(api, "repaired", 4)) > 1


def about(events: Mapping[str, Object], name: str) -> list[Object]:
    found = [event for event in events.values() if event["regarding"].get("name") == name]
    return sorted(found, key=lambda event: str(event["eventTime"]))


async def test_events_say_what_became_of_each_generation(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    berth_process()
    generations: tuple[Object, ...] = (PACK, {"name": "NodeResourcesFitt"}, SPREAD)
    for count, entry in enumerate(generations, 1):
        await apply(control_plane, api, policy("told", "berth", entry))
        events = await api.wait_until(
            EVENTS,
            lambda found, count=count: len(about(found, "told")) == count,  # type: ignore[misc]
            timeout_seconds=LIMIT_SECONDS,
        )
    found = about(events, "told")
    assert [(event["type"], event["reason"]) for event in found] == [
        ("Normal", "InForce"),
        ("Warning", "Refused"),
        ("Normal", "InForce"),
    ]
    assert all(event["metadata"]["namespace"] == "default" for event in found)
    assert "generation 2 is refused, generation 1 stays in force: spec.priorities[0].name" in found[1]["note"]
    assert "did you mean NodeResourcesFit?" in found[1]["note"]
    if isinstance(control_plane, ControlPlane):
        described = await asyncio.to_thread(control_plane.kubectl, "describe", "sp", "told")
        assert "generation 2 is refused" in described.stdout
        shown = await asyncio.to_thread(control_plane.kubectl, "events", "--for", "sp/told")
        assert "generation 2 is refused" in shown.stdout


async def test_a_change_wakes_the_pods_that_wait(control_plane: Plane, api: Client, berth_process: StartBerth) -> None:
    await api.create(make_node("n", labels={"pool": "p2"}))
    await apply(control_plane, api, pool("mine", "berth", 1))
    berth_process()
    pod = await decided(api, make_pod("waits"))
    assert node_of(pod) == ""
    await apply(control_plane, api, pool("mine", "berth", 2))
    assert (await wait_bound(api, pod))["metadata"]["annotations"] == {NAME: "mine", GENERATION: "2"}


async def test_pods_of_a_scheduler_name_that_nobody_serves_are_taken_up_when_a_policy_does(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n"))
    berth_process()
    await api.create(make_pod("early", scheduler="batch"))
    await api.create(make_pod("ours"))
    pods = await api.wait_until(PODS, are_bound(1), timeout_seconds=LIMIT_SECONDS)
    assert [pod["metadata"]["name"] for pod in bound(pods)] == ["ours"]

    await apply(control_plane, api, policy("batch", "batch"))
    await api.wait_until(PODS, are_bound(2), timeout_seconds=LIMIT_SECONDS)


async def test_of_two_policies_for_one_name_the_first_by_name_is_active_and_both_say_so(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create_many(make_node(f"n{number}", labels={"pool": f"p{number}"}) for number in (1, 2))
    berth_process()
    await apply(control_plane, api, pool("b", "berth", 2), pool("a", "berth", 1))
    await wait_for_policies(
        api,
        lambda found: (
            condition(found["a"], "Active") == ("True", "InForce")
            and condition(found["b"], "Active") == ("False", "Superseded")
            and all(condition(found[name], "Contested") == ("True", "SameRank") for name in ("a", "b"))
        ),
    )
    pod = await decided(api, make_pod("first"))
    assert (node_of(pod), pod["metadata"]["annotations"][NAME]) == ("n1", "a")

    await api.delete(f"{POLICIES}/a")
    await wait_in_force(api, "b")
    pod = await decided(api, make_pod("second"))
    assert (node_of(pod), pod["metadata"]["annotations"][NAME]) == ("n2", "b")


# --- proof of use ----------------------------------------------------------------------------------------------------


async def test_the_status_proves_the_use_and_counts_go_on_after_a_restart(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n", cpu="2"))
    await apply(control_plane, api, policy("mine", "mine"), policy("idle", "idle"))
    berth = berth_process()
    assert [node_of(await decided(api, make_pod(f"p{n}", cpu="1", scheduler="mine"))) for n in range(3)] == [
        "n",
        "n",
        "",
    ]
    assert berth.stop() == 0

    found = {each["metadata"]["name"]: each["status"] for each in await api.list(POLICIES)}
    mine, idle = found["mine"], found["idle"]
    assert (mine["placed"], mine["pending"], mine["preempted"], mine["activeGeneration"]) == (2, 1, 0, 1)
    assert re.fullmatch("[0-9a-f]{12}", mine["activeHash"])
    assert mine["lastDecisionTime"] >= mine["activeSince"]
    assert (idle["placed"], idle["pending"], "lastDecisionTime" in idle) == (0, 0, False)

    berth = berth_process()
    await api.delete("/api/v1/namespaces/default/pods/p0")
    await api.wait_until(PODS, are_bound(2), timeout_seconds=LIMIT_SECONDS)
    assert berth.stop() == 0
    after = (await api.get(f"{POLICIES}/mine"))["status"]
    assert (after["placed"], after["pending"]) == (3, 0)
    assert [after[key] for key in ("activeHash", "activeSince")] == [mine[key] for key in ("activeHash", "activeSince")]


async def test_counts_are_written_at_most_every_ten_seconds_and_what_is_written_wakes_nobody(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n", cpu=1000))
    berth = berth_process()
    await apply(control_plane, api, policy("mine", "mine"))
    await wait_in_force(api, "mine")
    loop = asyncio.get_running_loop()
    began = loop.time()
    _, version = await api.list_with_version(POLICIES)
    assert len(await place(api, "p", 60, "mine")) == 1
    assert berth.stop() == 0  # which writes once more
    lasted = loop.time() - began
    await api.patch(f"{POLICIES}/mine", {"metadata": {"labels": {"last": "one"}}})
    writes = 0
    async for events in api.follow(POLICIES, version):
        writes += len(events)
        if "labels" in events[-1][1]["metadata"]:
            break
    assert writes - 1 <= 1 + lasted // 10 + 1
    assert events[-1][1]["status"]["placed"] == 60
    assert berth.process.tail(1000).count("SchedulingPolicy mine: generation 1") == 1


async def test_an_expression_that_fails_degrades_its_policy_in_words_and_no_other(
    control_plane: Plane, api: Client, berth_process: StartBerth
) -> None:
    await api.create(make_node("n"))
    await apply(control_plane, api, policy("failing", "failing", predicates=[FAILING]), policy("fine", "fine"))
    berth = berth_process()
    pod = await decided(api, make_pod("stuck", scheduler="failing"))
    await wait_refused(api, pod, "no-such-label")
    assert node_of(await decided(api, make_pod("goes", scheduler="fine"))) == "n"
    assert berth.stop() == 0

    found = {each["metadata"]["name"]: each for each in await api.list(POLICIES)}
    assert condition(found["failing"], "Degraded") == ("True", "ExpressionFailing")
    assert condition(found["fine"], "Degraded") == ("False", "Healthy")
    [error] = found["failing"]["status"]["errors"]
    assert error["source"] == "predicate failing"
    assert "no-such-label" in error["message"]
    assert error["count"] >= 1


# --- what the API server refuses -------------------------------------------------------------------------------------


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
