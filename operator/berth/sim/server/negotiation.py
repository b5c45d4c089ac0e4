"""What form of answer a client accepts, and in what form its request's body comes.

Answers are JSON. kubectl asks for protobuf first where it can, with JSON behind it: such lists are read from left to
right and the first entry that can be served wins, as the real server does. Bodies of requests may be protobuf, too.
An object may be asked for as itself, as a Table (what `kubectl get` prints) or as its metadata only.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import orjson
import yaml

from berth.sim.errors import StatusError, bad_request
from berth.sim.server.protobuf import decode_protobuf
from berth.sim.store import PatchKind

JSON: Final = "application/json"
JSON_RANGES: Final = frozenset({JSON, "application/*", "*/*"})
META_GROUP: Final = "meta.k8s.io"
DISCOVERY_GROUP: Final = "apidiscovery.k8s.io"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
PATCH_KINDS: Final[dict[str, PatchKind]] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


class Form(StrEnum):
    """What is made of the objects of an answer."""

    WHOLE = "whole"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    DISCOVERY = "APIGroupDiscoveryList"


_FORMS: Final = {
    ("", ""): Form.WHOLE,
    ("Table", META_GROUP): Form.TABLE,
    ("PartialObjectMetadata", META_GROUP): Form.METADATA,
    ("PartialObjectMetadataList", META_GROUP): Form.METADATA,
    ("APIGroupDiscoveryList", DISCOVERY_GROUP): Form.DISCOVERY,
}
OBJECT_FORMS: Final = frozenset({Form.WHOLE, Form.TABLE, Form.METADATA})
DISCOVERY_FORMS: Final = frozenset({Form.WHOLE, Form.DISCOVERY})


@lru_cache(maxsize=256)
def choose_form(accept: str, offered: frozenset[Form]) -> tuple[Form, str]:
    """The first form of the Accept header that is offered, with the version asked for ("v1"); 406 if none is."""
    for entry in (accept or JSON).split(","):
        media_type, parameters = _media_type(entry)
        if media_type not in JSON_RANGES:
            continue
        form = _FORMS.get((parameters.get("as", ""), parameters.get("g", "")))
        if form is not None and form in offered and parameters.get("v", "v1") in ("v1", "v1beta1", "v2"):
            return form, parameters.get("v", "v1")
    raise StatusError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: {JSON} ({accept} was asked for)",
    )


@lru_cache(maxsize=64)
def patch_kind(content_type: str, *, custom: bool) -> PatchKind:
    """What kind of patch a body is; 415 for what is not served (strategic patches of custom resources, CBOR)."""
    media_type, _ = _media_type(content_type)
    kind = PATCH_KINDS.get(media_type)
    if kind is None or (custom and kind == "strategic"):
        accepted = [name for name, served in PATCH_KINDS.items() if not (custom and served == "strategic")]
        raise _unsupported(accepted)
    return kind


def decode_body(raw: bytes, content_type: str) -> Any:
    """A request's body as plain Python; 415 for CBOR, 400 for what cannot be read."""
    media_type, _ = _media_type(content_type or JSON)
    if media_type == PROTOBUF:
        return decode_protobuf(raw)
    if media_type == "application/cbor":
        raise _unsupported([JSON, "application/yaml", PROTOBUF])
    try:
        if media_type.endswith("yaml"):
            return _decode_yaml(raw)
        return orjson.loads(raw)
    except (orjson.JSONDecodeError, yaml.YAMLError) as error:
        raise bad_request(f"the body of the request cannot be read: {error}") from error


def _decode_yaml(raw: bytes) -> Any:
    """kubectl sends JSON under the name of YAML: read fast what can be."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return yaml.load(raw, Loader=_PlainLoader)


class _PlainLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: a date is a text."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _media_type(entry: str) -> tuple[str, dict[str, str]]:
    media_type, *parameters = (part.strip() for part in entry.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return media_type.lower(), {key.strip(): value.strip() for key, _, value in pairs}


def _unsupported(accepted: list[str]) -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return StatusError(415, "UnsupportedMediaType", message + ", ".join(accepted))
