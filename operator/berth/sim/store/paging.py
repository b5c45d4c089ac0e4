"""Pages of a list: which version they are of, where one ends and the next begins.

A continue token says the version of the first page and the last key that was served, in the real server's form. Once
that version is forgotten the answer is 410, with a token that goes on at the latest version instead.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass

from berth.sim.errors import Cause, StatusError, bad_request, expired, invalid
from berth.sim.objects import Object
from berth.sim.selection import Selection
from berth.sim.store.history import StoredCollection

CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
MATCHES = ("Exact", "NotOlderThan", "")
LATEST = -1


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, or all of it. `remaining` is known only where no selector was given."""

    items: list[Object]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Where a list begins: at a version, behind a key."""

    revision: int
    after_key: str = ""


def start_of(revision: int, version: str, match: str, limit: int, token: str, prefix: str) -> Start:
    """Where the list that a query asks for begins, at a store that has come to `revision`."""
    _check_match(version, match)
    if token:
        if version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        start = _decoded(token, prefix)
        return Start(revision, start.after_key) if start.revision == LATEST else start
    wanted = parse_version(version)
    if wanted > revision:
        raise _too_large(wanted, revision)
    # Kubernetes' older rule: a limit with a version and no match means exactly that version.
    exact = match == "Exact" or (match == "" and limit > 0 and wanted > 0)
    return Start(wanted if exact else revision)


def parse_version(text: str) -> int:
    if not text:
        return 0
    if not text.isdigit():
        raise bad_request(f"invalid resource version: {version_problem(text)}")
    return int(text)


def version_problem(text: str) -> str:
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'


def entries(collection: StoredCollection, revision: int, start: Start, prefix: str) -> Iterator[tuple[str, Object]]:
    """The objects of a list, from its start on."""
    if start.revision >= revision:
        return collection.scan(prefix, start.after_key)
    if start.revision < collection.forgotten:
        raise _forgotten(start, prefix)
    return collection.scan_at(start.revision, prefix, start.after_key)


def cut(
    found: Iterator[tuple[str, Object]], selection: Selection, limit: int, start: Start, prefix: str
) -> tuple[list[Object], str, int | None]:
    """The items of one page, the token of the next, and how many are left."""
    items: list[Object] = []
    last_key = ""
    for key, body in found:
        if not selection.everything and not selection.matches(body):
            continue
        if limit and len(items) == limit:
            remaining = 1 + sum(1 for _ in found) if selection.everything else None
            return items, _encoded(start.revision, last_key, prefix), remaining
        items.append(body)
        last_key = key
    return items, "", None


def _encoded(revision: int, last_key: str, prefix: str) -> str:
    # The zero byte makes the start the first possible key behind the last one.
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": f"{last_key.removeprefix(prefix)}\0"}
    return urlsafe_b64encode(json.dumps(token, separators=(",", ":")).encode()).decode().rstrip("=")


def _decoded(token: str, prefix: str) -> Start:
    try:
        padded = token + "=" * (-len(token) % 4)
        fields = json.loads(urlsafe_b64decode(padded))
        if fields["v"] != "meta.k8s.io/v1" or not isinstance(fields["rv"], int) or fields["rv"] == 0:
            raise ValueError("a version that is not known")
        return Start(fields["rv"], prefix + str(fields["start"]).removesuffix("\0").lstrip("/"))
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def _forgotten(start: Start, prefix: str) -> StatusError:
    if not start.after_key:
        return expired(f"too old resource version: {start.revision}")
    error = expired(CONTINUE_EXPIRED)
    error.continue_ = _encoded(LATEST, start.after_key, prefix)
    return error


def _too_large(wanted: int, revision: int) -> StatusError:
    words = f"Too large resource version: {wanted}, current: {revision}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return StatusError(504, "Timeout", f"Timeout: {words}", {"causes": causes})


def _check_match(version: str, match: str) -> None:
    if match not in MATCHES:
        problem = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise _wrong_match("FieldValueNotSupported", problem)
    if match and not version:
        raise _wrong_match(
            "FieldValueForbidden", "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match == "Exact" and version == "0":
        words = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _wrong_match("FieldValueForbidden", words)


def _wrong_match(reason: str, problem: str) -> StatusError:
    return invalid("meta.k8s.io", "ListOptions", "", [Cause("resourceVersionMatch", reason, problem)])
