"""Namespaces: their default ServiceAccount, and the end of one with everything in it."""

from __future__ import annotations

from actors.conftest import Act
from actors.worlds import until
from berth.cluster.clock import RealClock
from berth.sim.actors import HttpApi, Namespaces
from control_plane.client import NAMESPACES, Client

TEAM = f"{NAMESPACES}/team"
ACCOUNTS = f"{TEAM}/serviceaccounts"


def namespace(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_a_namespace_has_a_default_account_that_comes_back(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    act(Namespaces(api, clock))
    await client.create(namespace("team"))
    first = (await until(client, ACCOUNTS, lambda found: "team/default" in found))["team/default"]

    await client.delete(f"{ACCOUNTS}/default")

    uid = first["metadata"]["uid"]
    await until(
        client, ACCOUNTS, lambda found: found.get("team/default", {}).get("metadata", {}).get("uid") not in (None, uid)
    )
    await client.delete(TEAM)
    await until(client, NAMESPACES, lambda found: "team" not in found)


async def test_a_deleted_namespace_goes_when_everything_in_it_is_gone(
    client: Client, api: HttpApi, clock: RealClock, act: Act
) -> None:
    act(Namespaces(api, clock))
    await client.create(namespace("team"))
    metadata = {"name": "settings", "namespace": "team"}
    await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    held = {**metadata, "finalizers": ["example.com/hold"]}
    await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": held})

    await client.delete(TEAM)

    await until(client, f"{TEAM}/configmaps", lambda found: not found)
    await until(client, NAMESPACES, lambda found: found["team"]["status"]["phase"] == "Terminating")
    await client.patch(f"{TEAM}/secrets/settings", {"metadata": {"finalizers": None}})
    await until(client, NAMESPACES, lambda found: "team" not in found)
