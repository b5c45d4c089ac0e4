"""What the embedded API server says no with: an exception that is a v1 Status.

The words and codes are those of kube-apiserver, since clients read both: kopf tells a 404 from a 409, kubectl prints
the message. `group_resource` is what the real server calls "deployments.apps": the plural, and the group if there is
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class StatusError(Exception):
    """A refusal: HTTP code, reason in one word, message for people, details for programs."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details) if details is not None else None
        self.continue_ = ""
        """A token to go on with, where a list broke off."""

    def to_status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_} if self.continue_ else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong: `problem` is what the real server says behind the field's path."""

    field: str
    reason: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"

    def to_dict(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.problem, "field": self.field}


def success(details: Mapping[str, Any] | None = None, *, code: int = 0) -> dict[str, Any]:
    """A Status that says yes."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = dict(details)
    if code:
        status["code"] = code
    return status


def not_found(group_resource: str, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{group_resource} "{name}" not found', _details(group_resource, name))


def already_exists(group_resource: str, name: str) -> StatusError:
    message = f'{group_resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(group_resource, name))


def conflict(group_resource: str, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {group_resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(group_resource, name))


def forbidden(group_resource: str, name: str, why: str) -> StatusError:
    message = f'{group_resource} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _details(group_resource, name))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def method_not_allowed(message: str) -> StatusError:
    return StatusError(405, "MethodNotAllowed", message)


def not_implemented(message: str) -> StatusError:
    return StatusError(501, "NotImplemented", message)


def too_many_requests(message: str, causes: Sequence[Mapping[str, str]] = ()) -> StatusError:
    details: dict[str, Any] = {"causes": [dict(cause) for cause in causes]} if causes else {}
    return StatusError(429, "TooManyRequests", message, details)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422: one field is named by itself, several in brackets, as field errors of the real server are."""
    group_kind = f"{kind}.{group}" if group else kind
    texts = [str(cause) for cause in causes]
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details |= {"kind": kind, "causes": [cause.to_dict() for cause in causes]}
    return StatusError(422, "Invalid", f'{group_kind} "{name}" is invalid: {said}', details)


def _details(group_resource: str, name: str) -> dict[str, Any]:
    plural, _, group = group_resource.partition(".")
    details = {"name": name}
    if group:
        details["group"] = group
    return {**details, "kind": plural}
