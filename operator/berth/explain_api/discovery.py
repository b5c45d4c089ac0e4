"""Discovery: which kinds the group has, in the form of each client that asks.

/apis                                     the groups; for the API server in the aggregated form, with all kinds
/apis/explain.berth.dev                   the versions
/apis/explain.berth.dev/v1alpha1          the kinds; the API server reads it to see whether we are there
"""

from typing import Any, Final

from berth.explain_api.negotiation import DISCOVERY_GROUP
from berth.explain_api.resources import API_VERSION, GROUP, RESOURCES, VERBS, VERSION, ApiResource

_VERSION: Final = {"groupVersion": API_VERSION, "version": VERSION}
_GROUP: Final = {"name": GROUP, "versions": [_VERSION], "preferredVersion": _VERSION}


def group_list() -> dict[str, Any]:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]}


def group() -> dict[str, Any]:
    return {"kind": "APIGroup", "apiVersion": "v1", **_GROUP}


def resource_list() -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [_resource(resource) for resource in RESOURCES],
    }


def _resource(resource: ApiResource) -> dict[str, Any]:
    return {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(VERBS),
        **({"shortNames": list(resource.short_names)} if resource.short_names else {}),
    }


def aggregated(version: str) -> dict[str, Any]:
    """Returns everything at once, as the API server asks for it; `version` is that of the form."""
    kinds = [_aggregated(resource) for resource in RESOURCES]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{DISCOVERY_GROUP}/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": GROUP},
                "versions": [{"version": VERSION, "freshness": "Current", "resources": kinds}],
            }
        ],
    }


def _aggregated(resource: ApiResource) -> dict[str, Any]:
    return {
        "resource": resource.plural,
        "responseKind": {"group": GROUP, "version": VERSION, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(VERBS),
        **({"shortNames": list(resource.short_names)} if resource.short_names else {}),
    }
