"""TokenRequest: a token for a ServiceAccount, as `kubectl create token` asks for.

The token is random and known to reviews (`reviews`) from then on. It gives its bearer nothing, since the embedded
server allows every request, and it does not expire.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from berth.sim.errors import Cause, invalid
from berth.sim.objects import Object, mapping, timestamp
from berth.sim.server.reviews import AUDIENCES, AUTHENTICATION, Account

DEFAULT_SECONDS: Final = 3600
SHORTEST_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class IssuedToken:
    token: str
    account: Account
    answer: Object
    """The TokenRequest with its status."""


def issue_token(service_account: Object, request: Object, now: datetime) -> IssuedToken:
    """Raises StatusError for a time that the real server refuses."""
    metadata, spec = service_account["metadata"], mapping(request.get("spec"))
    seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
    _check_time(seconds)
    token = secrets.token_urlsafe(48)
    namespace, name = metadata["namespace"], metadata["name"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    answer = {
        "kind": "TokenRequest",
        "apiVersion": AUTHENTICATION,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"audiences": list(AUDIENCES), "expirationSeconds": seconds, **spec},
        "status": {"token": token, "expirationTimestamp": timestamp(now + timedelta(seconds=seconds))},
    }
    account = Account(f"system:serviceaccount:{namespace}:{name}", metadata["uid"], groups)
    return IssuedToken(token, account, answer)


def _check_time(seconds: object) -> None:
    if not isinstance(seconds, int) or seconds < SHORTEST_SECONDS:
        problem = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
        cause = Cause("spec.expirationSeconds", "FieldValueInvalid", problem)
        raise invalid("authentication.k8s.io", "TokenRequest", "", [cause])
