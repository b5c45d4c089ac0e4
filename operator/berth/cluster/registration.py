"""The registration of what the API server asks of Berth: the replica that leads is the one that is asked.

    caBundle of the APIService or webhook ... the certificate that this replica has made for itself, where it has
    EndpointSlice of the Service ............ the address and port of this replica

Only the leader knows attempts, rates and decisions, and only one replica's own certificate is trusted, so requests go
to the leader. It registers itself as soon as it leads, and looks from time to time whether that is still true. The
chart makes both objects; what is not there is not kept. An object that names another Service belongs to another
installation, and is left alone.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from berth.cluster.api import MERGE_PATCH, Api
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.fence import Fence
from berth.cluster.trust import TrustObject, encode_bundle
from berth.scheduler.ports import Clock, NotLeading

LOOK_SECONDS: Final = 0.5  # after so long a new leader notices that it leads
KEEP_SECONDS: Final = 10.0
LIMIT_SECONDS: Final = 5.0
SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registered:
    """What is registered, in which object, the Service behind it with the name of its port, and our address.

    Without an address no EndpointSlice is kept.
    """

    what: str
    trust: TrustObject
    namespace: str
    service: str
    port_name: str
    address: str = ""


class ForeignService(Exception):
    """The object leads to another Service; str() names it."""


class Registration:
    """Registers this replica while it leads. `run` for ever.

    `bundle` returns the certificates to trust, None if others see to that; `on_trusted` is told once they are.
    """

    def __init__(
        self,
        api: Api,
        clock: Clock,
        fence: Fence,
        what: Registered,
        *,
        port: Callable[[], int],
        bundle: Callable[[], Awaitable[bytes | None]],
        on_trusted: Callable[[bytes], None],
    ) -> None:
        self._api = api
        self._clock = clock
        self._what = what
        self._fence = fence
        self._port = port
        self._bundle = bundle
        self._on_trusted = on_trusted
        self._problem = ""

    async def run(self) -> None:
        due = 0.0
        while True:
            if not self._fence.is_leading:
                due = 0.0
            elif self._clock.now() >= due:
                due = self._clock.now() + (KEEP_SECONDS if await self.keep() else LOOK_SECONDS)
            await self._clock.sleep(LOOK_SECONDS)

    async def keep(self) -> bool:
        """Writes what is not as it should be; returns whether all is well."""
        try:
            await self._keep_trust()
            await self._keep_address()
        except NotLeading:
            return False
        except (ApiError, Unreachable, ForeignService) as error:
            if str(error) != self._problem:
                _log.warning("%s cannot be registered: %s", self._what.what, error)
            self._problem = str(error)
            return False
        if self._problem:
            _log.info("%s is registered", self._what.what)
        self._problem = ""
        return True

    async def _keep_trust(self) -> None:
        bundle = await self._bundle()
        if bundle is None:
            return
        trust = self._what.trust
        found = await self._read(trust.path)
        if found is None:
            return
        client = trust.client(found)
        service = client.get("service") or {}
        if (service.get("namespace"), service.get("name")) != (self._what.namespace, self._what.service):
            place = f"{service.get('namespace')}/{service.get('name')}" if service else "the API server itself"
            raise ForeignService(f"{trust.kind} {trust.name} leads to {place}; it is left alone")
        encoded = encode_bundle(bundle)
        if client.get("caBundle") != encoded and not client.get("insecureSkipTLSVerify"):
            await self._write(trust.path, *trust.patch(encoded))
        self._on_trusted(bundle)

    async def _keep_address(self) -> None:
        if not self._what.address:
            return
        path = f"{SLICES.format(namespace=self._what.namespace)}/{self._what.service}"
        found = await self._read(path)
        endpoints = [{"addresses": [self._what.address], "conditions": {"ready": True}}]
        ports = [{"name": self._what.port_name, "port": self._port(), "protocol": "TCP"}]
        if found is not None and _differs(found, endpoints[0]["addresses"], ports[0]):
            await self._write(path, MERGE_PATCH, {"endpoints": endpoints, "ports": ports})

    async def _read(self, path: str) -> dict[str, Any] | None:
        try:
            _, found = await self._api.request("GET", path, timeout_seconds=LIMIT_SECONDS)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return found

    async def _write(self, path: str, content_type: str, body: Mapping[str, Any]) -> None:
        await self._api.request(
            "PATCH", path, body=body, content_type=content_type, timeout_seconds=LIMIT_SECONDS, fence=self._fence
        )
        said = "%s is asked of this replica from now on: %s is written"
        _log.info(said, self._what.what, path.rpartition("/")[2])


def _differs(found: Mapping[str, Any], addresses: object, port: Mapping[str, Any]) -> bool:
    endpoints, ports = found.get("endpoints") or [], found.get("ports") or []
    if len(endpoints) != 1 or len(ports) != 1:
        return True
    is_ready = (endpoints[0].get("conditions") or {}).get("ready", True)
    same_port = all(ports[0].get(key) == value for key, value in port.items())
    return endpoints[0].get("addresses") != addresses or not is_ready or not same_port
