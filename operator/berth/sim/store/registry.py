"""Which resources are served right now: the built-in ones, and those of the custom resource definitions.

It also knows how a stored body looks in a served version, which fields of a kind can be selected by, and which lists
are merged by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from berth.sim.custom_resources import crds
from berth.sim.custom_resources.schema import Schema
from berth.sim.objects import Object
from berth.sim.resources import BUILT_IN, Resource
from berth.sim.selection import Selection, offered_fields, select
from berth.sim.store import event_versions, patching
from berth.sim.store.history import View


class Registry:
    def __init__(self) -> None:
        self._resources = {(found.group, found.version, found.plural): found for found in BUILT_IN}
        self._custom: dict[Resource, crds.CustomVersion] = {}

    def all(self) -> tuple[Resource, ...]:
        return tuple(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def definition_of(self, resource: Resource) -> str:
        """The name of the definition behind a custom resource; empty for a built-in one."""
        custom = self._custom.get(resource)
        return "" if custom is None else custom.definition

    def schema_of(self, resource: Resource) -> Schema | None:
        custom = self._custom.get(resource)
        return None if custom is None else custom.schema

    def made_by(self, definition: str) -> list[Resource]:
        return [resource for resource, custom in self._custom.items() if custom.definition == definition]

    def serve(self, definition: Object) -> None:
        """Serve what a definition says, instead of what it said before."""
        self.unserve(definition["metadata"]["name"])
        for custom in crds.served_versions(definition):
            resource = custom.resource
            self._resources[resource.group, resource.version, resource.plural] = resource
            self._custom[resource] = custom

    def unserve(self, definition: str) -> None:
        for resource in self.made_by(definition):
            del self._custom[resource]
            del self._resources[resource.group, resource.version, resource.plural]

    # -- how a kind is read and patched --------------------------------------------------------------------------------

    def selection(self, resource: Resource, labels: str, fields: str) -> Selection:
        custom = self._custom.get(resource)
        offered = offered_fields(resource.storage, resource.group) if custom is None else custom.fields
        return select(labels, fields, offered)

    def view(self, resource: Resource) -> View:
        """How a stored body looks in a served version."""
        if resource.storage == "events" and resource.group:
            return event_versions.to_new
        if resource.custom:
            return lambda body: _in_version(body, resource.api_version)
        return as_stored

    def list_keys(self, resource: Resource) -> patching.KeysOf:
        schema = self.schema_of(resource)
        if schema is None:
            return patching.built_in_keys

        def keys_of(path: tuple[str, ...], sample: Sequence[Any]) -> tuple[str, ...]:
            return schema.list_keys(path)

        return keys_of


def as_stored(body: Object) -> Object:
    return body


def _in_version(body: Object, api_version: str) -> Object:
    return body if body["apiVersion"] == api_version else {**body, "apiVersion": api_version}
