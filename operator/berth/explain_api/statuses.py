"""Refusals: every error is answered with a v1 Status, as the API server does, so that kubectl prints its message."""

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from berth.explain_api.resources import GROUP
from berth.serving.responses import raw

JSON = "application/json"


class ApiRefusal(Exception):
    """A refusal: the HTTP code, a reason in one word, a message for people, details for programs."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.headers = headers

    def status(self) -> dict[str, Any]:
        """Returns the Status object."""
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }
        return body if self.details is None else {**body, "details": dict(self.details)}

    def response(self) -> web.Response:
        """Returns the response with the Status object."""
        return raw(orjson.dumps(self.status()), JSON, self.code, self.headers)


def bad_request(message: str) -> ApiRefusal:
    return ApiRefusal(400, "BadRequest", message)


def unauthorized(message: str) -> ApiRefusal:
    return ApiRefusal(401, "Unauthorized", message)


def forbidden(message: str, plural: str = "", name: str = "") -> ApiRefusal:
    return ApiRefusal(403, "Forbidden", message, _details(plural, name) if plural else {})


def not_found(plural: str, name: str) -> ApiRefusal:
    return ApiRefusal(404, "NotFound", f'{plural}.{GROUP} "{name}" not found', _details(plural, name))


def nothing_here() -> ApiRefusal:
    return ApiRefusal(404, "NotFound", "the server could not find the requested resource", {})


def not_allowed(allowed: tuple[str, ...]) -> ApiRefusal:
    message = "the server does not allow this method on the requested resource"
    return ApiRefusal(405, "MethodNotAllowed", message, {}, {"Allow": ", ".join(allowed)})


def not_acceptable(accepted: str) -> ApiRefusal:
    return ApiRefusal(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def expired(message: str) -> ApiRefusal:
    return ApiRefusal(410, "Expired", message)


def too_many(message: str, retry_seconds: int) -> ApiRefusal:
    details = {"retryAfterSeconds": retry_seconds}
    return ApiRefusal(429, "TooManyRequests", message, details, {"Retry-After": str(retry_seconds)})


def unavailable(message: str, retry_seconds: int) -> ApiRefusal:
    details = {"retryAfterSeconds": retry_seconds}
    return ApiRefusal(503, "ServiceUnavailable", message, details, {"Retry-After": str(retry_seconds)})


def _details(plural: str, name: str) -> dict[str, str]:
    return {**({"name": name} if name else {}), "group": GROUP, "kind": plural}
