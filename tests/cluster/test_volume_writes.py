"""What is written about volumes is a patch of one version, or it is not written."""

import asyncio

import pytest

from berth.cluster.api import MERGE_PATCH, Api
from berth.cluster.fence import OpenFence
from berth.cluster.volumes import VolumeWriter
from berth.model import parse_claim, parse_volume
from berth.scheduler.ports import NotWritten
from cluster.manual_clock import ManualClock
from cluster.server import Answer, Cut, Reaction, Server, busy, refusal, until
from engine.storage import make_claim, make_volume

CLAIM_PATH = "/api/v1/namespaces/default/persistentvolumeclaims/data"
VOLUME_PATH = "/api/v1/persistentvolumes/disk"
CLAIM = parse_claim(make_claim("data") | {"metadata": {"name": "data", "namespace": "default", "uid": "c"}})
VOLUME = parse_volume(make_volume("disk") | {"metadata": {"name": "disk", "uid": "v", "resourceVersion": "7"}})
DONE = Answer(200, {})


async def test_a_volume_is_kept_for_a_claim_in_the_version_that_was_decided_on(
    server: Server, api: Api, clock: ManualClock
) -> None:
    server.answer("PATCH", VOLUME_PATH, DONE)
    await VolumeWriter(api, clock, OpenFence()).keep(VOLUME, CLAIM)
    [request] = server.requests
    assert request.headers["Content-Type"] == MERGE_PATCH
    assert request.body["metadata"] == {
        "uid": "v",
        "resourceVersion": "7",
        "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
    }
    reference = request.body["spec"]["claimRef"]
    assert (reference["kind"], reference["namespace"], reference["name"], reference["uid"]) == (
        "PersistentVolumeClaim",
        "default",
        "data",
        "c",
    )


async def test_a_volume_that_somebody_kept_by_hand_stays_theirs(server: Server, api: Api, clock: ManualClock) -> None:
    server.answer("PATCH", VOLUME_PATH, DONE)
    await VolumeWriter(api, clock, OpenFence()).keep(parse_volume(make_volume("disk", claim="data")), CLAIM)
    assert "annotations" not in server.requests[0].body["metadata"]


async def test_a_claim_gets_the_node_as_an_annotation(server: Server, api: Api, clock: ManualClock) -> None:
    server.answer("PATCH", CLAIM_PATH, DONE)
    await VolumeWriter(api, clock, OpenFence()).select(CLAIM, "node-a")
    assert server.requests[0].body["metadata"]["annotations"] == {"volume.kubernetes.io/selected-node": "node-a"}


@pytest.mark.parametrize(
    ("reaction", "words"),
    [
        (refusal(409, "Conflict", "the object has been modified"), "the object has been modified"),
        (refusal(403, "Forbidden", "no permission"), "no permission"),
        (refusal(500, "InternalError", "etcd"), "etcd"),
        (Cut(), CLAIM_PATH),
    ],
)
async def test_anything_but_a_yes_means_that_it_may_not_be_written(
    server: Server, api: Api, clock: ManualClock, reaction: Reaction, words: str
) -> None:
    server.answer("PATCH", CLAIM_PATH, reaction)
    with pytest.raises(NotWritten, match=words):
        await VolumeWriter(api, clock, OpenFence()).select(CLAIM, "node-a")
    assert len(server.requests) == 1


async def test_a_busy_server_is_asked_again(server: Server, api: Api, clock: ManualClock) -> None:
    server.answer("PATCH", CLAIM_PATH, busy("2"), DONE)
    writing = asyncio.create_task(VolumeWriter(api, clock, OpenFence()).select(CLAIM, "node-a"))
    await until(lambda: clock.sleeping == 1)
    await clock.advance(2)
    await writing
    assert len(server.requests) == 2
