"""A bind is a yes, a definite no, or unknown."""

import asyncio

import pytest

from berth.cluster import binder as binder_module
from berth.cluster.api import Api
from berth.cluster.binder import Binder
from berth.cluster.fence import OpenFence
from berth.model import parse_pod
from berth.scheduler.ports import BindRefused, OutcomeUnknown, Unavailable
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Reaction, Server, Silence, busy, refusal, until
from support.builders import make_pod

PATH = "/api/v1/namespaces/default/pods/web"
BINDING = f"{PATH}/binding"
POD = parse_pod(make_pod("web"))


async def test_a_bind_names_the_uid_and_limits_the_server_s_time(server: Server, api: Api, clock: ManualClock) -> None:
    server.answer("POST", BINDING, Answer(201, {"kind": "Status", "status": "Success"}))
    await Binder(api, clock, OpenFence()).bind(POD, "node-a")
    request = server.requests[0]
    assert request.body["metadata"] == {"name": "web", "namespace": "default", "uid": POD.uid}
    assert request.body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
    assert request.query == {"timeout": "10s"}


async def test_annotations_go_with_the_bind_in_the_same_request(server: Server, api: Api, clock: ManualClock) -> None:
    server.answer("POST", BINDING, Answer(201))
    await Binder(api, clock, OpenFence()).bind(POD, "node-a", {"berth.dev/policy": "batch"})
    (request,) = server.requests
    assert request.body["metadata"]["annotations"] == {"berth.dev/policy": "batch"}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
async def test_a_4xx_is_a_definite_no(server: Server, api: Api, clock: ManualClock, status: int) -> None:
    server.answer("POST", BINDING, refusal(status, "Reason", "because"))
    with pytest.raises(BindRefused) as caught:
        await Binder(api, clock, OpenFence()).bind(POD, "node-a")
    assert (caught.value.code, caught.value.message) == (status, "because")


@pytest.mark.parametrize(
    "reaction",
    [
        Answer(404, "404 page not found\n"),  # of a proxy
        refusal(408, "Timeout", "slow"),
        refusal(500, "InternalError", "etcd"),
        refusal(504, "Timeout", "late"),
        Cut(),
        Silence(),
    ],
)
async def test_anything_else_is_unknown(server: Server, api: Api, clock: ManualClock, reaction: Reaction) -> None:
    server.answer("POST", BINDING, reaction)
    with pytest.raises(OutcomeUnknown):
        # Only silence takes so long, and a slow machine may not send the request in much less.
        await Binder(api, clock, OpenFence(), client_seconds=2.0).bind(POD, "node-a")
    assert len(server.requests) == 1


async def test_a_pod_is_read_as_it_is_now(server: Server, api: Api, clock: ManualClock) -> None:
    server.answer("GET", PATH, Answer(200, make_pod("web", node="node-a")))
    body = await Binder(api, clock, OpenFence()).read_pod(POD)
    assert body is not None
    assert body["spec"]["nodeName"] == "node-a"


async def test_a_namesake_and_a_missing_pod_are_no_pod(server: Server, api: Api, clock: ManualClock) -> None:
    server.answer("GET", PATH, Answer(200, make_pod("web", uid="another")), refusal(404, "NotFound", "gone"))
    assert await Binder(api, clock, OpenFence()).read_pod(POD) is None
    assert await Binder(api, clock, OpenFence()).read_pod(POD) is None


@pytest.mark.parametrize("reaction", [refusal(503, "Unavailable", "starting"), refusal(403, "Forbidden", "no"), Cut()])
async def test_a_pod_that_cannot_be_read_is_unavailable(
    server: Server, api: Api, clock: ManualClock, reaction: Reaction
) -> None:
    server.answer("GET", PATH, reaction)
    with pytest.raises(Unavailable):
        await Binder(api, clock, OpenFence()).read_pod(POD)


@pytest.mark.parametrize("answer", [Answer(404, "404 page not found\n"), Answer(200, "<html></html>"), Answer(200, {})])
async def test_an_answer_that_is_not_the_api_server_s_does_not_say_that_a_pod_is_gone(
    server: Server, api: Api, clock: ManualClock, answer: Answer
) -> None:
    server.answer("GET", PATH, answer)
    with pytest.raises(Unavailable):
        await Binder(api, clock, OpenFence()).read_pod(POD)


async def test_a_bind_that_the_server_has_no_time_for_is_sent_again_when_the_server_asks_for_it(
    server: Server, api: Api, clock: ManualClock
) -> None:
    server.answer("POST", BINDING, busy("3"), busy(), Answer(201))
    bind = asyncio.create_task(Binder(api, clock, OpenFence()).bind(POD, "node-a"))
    await until(lambda: clock.sleeping == 1)
    await clock.advance(2.9)
    assert (len(server.requests), clock.sleeping) == (1, 1)
    await clock.advance(0.1)
    await until(lambda: len(server.requests) == 2 and clock.sleeping == 1)
    await clock.advance(1.0)
    await bind
    assert len(server.requests) == 3


async def test_a_server_that_stays_too_busy_is_a_definite_no(server: Server, api: Api, clock: ManualClock) -> None:
    server.answer("POST", BINDING, busy())
    bind = asyncio.create_task(Binder(api, clock, OpenFence()).bind(POD, "node-a"))
    for attempt in range(1, binder_module.ATTEMPTS):
        await until(lambda attempt=attempt: len(server.requests) == attempt and clock.sleeping == 1)  # type: ignore[misc]
        await clock.advance(15)
    with pytest.raises(BindRefused) as caught:
        await bind
    assert (caught.value.code, len(server.requests)) == (429, binder_module.ATTEMPTS)


async def test_a_pod_that_is_gone_when_the_server_has_time_is_refused_as_gone(
    server: Server, api: Api, clock: ManualClock
) -> None:
    server.answer("POST", BINDING, busy(), refusal(404, "NotFound", "gone"))
    bind = asyncio.create_task(Binder(api, clock, OpenFence()).bind(POD, "node-a"))
    await until(lambda: clock.sleeping == 1)
    await clock.advance(0.5)
    with pytest.raises(BindRefused) as caught:
        await bind
    assert caught.value.pod_is_gone
