"""PodScheduled=False: written once, the latest of several, to the right pod, and never after the pod was bound."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth.cluster.api import Api
from berth.cluster.conditions import Conditions
from berth.cluster.fence import OpenFence
from berth.cluster.gate import WriteGate
from berth.model import Pod, parse_pod
from berth.scheduler.error_log import ErrorLog
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Reaction, Seen, Server, refusal, until
from support.builders import make_pod

PATH = "/api/v1/namespaces/default/pods/web/status"
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."


def pod(condition: dict[str, str] | None = None) -> Pod:
    body: dict[str, Any] = make_pod("web")
    if condition is not None:
        body.setdefault("status", {})["conditions"] = [{"type": "PodScheduled", **condition}]
    return parse_pod(body)


@pytest.fixture
async def conditions(api: Api, clock: ManualClock, gate: WriteGate) -> AsyncIterator[Conditions]:
    conditions = Conditions(api, clock, ErrorLog(), gate, OpenFence())
    conditions.start()
    yield conditions
    await conditions.stop()


def written(request: Seen) -> dict[str, Any]:
    condition: dict[str, Any] = request.body["status"]["conditions"][0]
    return condition


async def test_the_condition_is_patched_into_the_pod_of_that_uid(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, Answer())
    conditions.report(pod(), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    request = server.requests[0]
    assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert request.body["metadata"] == {"uid": pod().uid}
    assert written(request) == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": NO_ROOM,
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:16:40Z",
    }


async def test_the_time_of_transition_is_kept_while_the_status_stays(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, Answer())
    conditions.report(pod({"status": "False", "reason": "SchedulingGated", "message": ""}), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert "lastTransitionTime" not in written(server.requests[0])


async def test_a_condition_that_is_there_is_not_written(server: Server, conditions: Conditions) -> None:
    there = pod({"status": "False", "reason": "Unschedulable", "message": NO_ROOM})
    conditions.report(there, "Unschedulable", NO_ROOM)
    assert conditions.statistics()["waiting"] == 0


async def test_a_return_to_what_the_watch_last_showed_is_written(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, Answer())
    shown = pod({"status": "False", "reason": "Unschedulable", "message": "first"})
    conditions.report(shown, "Unschedulable", "second")
    await until(lambda: conditions.statistics()["waiting"] == 0)
    conditions.report(shown, "Unschedulable", "first")
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert [written(request)["message"] for request in server.requests] == ["second", "first"]


def versioned(version: int, message: str = "") -> Pod:
    """The pod as the watch shows it in this version, with this condition or none."""
    body: dict[str, Any] = make_pod("web")
    body["metadata"]["resourceVersion"] = str(version)
    if message:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        body.setdefault("status", {})["conditions"] = [condition]
    return parse_pod(body)


async def test_what_was_written_is_not_written_again_before_the_watch_has_shown_it(
    server: Server, conditions: Conditions
) -> None:
    server.answer("PATCH", PATH, Answer(body={"metadata": {"resourceVersion": "12"}}))
    for _ in range(3):  # waits, is on its way, is written
        conditions.report(versioned(10), "Unschedulable", NO_ROOM)
        await until(lambda: conditions.statistics()["waiting"] == 0)
    conditions.report(versioned(11), "Unschedulable", NO_ROOM)
    conditions.report(versioned(12, NO_ROOM), "Unschedulable", NO_ROOM)
    assert conditions.statistics()["waiting"] == 0
    assert len(server.requests) == 1


async def test_what_waits_is_not_handed_over_twice(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, Answer())
    for _ in range(2):
        conditions.report(versioned(10), "Unschedulable", NO_ROOM)
    await until(lambda: len(server.requests) == 1)
    conditions.report(versioned(10), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert len(server.requests) == 1


async def test_what_another_client_wrote_over_it_is_written_again(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, Answer(body={"metadata": {"resourceVersion": "12"}}))
    conditions.report(versioned(10), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    conditions.report(versioned(13, "something else"), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert len(server.requests) == 2


@pytest.mark.parametrize("trouble", [Cut(), refusal(503, "Unavailable", "x"), refusal(429, "TooMany", "x")])
async def test_a_write_that_fails_for_now_is_repeated(
    server: Server, conditions: Conditions, clock: ManualClock, trouble: Reaction
) -> None:
    server.answer("PATCH", PATH, trouble, trouble, Answer())
    conditions.report(pod(), "Unschedulable", NO_ROOM)
    for seconds in (0.5, 1.0):
        await until(lambda: clock.sleeping == 1)
        await clock.advance(seconds)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert conditions.statistics()["written"] == 1


async def test_only_the_latest_report_is_written_when_the_server_is_back(
    server: Server, conditions: Conditions, clock: ManualClock
) -> None:
    server.answer("PATCH", PATH, Cut(), Answer())
    conditions.report(pod(), "Unschedulable", "first")
    await until(lambda: clock.sleeping == 1)
    conditions.report(pod(), "Unschedulable", "second")
    conditions.report(pod(), "Unschedulable", "third")
    await clock.advance(0.5)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert [written(request)["message"] for request in server.requests] == ["first", "third"]


@pytest.mark.parametrize(
    "answer",
    [
        refusal(404, "NotFound", "gone"),
        refusal(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b"),
        refusal(422, "Invalid", 'Pod "web" is invalid: metadata.uid: Invalid value: "another": field is immutable'),
    ],
)
async def test_a_pod_that_is_gone_or_a_namesake_is_let_go(
    server: Server, conditions: Conditions, answer: Answer
) -> None:
    server.answer("PATCH", PATH, answer)
    conditions.report(pod(), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert conditions.statistics()["gone"] == 1


async def test_a_refusal_for_good_is_given_up(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, refusal(422, "Invalid", "no"))
    conditions.report(pod(), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert conditions.statistics()["refused"] == 1


async def test_nothing_is_written_about_a_pod_that_is_about_to_be_bound(
    server: Server, conditions: Conditions, clock: ManualClock
) -> None:
    server.answer("PATCH", PATH, Cut(), Answer())
    conditions.report(pod(), "Unschedulable", NO_ROOM)
    await until(lambda: clock.sleeping == 1)
    await conditions.settle(pod().uid)
    await clock.advance(60)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert len(server.requests) == 1


async def test_the_condition_says_which_generation_of_the_pod_it_is_about(
    server: Server, conditions: Conditions
) -> None:
    server.answer("PATCH", PATH, Answer())
    body: dict[str, Any] = make_pod("web")
    body["metadata"]["generation"] = 4
    conditions.report(parse_pod(body), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert written(server.requests[0])["observedGeneration"] == 4


async def test_conditions_that_are_forbidden_do_not_stop_the_others(server: Server, conditions: Conditions) -> None:
    pods = [parse_pod(make_pod(f"web-{number}", namespace="closed")) for number in range(40)]
    for other in pods:
        path = f"/api/v1/namespaces/closed/pods/{other.name}/status"
        server.answer("PATCH", path, refusal(403, "Forbidden", "no"))
        conditions.report(other, "Unschedulable", NO_ROOM)
    await until(lambda: len(server.requests) == len(pods))
    server.answer("PATCH", PATH, Answer())
    conditions.report(pod(), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics().get("written") == 1)


async def test_condition_and_nomination_are_one_request(server: Server, conditions: Conditions) -> None:
    versions: list[str] = []
    server.answer("PATCH", PATH, Answer(body={"metadata": {"resourceVersion": "77"}}))
    conditions.nominate(pod(), "n1", versions.append)
    conditions.report(pod(), "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    (request,) = server.requests
    assert request.body["metadata"] == {"uid": pod().uid}
    assert request.body["status"]["nominatedNodeName"] == "n1"
    assert written(request)["message"] == NO_ROOM
    assert versions == ["77"]


async def test_a_nomination_is_written_although_the_condition_is_there(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, Answer())
    there = pod({"status": "False", "reason": "Unschedulable", "message": NO_ROOM})
    conditions.nominate(there, "n1", lambda version: None)
    conditions.report(there, "Unschedulable", NO_ROOM)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert server.requests[0].body["status"]["nominatedNodeName"] == "n1"


async def test_a_nomination_that_ends_is_taken_away_and_no_condition_with_it(
    server: Server, conditions: Conditions
) -> None:
    server.answer("PATCH", PATH, Answer())
    conditions.nominate(pod(), "", lambda version: None)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert server.requests[0].body["status"] == {"nominatedNodeName": None}


async def test_a_nomination_of_a_pod_that_was_bound_meanwhile_is_given_up_quietly(
    server: Server, conditions: Conditions, caplog: pytest.LogCaptureFixture
) -> None:
    said = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
    server.answer("PATCH", PATH, refusal(422, "Invalid", f'Pod "web" is invalid: {said}'))
    conditions.nominate(pod(), "n1", lambda version: pytest.fail("it was not written"))
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert (len(server.requests), caplog.records) == (1, [])
    assert not conditions.nominates(pod().uid)


async def test_a_nomination_does_not_replace_a_condition_that_waits(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, Answer())
    conditions.report(pod(), "Unschedulable", NO_ROOM)
    conditions.nominate(pod(), "n1", lambda version: None)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    (request,) = server.requests
    assert (written(request)["message"], request.body["status"]["nominatedNodeName"]) == (NO_ROOM, "n1")


async def test_of_two_nominations_the_later_is_written_and_told_of(
    server: Server, conditions: Conditions, clock: ManualClock
) -> None:
    told: list[str] = []
    server.answer("PATCH", PATH, Cut(), Answer(body={"metadata": {"resourceVersion": "8"}}))
    conditions.nominate(pod(), "n1", lambda version: told.append(f"n1 {version}"))
    await until(lambda: clock.sleeping == 1)
    conditions.nominate(pod(), "n2", lambda version: told.append(f"n2 {version}"))
    await clock.advance(0.5)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert [request.body["status"]["nominatedNodeName"] for request in server.requests] == ["n1", "n2"]
    assert told == ["n2 8"]


async def test_nothing_is_written_of_the_nomination_of_a_bound_pod(server: Server, conditions: Conditions) -> None:
    conditions.nominate(pod(), "n1", lambda version: None)
    conditions.forget(pod().uid)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert server.requests == []


async def test_a_nomination_decided_while_another_is_written_is_written_as_well(
    server: Server, conditions: Conditions
) -> None:
    def answer(_: Seen) -> Answer:
        if len(server.requests) == 1:
            conditions.nominate(pod(), "n2", lambda version: None)
        return Answer()

    server.answer("PATCH", PATH, answer)
    conditions.nominate(pod(), "n1", lambda version: None)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert [request.body["status"]["nominatedNodeName"] for request in server.requests] == ["n1", "n2"]


async def test_a_nomination_that_waited_when_the_lead_was_lost_is_never_written(
    server: Server, conditions: Conditions, clock: ManualClock
) -> None:
    server.answer("PATCH", PATH, Cut(), Answer())
    conditions.nominate(pod(), "n1", lambda version: None)
    await until(lambda: clock.sleeping == 1)
    conditions.withdraw_all()
    await clock.advance(60)
    await until(lambda: conditions.statistics()["waiting"] == 0)
    conditions.report(pod(), "Unschedulable", NO_ROOM)  # as the leader again
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert ["nominatedNodeName" in request.body["status"] for request in server.requests] == [True, False]


async def test_what_another_leader_wrote_meanwhile_is_not_written_again(server: Server, conditions: Conditions) -> None:
    server.answer("PATCH", PATH, Answer())
    conditions.report(pod(), "Unschedulable", "ours")
    await until(lambda: conditions.statistics()["waiting"] == 0)
    conditions.withdraw_all()
    theirs = pod({"status": "False", "reason": "Unschedulable", "message": "theirs"})
    conditions.report(theirs, "Unschedulable", "theirs")
    await until(lambda: conditions.statistics()["waiting"] == 0)
    assert [written(request)["message"] for request in server.requests] == ["ours"]
