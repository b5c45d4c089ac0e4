"""DeviceClass: selectors and configuration that many claims share; and the selectors of classes and requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..fields import Body, FieldError, read, read_object, read_optional, read_text
from ..metadata import read_metadata
from .limits import LONGEST_EXPRESSION, MOST_CONFIGURATIONS, MOST_SELECTORS, read_limited


@dataclass(frozen=True, slots=True)
class Selector:
    """A condition on devices: a CEL expression, None for a kind of selector that is not known."""

    expression: str | None


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass; `configuration` is as written, for the drivers. Pods may ask for `extended_resource` instead."""

    name: str
    uid: str
    resource_version: str
    created: str
    selectors: tuple[Selector, ...]
    configuration: tuple[Mapping[str, Any], ...]
    extended_resource: str

    def __hash__(self) -> int:
        return hash(self.uid)


def parse_device_class(body: object) -> DeviceClass:
    """Parse the API body of a DeviceClass; raises InvalidObject."""
    return read("DeviceClass", body, _class)


def read_selectors(owner: Body) -> tuple[Selector, ...]:
    """The field `selectors` of a class or a request."""
    return read_limited(owner, "selectors", _selector, MOST_SELECTORS)


def _class(body: Body) -> DeviceClass:
    metadata = read_metadata(body, namespaced=False)
    created = read_optional(body, "metadata", lambda m: read_text(m, "creationTimestamp")) or ""
    spec = read_object(body, "spec")
    try:
        return DeviceClass(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            created=created,
            selectors=read_selectors(spec),
            configuration=read_limited(spec, "config", dict, MOST_CONFIGURATIONS),
            extended_resource=read_text(spec, "extendedResourceName"),
        )
    except FieldError as error:
        raise error.within("spec") from None


def _selector(body: Body) -> Selector:
    return Selector(read_optional(body, "cel", _expression))


def _expression(body: Body) -> str:
    expression = read_text(body, "expression")
    if len(expression) > LONGEST_EXPRESSION:
        raise FieldError("expression", f"has {len(expression):,} characters, and may have {LONGEST_EXPRESSION:,}")
    return expression
