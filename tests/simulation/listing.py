"""Lists that are answered wrongly, by a proxy, a load balancer that reloads or a server that is just starting.

Each fault is one answer to one request for a page. What is no JSON object goes through the shipped decoder, so that it
is told as a real answer would be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from berth.cluster.api import decode_object, refusal_of
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.http1 import Answer as RawAnswer

Answer = tuple[int, dict[str, Any]] | Exception

HTML = b"<html><head><title>Please wait</title></head><body>The site is being reloaded.</body></html>"
WHOLE_LIST_FAULTS = (
    "list: 404 of a proxy",
    "list: 404 of the server",
    "list: HTML",
    "list: {}",
    "list: empty",
    "list: empty, no version",
    "list: truncated",
    "list: another kind",
)
LATER_PAGE_FAULTS = ("list: page 410", "list: page 404", "list: page 500", "list: page {}")
LIST_FAULTS = (*WHOLE_LIST_FAULTS, *LATER_PAGE_FAULTS)
NOT_FOUND = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}


def wrong_list(fault: str, true: Mapping[str, Any], other: Mapping[str, Any]) -> Answer:
    """The answer in the place of the true one; `other` is a true list of another kind."""
    match fault:
        case "list: 404 of a proxy" | "list: page 404":
            return refused(404, "Not Found", HTML)
        case "list: 404 of the server":
            message = "the server could not find the requested resource"
            return refused(404, "Not Found", orjson.dumps({**NOT_FOUND, "message": message}))
        case "list: page 410":
            return ApiError(410, "Expired", "The provided continue parameter is too old")
        case "list: page 500":
            return ApiError(500, "InternalError", "this failure is injected")
        case "list: HTML":
            return decoded(HTML)
        case "list: truncated":
            raw = orjson.dumps(true)
            return decoded(raw[: len(raw) // 2])
        case "list: {}" | "list: page {}":
            return 200, {}
        case "list: empty":
            version = true["metadata"]["resourceVersion"]
            return 200, {**true, "metadata": {"resourceVersion": version}, "items": []}
        case "list: empty, no version":
            return 200, {**true, "metadata": {}, "items": []}
        case "list: another kind":
            return 200, dict(other)
    raise LookupError(fault)


def refused(status: int, reason: str, raw: bytes) -> ApiError:
    return refusal_of(RawAnswer(status, reason, raw, 0.0))


def decoded(raw: bytes) -> Answer:
    """As the shipped client reads it."""
    try:
        return 200, decode_object(raw)
    except Unreachable as error:
        return error
