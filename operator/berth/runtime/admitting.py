"""Admitting: the validating webhook, and what it takes to be asked.

Admitting.endpoint --> Server (listens)      Admitting.run --> Registration (that this replica is asked)
"""

from typing import Any, Final

from berth.admission.endpoint import WebhookEndpoint
from berth.cluster.api import Api
from berth.cluster.fence import Fence
from berth.cluster.registration import Registered, Registration
from berth.cluster.trust import WebhookTrust
from berth.configuration import Options
from berth.policy import PolicyStore
from berth.scheduler.ports import Clock
from berth.serving.addresses import parse_https_address
from berth.serving.serving_certificate import served_certificate

NAME: Final = "policies.berth.dev"  # of the configuration, and of the one webhook in it
PORT_NAME: Final = "webhook"  # of the Service


class Admitting:
    """The webhook, and what keeps it registered."""

    def __init__(self, options: Options, api: Api, clock: Clock, fence: Fence, policies: PolicyStore) -> None:
        certificate = served_certificate(
            options.webhook_tls_cert_file,
            options.webhook_tls_private_key_file,
            "--webhook-tls",
            options.webhook_service,
        )
        self.endpoint = WebhookEndpoint(parse_https_address(options.webhook_address), policies, certificate)
        self._registration: Registration | None = None
        if options.webhook_service:
            namespace, _, name = options.webhook_service.partition("/")
            self._registration = Registration(
                api,
                clock,
                fence,
                Registered(
                    "The webhook of policies",
                    WebhookTrust(NAME, NAME),
                    namespace,
                    name,
                    PORT_NAME,
                    options.advertise_address,
                ),
                port=lambda: self.endpoint.port,
                bundle=certificate.bundle,
                on_trusted=certificate.trusted,
            )

    async def run(self) -> None:
        """Registers this replica while it leads, for ever."""
        if self._registration is not None:
            await self._registration.run()

    def statistics(self) -> dict[str, Any]:
        return self.endpoint.statistics()
