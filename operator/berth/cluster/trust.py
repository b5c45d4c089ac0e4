"""Where the API server is told whom to ask and which certificates to trust: APIServices, and webhooks.

Each names one Service. One that names another Service than ours belongs to another installation.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from berth.cluster.api import MERGE_PATCH, STRATEGIC_MERGE_PATCH

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
VALIDATING_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

_Object = Mapping[str, Any]


class TrustObject(Protocol):
    """An object of the API server's with a Service and a caBundle."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def path(self) -> str: ...

    def client(self, found: _Object) -> _Object:
        """Returns the part that has `service` and `caBundle`; empty if there is none."""
        ...

    def patch(self, bundle: str) -> tuple[str, dict[str, Any]]:
        """Returns the content type and the body of a patch that sets the caBundle."""
        ...


@dataclass(frozen=True, slots=True)
class ApiServiceTrust:
    """Of an aggregated API."""

    name: str
    kind = "APIService"

    @property
    def path(self) -> str:
        return f"{API_SERVICES}/{self.name}"

    def client(self, found: _Object) -> _Object:
        return found.get("spec") or {}

    def patch(self, bundle: str) -> tuple[str, dict[str, Any]]:
        return MERGE_PATCH, {"spec": {"caBundle": bundle}}


@dataclass(frozen=True, slots=True)
class WebhookTrust:
    """Of a validating webhook: the configuration's name, and that of the webhook in it."""

    name: str
    webhook: str
    kind = "ValidatingWebhookConfiguration"

    @property
    def path(self) -> str:
        return f"{VALIDATING_WEBHOOKS}/{self.name}"

    def client(self, found: _Object) -> _Object:
        webhooks = [one for one in found.get("webhooks") or [] if one.get("name") == self.webhook]
        return (webhooks[0].get("clientConfig") or {}) if webhooks else {}

    def patch(self, bundle: str) -> tuple[str, dict[str, Any]]:
        # Webhooks are merged by name, so others in the same object stay.
        return STRATEGIC_MERGE_PATCH, {"webhooks": [{"name": self.webhook, "clientConfig": {"caBundle": bundle}}]}


def encode_bundle(bundle: bytes) -> str:
    """Returns the certificates as the objects have them."""
    return base64.b64encode(bundle).decode()
