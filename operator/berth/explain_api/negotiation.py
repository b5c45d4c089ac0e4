"""The form of an answer: an object as itself, as a Table (what `kubectl get` prints), or its metadata only.

An Accept header is read from left to right, and the first entry that is served wins, as in the API server. kubectl
asks for tables and protobuf first, with plain JSON behind them. JSON is the only encoding here.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from berth.explain_api.statuses import JSON, not_acceptable

META_GROUP: Final = "meta.k8s.io"
DISCOVERY_GROUP: Final = "apidiscovery.k8s.io"
JSON_RANGES: Final = frozenset({JSON, "application/*", "*/*"})
LONGEST_ACCEPT: Final = 4096


class Form(StrEnum):
    """What is made of the objects of an answer."""

    WHOLE = "whole"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    DISCOVERY = "APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A form, and the version of it that was asked for."""

    form: Form
    version: str = "v1"


_OBJECTS: Final = {
    ("", ""): (Form.WHOLE, frozenset({"v1"})),
    ("Table", META_GROUP): (Form.TABLE, frozenset({"v1", "v1beta1"})),
    ("PartialObjectMetadata", META_GROUP): (Form.METADATA, frozenset({"v1", "v1beta1"})),
    ("PartialObjectMetadataList", META_GROUP): (Form.METADATA, frozenset({"v1", "v1beta1"})),
}
_DISCOVERY: Final = {
    ("", ""): (Form.WHOLE, frozenset({"v1"})),
    ("APIGroupDiscoveryList", DISCOVERY_GROUP): (Form.DISCOVERY, frozenset({"v2", "v2beta1"})),
}


@lru_cache(maxsize=256)
def object_form(accept: str) -> Accepted:
    """Returns the form for objects and lists; raises ApiRefusal (406)."""
    return _choose(accept, _OBJECTS)


@lru_cache(maxsize=64)
def discovery_form(accept: str) -> Accepted:
    """Returns the form for the list of groups; raises ApiRefusal (406)."""
    return _choose(accept, _DISCOVERY)


def _choose(accept: str, offered: dict[tuple[str, str], tuple[Form, frozenset[str]]]) -> Accepted:
    for entry in (accept[:LONGEST_ACCEPT] or JSON).split(","):
        media_type, parameters = _media_type(entry)
        kind = parameters.get("as", ""), parameters.get("g", "")
        if media_type not in JSON_RANGES or kind not in offered:
            continue
        form, versions = offered[kind]
        version = parameters.get("v", "v1")
        if form is Form.WHOLE or version in versions:
            return Accepted(form, version)
    raise not_acceptable(JSON)


def _media_type(entry: str) -> tuple[str, dict[str, str]]:
    media_type, *parameters = (part.strip() for part in entry.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return media_type.lower(), {key.strip(): value.strip() for key, _, value in pairs}
