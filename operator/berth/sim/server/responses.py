"""HTTP responses: JSON, refusals as Status objects, and a cut connection."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web

from berth.sim.errors import StatusError
from berth.sim.faults import Fail
from berth.sim.server.discovery import PageNotFound
from berth.sim.server.encoding import envelope

INJECTED_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def injected(action: Fail) -> StatusError:
    details = {} if action.retry_after is None else {"retryAfterSeconds": action.retry_after}
    return StatusError(
        action.code, INJECTED_REASONS.get(action.code, "InternalError"), "this failure is injected", details
    )


def error_event(error: StatusError) -> bytes:
    return envelope("ERROR", orjson.dumps(error.to_status()))


def refusal(error: StatusError) -> web.Response:
    if isinstance(error, PageNotFound):
        return web.Response(text=error.message, status=error.code)
    seconds = (error.details or {}).get("retryAfterSeconds")
    headers = None if seconds is None else {"Retry-After": str(seconds)}
    return json_answer(orjson.dumps(error.to_status()), error.code, headers)


def json_answer(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, headers={"Content-Type": "application/json", **(headers or {})})


def cut(request: web.BaseRequest, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """Close the connection under the answer; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.close()
    return response or web.Response()


def warning(text: str) -> dict[str, str]:
    """Returns the header of a warning, which kubectl prints."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return {"Warning": f'299 - "{quoted}"'}
