"""Explaining: the API of explanations, and what it takes to be asked and believed.

Explaining.endpoint --> Server (listens)            Explaining.run --> AuthenticationConfig (whom it believes)
                                                                   +-> Registration (that this replica is asked)
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from berth.cluster.api import Api
from berth.cluster.authentication_config import AuthenticationConfig
from berth.cluster.fence import Fence
from berth.cluster.registration import Registered, Registration
from berth.cluster.reviews import KubernetesReviews
from berth.cluster.trust import ApiServiceTrust
from berth.configuration import Options
from berth.explain_api.endpoint import ExplainEndpoint
from berth.explain_api.front_proxy import FrontProxy, read_front_proxy
from berth.explain_api.live import LiveExplanations
from berth.explain_api.resources import GROUP, VERSION
from berth.explain_api.sources import Sources
from berth.scheduler.ports import Clock
from berth.serving.addresses import parse_https_address
from berth.serving.serving_certificate import served_certificate

API_SERVICE: Final = f"{VERSION}.{GROUP}"
PORT_NAME: Final = "explain"  # of the Service


class Explaining:
    """The API of explanations, and what keeps it registered."""

    def __init__(self, options: Options, api: Api, clock: Clock, fence: Fence, sources: Sources) -> None:
        self._front_proxy: FrontProxy | None = None
        namespace, _, name = options.explain_service.partition("/")
        certificate = served_certificate(
            options.explain_tls_cert_file,
            options.explain_tls_private_key_file,
            "--explain-tls",
            options.explain_service,
        )
        self.endpoint = ExplainEndpoint(
            parse_https_address(options.explain_address),
            LiveExplanations(sources),
            KubernetesReviews(api),
            certificate,
            lambda: self._front_proxy,
        )
        self._config = AuthenticationConfig(api, clock, self._learn)
        self._registration: Registration | None = None
        if options.explain_service:
            self._registration = Registration(
                api,
                clock,
                fence,
                Registered(
                    "The API of explanations",
                    ApiServiceTrust(API_SERVICE),
                    namespace,
                    name,
                    PORT_NAME,
                    options.advertise_address,
                ),
                port=lambda: self.endpoint.port,
                bundle=certificate.bundle,
                on_trusted=certificate.trusted,
            )

    def _learn(self, data: Mapping[str, Any]) -> None:
        self._front_proxy = read_front_proxy(data)

    async def run(self) -> None:
        """Learns whom to believe, and registers this replica while it leads, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._config.run())
            if self._registration is not None:
                tasks.create_task(self._registration.run())

    def statistics(self) -> dict[str, Any]:
        return self.endpoint.statistics()
