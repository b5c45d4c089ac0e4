"""Pushing a pod out: marked, then deleted with its own grace, once, and never a namesake."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from berth.cluster.api import Api
from berth.cluster.evictions import ATTEMPTS, Evictions
from berth.cluster.fence import OpenFence
from berth.model import Pod, parse_pod
from berth.scheduler.ports import NotEvicted
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Reaction, Seen, Server, refusal, until
from support.builders import make_pod

POD = "/api/v1/namespaces/default/pods/low"
STATUS = f"{POD}/status"
BUSY = refusal(429, "TooManyRequests", "x")


def victim(**fields: Any) -> Pod:
    return parse_pod(make_pod("low", node="n", uid="uid-low", **fields))


PREEMPTOR = parse_pod(make_pod("high", priority=9, scheduler="bin-pack"))


def always() -> bool:
    return True


def answer(server: Server, patch: Reaction = Answer(), delete: Reaction = Answer()) -> None:  # noqa: B008
    server.answer("PATCH", STATUS, patch)
    server.answer("DELETE", POD, delete)


async def evict(
    api: Api, clock: ManualClock, pod: Pod, go_on: Callable[[], bool] = always, pauses: tuple[float, ...] = ()
) -> bool:
    task = asyncio.ensure_future(Evictions(api, clock, OpenFence()).evict(pod, PREEMPTOR, go_on))
    for seconds in pauses:
        await until(lambda: clock.sleeping == 1)
        await clock.advance(seconds)
    return await task


async def test_a_pod_is_told_why_it_ends_and_deleted_with_its_own_grace(
    server: Server, api: Api, clock: ManualClock
) -> None:
    answer(server)
    assert await evict(api, clock, victim())
    patch, delete = server.requests
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert patch.body["metadata"] == {"uid": "uid-low"}
    assert patch.body["status"]["conditions"] == [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "bin-pack: preempting to accommodate a higher priority pod",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:16:40Z",
        }
    ]
    assert (delete.method, delete.path) == ("DELETE", POD)
    assert delete.body == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "uid-low"}}


async def test_a_pod_that_says_so_already_is_not_marked_again(server: Server, api: Api, clock: ManualClock) -> None:
    answer(server)
    marked = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    assert await evict(api, clock, victim(status={"conditions": [marked]}))
    assert [request.method for request in server.requests] == ["DELETE"]


GONE = refusal(404, "NotFound", 'pods "low" not found')
PATCHED_NAMESAKE = refusal(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b")
DELETED_NAMESAKE = refusal(
    409, "Conflict", 'Operation cannot be fulfilled on Pod "low": the UID in the precondition (a) does not match'
)


@pytest.mark.parametrize(
    ("patch", "delete"),
    [(GONE, Answer()), (PATCHED_NAMESAKE, Answer()), (Answer(), GONE), (Answer(), DELETED_NAMESAKE)],
)
async def test_a_pod_that_is_gone_needs_no_pushing(
    server: Server, api: Api, clock: ManualClock, patch: Answer, delete: Answer
) -> None:
    answer(server, patch, delete)
    assert not await evict(api, clock, victim())


@pytest.mark.parametrize(
    "trouble", [BUSY, refusal(500, "InternalError", "x"), refusal(409, "Conflict", "the object has been modified")]
)
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_what_passes_is_tried_again(
    server: Server, api: Api, clock: ManualClock, method: str, trouble: Reaction
) -> None:
    answer(server)
    server.answer(method, STATUS if method == "PATCH" else POD, trouble, trouble, Answer())
    assert await evict(api, clock, victim(), pauses=(0.5, 1.0))
    assert len(server.seen(method)) == 3


async def test_a_cut_connection_is_no_reason_to_give_up(server: Server, api: Api, clock: ManualClock) -> None:
    answer(server)
    server.answer("PATCH", STATUS, Cut(), Answer())
    assert await evict(api, clock, victim(), pauses=(0.5,))


async def test_it_is_given_up_after_a_few_attempts(server: Server, api: Api, clock: ManualClock) -> None:
    answer(server, delete=BUSY)
    with pytest.raises(NotEvicted, match="429"):
        await evict(api, clock, victim(), pauses=(0.5, 1.0, 2.0, 4.0))
    assert len(server.seen("DELETE")) == ATTEMPTS


@pytest.mark.parametrize("no", [refusal(403, "Forbidden", "not allowed"), refusal(422, "Invalid", "not so")])
async def test_a_definite_no_is_not_argued_with(server: Server, api: Api, clock: ManualClock, no: Answer) -> None:
    answer(server, patch=no)
    with pytest.raises(NotEvicted, match=no.body["message"]):
        await evict(api, clock, victim())
    assert len(server.requests) == 1


async def test_nothing_more_is_sent_when_it_has_not_to_go_any_more(
    server: Server, api: Api, clock: ManualClock
) -> None:
    wanted = True

    def change_of_mind(_: Seen) -> Answer:
        nonlocal wanted
        wanted = False
        return Answer()

    answer(server, patch=change_of_mind)
    with pytest.raises(NotEvicted):
        await evict(api, clock, victim(), lambda: wanted)
    assert [request.method for request in server.requests] == ["PATCH"]
