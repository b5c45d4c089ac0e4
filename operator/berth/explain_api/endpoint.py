"""The endpoint: where the API listens, in the serving thread, with limits of its own."""

import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from berth.explain_api.api import ExplainApi
from berth.explain_api.front_proxy import Authentication, FrontProxy
from berth.explain_api.port import Explanations
from berth.explain_api.watches import LONGEST_SECONDS
from berth.scheduler.access_review import ResourceReviews
from berth.serving.addresses import ListenAddress
from berth.serving.bridge import Bridge
from berth.serving.certified_endpoint import CertifiedEndpoint
from berth.serving.listener import Listener
from berth.serving.serving_certificate import ServedCertificate

MAX_HEADERS: Final = 1000  # one for each group of a user
ANSWER_SECONDS: Final = LONGEST_SECONDS + 60.0


class ExplainEndpoint(CertifiedEndpoint):
    """Implements `berth.serving.server.Endpoint`. `front_proxy` and the certificate are read in the serving thread."""

    flag: Final = "--explain-address"

    def __init__(
        self,
        address: ListenAddress,
        port: Explanations,
        reviews: ResourceReviews,
        certificate: ServedCertificate,
        front_proxy: Callable[[], FrontProxy | None],
    ) -> None:
        super().__init__(address, certificate)
        self._explanations = port
        self._reviews = reviews
        self._front_proxy = front_proxy
        self._api: ExplainApi | None = None

    def make_listener(self, opened: socket.socket, bridge: Bridge, counts: Counter[str]) -> Listener:
        self.note_port(opened)
        authentication = Authentication(self.certificate.pem, self._front_proxy)
        self._api = ExplainApi(self._explanations, authentication, self._reviews, bridge)
        return Listener(
            opened,
            self._api.answer,
            authentication.context,
            self.connections,
            answer_seconds=ANSWER_SECONDS,
            max_headers=MAX_HEADERS,
        )

    def statistics(self) -> dict[str, Any]:
        """Returns connections and answers by outcome; may be called from any thread."""
        answered = {} if self._api is None else self._api.statistics()
        return {"connections": dict(self.connections), **answered}
