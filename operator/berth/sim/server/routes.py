"""From a path and a method to what is asked for: a resource, a namespace, a name, a subresource and a verb.

Verbs are those of access rules: get, list, watch, create, update, patch, delete, deletecollection.
"""

from __future__ import annotations

from dataclasses import dataclass

from berth.sim.errors import StatusError, method_not_allowed, not_implemented
from berth.sim.resources import Resource
from berth.sim.server.discovery import not_served, subresources
from berth.sim.store import Store

NAMESPACE_SUBRESOURCES = ("status", "finalize")
ITEM_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
POSTED_SUBRESOURCES = ("binding", "eviction", "token")
NO_CONTAINERS = "no containers run in the pods of this cluster"
WHY_NOT = dict.fromkeys(("log", "exec", "attach", "portforward", "proxy", "ephemeralcontainers"), NO_CONTAINERS)


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about; `name` is "" for a collection, `namespace` "" for all of them or none."""

    resource: Resource
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def find_target(method: str, path: str, *, watching: bool, store: Store) -> Target:
    """404 for a kind that is not served, 405 for a method that it has not, 501 for what only a full server has."""
    group, version, rest = _split(path)
    namespace, plural, name, subresource = _place(rest)
    resource = store.find(group, version, plural)
    if resource is None and method == "POST":
        raise _unknown_kind(plural, group, version)
    if resource is None or _is_misplaced(resource, namespace, name):
        raise not_served(store.resources(), group)
    if subresource and subresource not in subresources(resource):
        if resource.custom:  # what a definition does not declare does not exist
            raise not_served(store.resources(), group)
        why = f": {WHY_NOT[subresource]}" if subresource in WHY_NOT else ""
        raise not_implemented(f"the embedded API server does not serve {resource.plural}/{subresource}{why}")
    verb = _verb(method, resource, name, subresource, watching)
    if verb == "create" and resource.namespaced and not namespace:
        raise _not_allowed()
    return Target(resource, verb, namespace, name, subresource)


def _is_misplaced(resource: Resource, namespace: str, name: str) -> bool:
    return bool(namespace) if not resource.namespaced else bool(name and not namespace)


def _split(path: str) -> tuple[str, str, list[str]]:
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) >= 4:
        return parts[1], parts[2], parts[3:]
    raise not_implemented(f"the embedded API server does not serve {path}")


def _place(rest: list[str]) -> tuple[str, str, str, str]:
    """Namespace, plural, name and subresource; a namespace is an object, and what others are in."""
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    if rest[0] in ("watch", "proxy"):
        raise not_implemented(f"the embedded API server does not serve the old /{rest[0]}/ paths")
    plural, name, subresource = (*rest, "", "")[:3]
    if len(rest) > 3:
        raise not_implemented(f"the embedded API server does not serve {plural}/{'/'.join(rest[2:])}")
    return namespace, plural, name, subresource


def _verb(method: str, resource: Resource, name: str, subresource: str, watching: bool) -> str:
    if subresource in POSTED_SUBRESOURCES:
        verb = "create" if method == "POST" else None
    elif name:
        verb = ITEM_VERBS.get(method)
        if verb == "delete" and subresource:
            verb = None
    else:
        verb = COLLECTION_VERBS.get(method)
    if verb == "list" and watching:
        verb = "watch"
    if verb is None or (not subresource and verb not in resource.verbs):
        raise _not_allowed()
    return verb


def _unknown_kind(plural: str, group: str, version: str) -> StatusError:
    """What a user sees who creates an object of a kind that only other clusters have."""
    kind = f"{plural}.{group} ({version})" if group else f"{plural} ({version})"
    message = f"the embedded API server does not serve {kind}; kubectl api-resources lists what it serves"
    return StatusError(404, "NotFound", message, {})


def _not_allowed() -> StatusError:
    return method_not_allowed("the server does not allow this method on the requested resource")
