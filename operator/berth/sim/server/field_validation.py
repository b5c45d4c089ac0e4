"""fieldValidation: fields of a custom resource that its schema does not know, or of a built-in kind that it has not.

The store drops such fields of custom resources (it prunes, as the real server does). With Strict the server refuses
fields by name; with Warn it names them in a header. Warn is the default for custom resources; built-in kinds are
checked for clients that ask for it, as kubectl does. Of a patch only the fields that it sets are checked.
"""

from __future__ import annotations

from typing import Any

import orjson

from berth.sim.builtin_kinds.api_fields import unknown_fields
from berth.sim.errors import Cause, StatusError, bad_request, invalid
from berth.sim.resources import Resource
from berth.sim.store import Store

STRICT, WARN, IGNORE = "Strict", "Warn", "Ignore"


def check_fields(store: Store, resource: Resource, sent: Any, wish: str, *, is_patch: bool = False) -> str:
    """Returns the warning, "" if there is none; raises StatusError with Strict."""
    wish = wish or (WARN if resource.custom else IGNORE)
    if wish == IGNORE or not isinstance(sent, dict):
        return ""
    checked = _set_fields(sent) if is_patch else sent
    if resource.custom:
        fields = store.unknown_fields(resource, checked)
    else:
        fields = unknown_fields(resource.api_version, resource.kind, checked)
    if fields and wish == STRICT:
        raise _refusal(fields, resource, sent, is_patch=is_patch)
    return _words(fields)


def _set_fields(patch: Any) -> Any:
    """The patch without its nulls: they delete."""
    if isinstance(patch, dict):
        return {key: _set_fields(value) for key, value in patch.items() if value is not None}
    return patch


def _words(fields: list[str]) -> str:
    return ", ".join(f'unknown field "{field}"' for field in fields)


def _refusal(fields: list[str], resource: Resource, sent: dict[str, Any], *, is_patch: bool) -> StatusError:
    """Returns the refusal: of a patch 422, of any other body 400."""
    said = f"strict decoding error: {_words(fields)}"
    if is_patch:
        value = orjson.dumps(orjson.dumps(sent).decode()).decode()
        return invalid("", "", "", [Cause("patch", "FieldValueInvalid", f"Invalid value: {value}: {said}")])
    kind, version = resource.kind, resource.version
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {said}')
