"""Discovery: which groups, versions and kinds there are, in the old form (kopf) and the aggregated one (kubectl).

Everything is computed from the store's resources at each request, so a custom resource is there from the moment its
definition is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from berth.sim.errors import StatusError
from berth.sim.resources import Resource
from berth.sim.server.scale import SCALE_GROUP, SCALE_KIND, SCALE_VERSION, is_scalable

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "gitVersion": "v1.36.0+berth",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "berth/embedded",
}
SUBRESOURCE_VERBS: Final = {
    "binding": ("create",),
    "eviction": ("create",),
    "finalize": ("update",),
    "token": ("create",),
}
SUBRESOURCE_KINDS: Final = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "scale": (SCALE_GROUP, SCALE_VERSION, SCALE_KIND),
}
CHANGING: Final = ("get", "patch", "update")


class PageNotFound(StatusError):
    """A group that is not served: the real server says so in plain text."""

    def __init__(self) -> None:
        super().__init__(404, "", "404 page not found\n")


def not_served(resources: Iterable[Resource], group_name: str) -> StatusError:
    """The refusal of a kind or version that is not there: it depends on whether at least its group is."""
    if any(found.group == group_name for found in resources):
        return StatusError(404, "NotFound", "the server could not find the requested resource", {})
    return PageNotFound()


def subresources(resource: Resource) -> tuple[str, ...]:
    return (*resource.subresources, "scale") if is_scalable(resource) else resource.subresources


# -- the old form ---------------------------------------------------------------------------------------------------


def core_versions() -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    }


def group_list(resources: Iterable[Resource]) -> dict[str, Any]:
    groups = [_group(name, versions) for name, versions in _versions(resources).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(resources: Iterable[Resource], name: str) -> dict[str, Any]:
    versions = _versions(resources).get(name)
    if not name or not versions:
        raise PageNotFound
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(resources: Iterable[Resource], group_name: str, version: str) -> dict[str, Any]:
    known = list(resources)
    served = [found for found in known if (found.group, found.version) == (group_name, version)]
    if not served:
        raise not_served(known, group_name)
    entries = [entry for resource in served for entry in _entries(resource)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": entries,
    }


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _versions(resources: Iterable[Resource]) -> dict[str, list[str]]:
    """The versions of each group, in the order in which they are first met."""
    versions: dict[str, list[str]] = {}
    for resource in resources:
        known = versions.setdefault(resource.group, [])
        if resource.version not in known:
            known.append(resource.version)
    return versions


def _entries(resource: Resource) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_other_names(resource),
    }
    return [entry, *(_subresource_entry(resource, name) for name in subresources(resource))]


def _other_names(resource: Resource) -> dict[str, list[str]]:
    """Short names and categories, as far as the resource has some."""
    names = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: value for key, value in names.items() if value}


def _subresource_entry(resource: Resource, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(SUBRESOURCE_VERBS.get(name, CHANGING)),
    }
    if name in SUBRESOURCE_KINDS:
        group_name, version, kind = SUBRESOURCE_KINDS[name]
        entry |= {"kind": kind, "version": version}
        if group_name:
            entry["group"] = group_name
    return entry


# -- the aggregated form --------------------------------------------------------------------------------------------


def aggregated(resources: Iterable[Resource], *, core: bool, version: str) -> dict[str, Any]:
    """All groups at once, as kubectl asks for since 1.27; `core`: what is under /api rather than /apis."""
    chosen = [found for found in resources if (not found.group) == core]
    items = [_aggregated_group(name, versions, chosen) for name, versions in _versions(chosen).items()]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_group(name: str, versions: list[str], resources: list[Resource]) -> dict[str, Any]:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [_aggregated_version(name, version, resources) for version in versions],
    }


def _aggregated_version(group_name: str, version: str, resources: list[Resource]) -> dict[str, Any]:
    served = [found for found in resources if (found.group, found.version) == (group_name, version)]
    return {"version": version, "freshness": "Current", "resources": [_aggregated_resource(one) for one in served]}


def _aggregated_resource(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_other_names(resource),
    }
    if names := subresources(resource):
        entry["subresources"] = [_aggregated_subresource(resource, name) for name in names]
    return entry


def _aggregated_subresource(resource: Resource, name: str) -> dict[str, Any]:
    group_name, version, kind = SUBRESOURCE_KINDS.get(name, (resource.group, resource.version, resource.kind))
    return {
        "subresource": name,
        "responseKind": {"group": group_name, "version": version, "kind": kind},
        "verbs": list(SUBRESOURCE_VERBS.get(name, CHANGING)),
    }
