"""The leader registers itself as the replica that the API server asks for explanations."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from berth.cluster.api import Api
from berth.cluster.authentication_config import AuthenticationConfig
from berth.cluster.credentials import Credentials, Source
from berth.cluster.registration import KEEP_SECONDS, LOOK_SECONDS, Registered, Registration
from berth.cluster.trust import ApiServiceTrust, WebhookTrust, encode_bundle
from berth.scheduler.ports import NotLeading
from berth.sim.resources import API_SERVICES, CONFIG_MAPS, ENDPOINT_SLICES, NAMESPACES
from berth.sim.server import SimServer
from berth.sim.store import Store
from cluster.manual_clock import ManualClock
from cluster.server import until

NAME = "v1alpha1.explain.berth.dev"
WHAT = Registered("The API", ApiServiceTrust(NAME), "berth-system", "berth-explain", "explain", "10.1.2.3")
PORT = 10262


def api_service(service: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    service = service or {"namespace": "berth-system", "name": "berth-explain", "port": 443}
    group = {"group": "explain.berth.dev", "version": "v1alpha1", "groupPriorityMinimum": 100, "versionPriority": 10}
    metadata = {"name": NAME}
    spec = {**group, "service": service, **spec}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata, "spec": spec}


SLICE = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "berth-explain", "namespace": "berth-system"},
    "addressType": "IPv4",
    "endpoints": [],
}


@dataclass
class FakeFence:
    is_leading: bool = True
    is_open: bool = True
    request_seconds: float = 5.0

    def check(self) -> None:
        if not self.is_open:
            raise NotLeading("somebody else leads")


@dataclass
class World:
    """A store behind an API server, and a replica."""

    store: Store
    api: Api
    clock: ManualClock = field(default_factory=ManualClock)
    fence: FakeFence = field(default_factory=FakeFence)
    bundle: bytes | None = b"certificate"
    trusted: list[bytes] = field(default_factory=list)

    def registration(self, what: Registered = WHAT) -> Registration:
        return Registration(
            self.api,
            self.clock,
            self.fence,
            what,
            port=lambda: PORT,
            bundle=self._bundle,
            on_trusted=self.trusted.append,
        )

    async def _bundle(self) -> bytes | None:
        return self.bundle

    @property
    def trust(self) -> str:
        return str(self.store.get(API_SERVICES, "", NAME)["spec"].get("caBundle", ""))

    @property
    def endpoints(self) -> list[tuple[str, int]]:
        found = self.store.get(ENDPOINT_SLICES, "berth-system", "berth-explain")
        ports = [port["port"] for port in found.get("ports") or []]
        return [(one["addresses"][0], port) for one in found.get("endpoints") or [] for port in ports]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = Store(lambda: datetime.now(UTC))
    store.create(NAMESPACES, {"kind": "Namespace", "metadata": {"name": "berth-system"}})
    server = SimServer(store)
    await server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    api = Api(Credentials(Source(str(tmp_path / "kubeconfig"), None)))
    await api.open()
    yield World(store, api)
    await api.close()
    await server.stop()


def install(world: World, **spec: Any) -> None:
    world.store.create(API_SERVICES, api_service(**spec))
    world.store.create(ENDPOINT_SLICES, SLICE, namespace="berth-system")


async def test_the_leader_writes_its_certificate_and_its_address(world: World) -> None:
    install(world)
    assert await world.registration().keep()
    assert base64.b64decode(world.trust) == b"certificate"
    assert world.endpoints == [("10.1.2.3", PORT)]
    assert world.trusted == [b"certificate"]


async def test_what_is_as_it_should_be_is_not_written_again(world: World) -> None:
    install(world)
    registration = world.registration()
    await registration.keep()
    revision = world.store.revision
    await registration.keep()
    assert world.store.revision == revision


async def test_another_leader_takes_both_over(world: World) -> None:
    install(world)
    await world.registration().keep()
    world.bundle = b"another"
    await world.registration(replace(WHAT, address="10.9.9.9")).keep()
    assert base64.b64decode(world.trust) == b"another"
    assert world.endpoints == [("10.9.9.9", PORT)]


async def test_a_replica_registers_itself_as_soon_as_it_leads_and_keeps_looking(world: World) -> None:
    install(world)
    world.fence.is_leading = False
    running = asyncio.create_task(world.registration().run())
    await world.clock.advance(KEEP_SECONDS)
    assert world.endpoints == []

    world.fence.is_leading = True
    await world.clock.advance(LOOK_SECONDS)
    await until(lambda: world.endpoints == [("10.1.2.3", PORT)])
    world.store.patch(ENDPOINT_SLICES, "berth-system", "berth-explain", {"endpoints": []}, "merge")
    while not world.endpoints:
        await until(lambda: world.clock.sleeping > 0)
        await world.clock.advance(LOOK_SECONDS)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_certificate_of_others_and_an_address_that_is_not_known_are_left_alone(world: World) -> None:
    install(world, caBundle="Z2l2ZW4=")
    world.bundle = None
    assert await world.registration(replace(WHAT, address="")).keep()
    assert world.trust == "Z2l2ZW4="
    assert world.endpoints == []


async def test_whoever_trusts_everything_is_left_alone(world: World) -> None:
    install(world, insecureSkipTLSVerify=True)
    assert await world.registration().keep()
    assert world.trust == ""


async def test_what_is_not_installed_is_not_made(world: World) -> None:
    assert await world.registration().keep()
    assert world.store.list(API_SERVICES).items == []
    assert world.store.list(ENDPOINT_SLICES).items == []


async def test_the_api_service_of_another_installation_is_left_alone_and_named_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    install(world, service={"namespace": "other", "name": "berth-explain", "port": 443})
    registration = world.registration()
    with caplog.at_level(logging.WARNING):
        assert not await registration.keep()
        assert not await registration.keep()
    assert world.trust == ""
    assert world.endpoints == []
    assert [record.getMessage() for record in caplog.records] == [
        f"The API cannot be registered: APIService {NAME} leads to other/berth-explain; it is left alone"
    ]


async def test_nothing_is_written_behind_the_fence(world: World) -> None:
    install(world)
    world.fence.is_open = False
    assert not await world.registration().keep()
    assert world.trust == ""


# --- a webhook -------------------------------------------------------------------------------------------------------


def a_webhook(name: str, service: str, bundle: str = "") -> dict[str, Any]:
    client = {"service": {"namespace": "berth-system", "name": service}, **({"caBundle": bundle} if bundle else {})}
    return {"name": name, "clientConfig": client}


def test_the_webhook_of_that_name_is_the_one_that_is_told_whom_to_trust() -> None:
    trust = WebhookTrust("policies.berth.dev", "policies.berth.dev")
    found = {"webhooks": [a_webhook("other", "x"), a_webhook("policies.berth.dev", "berth-webhook", "QQ==")]}
    assert trust.path.endswith("/validatingwebhookconfigurations/policies.berth.dev")
    assert trust.client(found)["service"]["name"] == "berth-webhook"
    assert trust.client(found)["caBundle"] == encode_bundle(b"A")
    assert trust.client({"webhooks": [a_webhook("other", "x")]}) == trust.client({}) == {}
    content_type, body = trust.patch("QQ==")
    assert content_type == "application/strategic-merge-patch+json"
    assert body == {"webhooks": [{"name": "policies.berth.dev", "clientConfig": {"caBundle": "QQ=="}}]}


# --- whom the API believes -------------------------------------------------------------------------------------------


async def test_the_front_proxy_is_handed_over_when_it_is_known_and_when_it_changes(world: World) -> None:
    seen: list[object] = []
    config = AuthenticationConfig(world.api, world.clock, seen.append)
    assert not await config.read()
    body = {"kind": "ConfigMap", "metadata": {"name": "extension-apiserver-authentication"}, "data": {"a": "1"}}
    world.store.create(CONFIG_MAPS, body, namespace="kube-system")
    assert await config.read()
    assert await config.read()
    world.store.patch(CONFIG_MAPS, "kube-system", "extension-apiserver-authentication", {"data": {"a": "2"}}, "merge")
    assert await config.read()
    assert seen == [{"a": "1"}, {"a": "2"}]


async def test_a_front_proxy_that_cannot_be_used_is_complained_of_and_the_last_one_stays(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(data: object) -> None:
        raise ValueError("it names no header")

    body = {"kind": "ConfigMap", "metadata": {"name": "extension-apiserver-authentication"}, "data": {"a": "1"}}
    world.store.create(CONFIG_MAPS, body, namespace="kube-system")
    config = AuthenticationConfig(world.api, world.clock, refuse)
    with caplog.at_level(logging.WARNING):
        assert not await config.read()
        assert not await config.read()
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["it names no header"]
