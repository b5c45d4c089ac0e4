"""The peering object: made when it is missing, with clear words when it cannot be."""

from __future__ import annotations

from random import Random

import pytest

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.leadership import Leadership, Terms
from berth.cluster.peering import LEADER, PATH, NoPeering, Peering
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Server, refusal

BERTH = f"{PATH}/berth"
MISSING = refusal(404, "NotFound", 'clusterkopfpeerings.kopf.dev "berth" not found')


@pytest.fixture
def peering(api: Api, clock: ManualClock) -> Peering:
    leadership = Leadership("us", Terms(10), now=clock.now, wall=clock.wall, random=Random(1))
    return Peering(api, clock, "berth", leadership)


async def test_an_object_that_is_there_is_left_as_it_is(server: Server, peering: Peering) -> None:
    server.answer("PATCH", BERTH, Answer(200))
    await peering.ensure()
    assert [(request.method, request.body) for request in server.requests] == [("PATCH", {})]


@pytest.mark.parametrize("made", [Answer(201), refusal(409, "AlreadyExists", "already exists")])
async def test_an_object_that_is_missing_is_made_by_us_or_by_another_replica(
    server: Server, peering: Peering, made: Answer
) -> None:
    server.answer("PATCH", BERTH, MISSING, Answer(200))
    server.answer("POST", PATH, made)
    await peering.ensure()
    assert server.seen("POST")[0].body["metadata"] == {"name": "berth"}


async def test_a_kind_that_is_not_defined_is_named_with_its_file(server: Server, peering: Peering) -> None:
    with pytest.raises(NoPeering, match=r"apply crds/clusterkopfpeerings.kopf.dev.yaml, or run .* --standalone"):
        await peering.ensure()


async def test_what_is_not_allowed_is_named(server: Server, peering: Peering) -> None:
    server.answer("PATCH", BERTH, refusal(403, "Forbidden", 'User "x" cannot patch resource'))
    with pytest.raises(NoPeering, match=r'User "x" cannot patch.* allow get, list, watch and patch'):
        await peering.ensure()
    server.answer("PATCH", BERTH, MISSING)
    server.answer("POST", PATH, refusal(403, "Forbidden", 'User "x" cannot create resource'))
    with pytest.raises(NoPeering, match='User "x" cannot create'):
        await peering.ensure()


async def test_a_server_that_is_away_is_another_matter(server: Server, peering: Peering) -> None:
    server.answer("PATCH", BERTH, Cut())
    with pytest.raises(Unreachable):
        await peering.ensure()


async def test_a_status_that_is_a_subresource_is_written_there(server: Server, peering: Peering) -> None:
    server.answer("PATCH", BERTH, Answer(200, {"metadata": {}}))
    server.answer("PATCH", f"{BERTH}/status", Answer(200))
    await peering.announce(leading=True)
    body, status = server.requests
    assert body.body == status.body
    assert status.path == f"{BERTH}/status"
    assert set(body.body["status"]["us"]) == {"priority", "lifetime", "lastseen", "leadingSince"}


async def test_a_status_that_is_none_is_written_once(server: Server, peering: Peering) -> None:
    server.answer("PATCH", BERTH, lambda request: Answer(200, {"metadata": {}, "status": request.body["status"]}))
    await peering.announce(leading=False)
    assert len(server.requests) == 1
    assert server.requests[0].body["status"]["us"]["leadingSince"] is None


async def test_a_claim_is_withdrawn_only_where_it_is_still_ours(server: Server, peering: Peering) -> None:
    server.answer("PATCH", BERTH, Answer(422))
    await peering.disclaim()
    (request,) = server.requests
    path = "/metadata/annotations/" + LEADER.replace("/", "~1")
    assert request.body == [{"op": "test", "path": path, "value": "us 10"}, {"op": "remove", "path": path}]
    assert request.headers["Content-Type"] == "application/json-patch+json"
    server.answer("PATCH", BERTH, Answer(500))
    with pytest.raises(ApiError):
        await peering.disclaim()


async def test_a_claim_says_in_which_version_it_is(server: Server, peering: Peering) -> None:
    server.answer("PATCH", BERTH, Answer(200, {"metadata": {"resourceVersion": "57"}}))
    assert await peering.claim() == 57
    assert server.requests[0].body == {"metadata": {"annotations": {LEADER: "us 10"}}}
