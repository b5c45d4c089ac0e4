"""Claims get their volumes."""

from __future__ import annotations

import pytest

from actors.conftest import Act
from actors.worlds import CLAIMS, VOLUMES, Objects, claim, storage_class, until
from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi, Provisioner
from berth.sim.actors.provisioner import SELECTED_NODE, ZONE
from control_plane.client import Client
from support.builders import make_node


@pytest.fixture(autouse=True)
async def provisioner(api: HttpApi, clock: RealClock, act: Act) -> None:
    act(Provisioner(api, clock))


def bound(claims: Objects) -> bool:
    return all(claim["status"].get("phase") == "Bound" for claim in claims.values())


async def test_a_claim_of_an_immediate_class_gets_a_volume_of_its_size(client: Client) -> None:
    await client.create(storage_class("now", "Immediate"))
    await client.create(claim("data", "now"))

    [found] = (await until(client, CLAIMS, bound)).values()
    [volume] = await client.list(VOLUMES)

    assert found["spec"]["volumeName"] == volume["metadata"]["name"]
    assert found["status"]["capacity"] == volume["spec"]["capacity"] == {"storage": "1Gi"}
    assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    assert volume["status"]["phase"] == "Bound"


async def test_a_claim_that_waits_for_its_consumer_gets_a_volume_where_the_selected_node_is(client: Client) -> None:
    await client.create(make_node("n", labels={ZONE: "z"}))
    await client.create(storage_class("later", "WaitForFirstConsumer"))
    await client.create(storage_class("now", "Immediate"))
    await client.create(claim("waits", "later"))
    await client.create(claim("does-not", "now"))
    await until(client, CLAIMS, lambda claims: claims["default/does-not"]["status"].get("phase") == "Bound")
    assert (await client.get(f"{CLAIMS}/waits"))["status"]["phase"] == "Pending"

    await client.patch(f"{CLAIMS}/waits", {"metadata": {"annotations": {SELECTED_NODE: "n"}}})

    claims = await until(client, CLAIMS, bound)
    volume = await client.get(f"{VOLUMES}/{claims['default/waits']['spec']['volumeName']}")
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z"]}]}


async def test_a_claim_and_a_volume_that_name_each_other_are_bound(client: Client) -> None:
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "5Gi"},
            "storageClassName": "by-hand",
            "hostPath": {"path": "/mnt"},
        },
    }
    await client.create(volume)
    await client.create(claim("data", "by-hand", volumeName="disk"))

    await until(client, CLAIMS, bound)
    found = await client.get(f"{VOLUMES}/disk")
    assert found["spec"]["claimRef"]["name"] == "data"


async def test_the_volume_that_was_made_for_a_claim_goes_with_it(client: Client) -> None:
    await client.create(storage_class("now", "Immediate"))
    await client.create(claim("data", "now"))
    await until(client, CLAIMS, bound)

    await client.delete(f"{CLAIMS}/data")

    await until(client, CLAIMS, lambda claims: not claims)
    await until(client, VOLUMES, lambda volumes: not volumes)
