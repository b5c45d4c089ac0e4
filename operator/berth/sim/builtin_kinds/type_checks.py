"""The types of fields in a body: where the other modules expect an object, a list or a text, there is one.

A real API server decodes into types and refuses with 400 what does not fit. Here the fields that the store reads have a
type: an object with the types of its fields, a list with that of its items, or a Python type. Null means that the field
is absent. Other fields may be anything, and custom resources have their schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.sim.errors import StatusError, bad_request
from berth.sim.objects import Object
from berth.sim.resources import Resource

ANY: Final[Mapping[str, Any]] = {}
TEXTS: Final = "texts"  # a map with free keys

METADATA: Final = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "labels": TEXTS,
    "annotations": TEXTS,
    "finalizers": [str],
    "ownerReferences": [ANY],
}
CONTAINER: Final = {
    "name": str,
    "image": str,
    "resources": {"requests": ANY, "limits": ANY},
    "ports": [ANY],
}
POD_SPEC: Final = {
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "tolerations": [ANY],
    "schedulingGates": [{"name": str}],
    "nodeSelector": TEXTS,
    "nodeName": str,
    "schedulerName": str,
    "priorityClassName": str,
    "priority": int,
    "terminationGracePeriodSeconds": int,
}
SELECTOR: Final = {"matchLabels": TEXTS, "matchExpressions": [{"key": str, "values": [str]}]}
STRATEGY: Final = {"type": str, "rollingUpdate": ANY}
TEMPLATE: Final = {"metadata": METADATA, "spec": POD_SPEC}
STATUS: Final = {"conditions": [ANY]}
WORKLOAD: Final = {
    "spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": STRATEGY, "updateStrategy": STRATEGY},
    "status": STATUS,
}
PLAIN: Final = {"spec": ANY, "status": STATUS}
TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "pods": {"spec": POD_SPEC, "status": {**STATUS, "phase": str}},
    "nodes": {"spec": {"taints": [ANY]}, "status": {**STATUS, "capacity": ANY, "allocatable": ANY, "nodeInfo": ANY}},
    "namespaces": {"spec": {"finalizers": [str]}, "status": STATUS},
    "deployments.apps": WORKLOAD,
    "replicasets.apps": WORKLOAD,
    "statefulsets.apps": WORKLOAD,
    "daemonsets.apps": WORKLOAD,
    "jobs.batch": WORKLOAD,
    "cronjobs.batch": {
        "spec": {
            "schedule": str,
            "timeZone": str,
            "jobTemplate": {"metadata": METADATA, "spec": {"template": TEMPLATE}},
        },
        "status": STATUS,
    },
    "rolebindings.rbac.authorization.k8s.io": {"roleRef": ANY, "subjects": [ANY]},
    "clusterrolebindings.rbac.authorization.k8s.io": {"roleRef": ANY, "subjects": [ANY]},
    "replicationcontrollers": {"spec": {"selector": TEXTS, "template": TEMPLATE}, "status": STATUS},
    "poddisruptionbudgets.policy": {
        "spec": {"selector": SELECTOR},
        "status": {
            **STATUS,
            "disruptedPods": TEXTS,
            "disruptionsAllowed": int,
            "currentHealthy": int,
            "desiredHealthy": int,
            "observedGeneration": int,
        },
    },
    "services": {"spec": {"ports": [ANY], "selector": TEXTS, "type": str, "clusterIP": str}, "status": STATUS},
    "persistentvolumes": {"spec": {"hostPath": ANY}, "status": STATUS},
    "persistentvolumeclaims": {"spec": {"storageClassName": str}, "status": STATUS},
    "events": {"involvedObject": {"namespace": str}, "source": ANY},
    "secrets": {"data": TEXTS, "stringData": TEXTS},
    "configmaps": {"data": TEXTS},
    "priorityclasses.scheduling.k8s.io": {"value": int},
    "apiservices.apiregistration.k8s.io": {
        "spec": {
            "group": str,
            "version": str,
            "caBundle": str,
            "groupPriorityMinimum": int,
            "versionPriority": int,
            "service": {"namespace": str, "name": str, "port": int},
        },
        "status": STATUS,
    },
    "endpointslices.discovery.k8s.io": {
        "addressType": str,
        "endpoints": [{"addresses": [str], "conditions": ANY}],
        "ports": [{"name": str, "port": int, "protocol": str}],
    },
    "customresourcedefinitions.apiextensions.k8s.io": {
        "spec": {
            "group": str,
            "scope": str,
            "names": {
                "kind": str,
                "plural": str,
                "singular": str,
                "listKind": str,
                "shortNames": [str],
                "categories": [str],
            },
            "versions": [{"name": str, "schema": {"openAPIV3Schema": ANY}, "subresources": ANY}],
            "conversion": {"strategy": str},
        },
        "status": STATUS,
    },
}
NAMES: Final = {dict: "object", list: "array", str: "string", int: "integer"}


def check_types(resource: Resource, body: Object) -> None:
    """Refuses a body with a field of the wrong type; drops nulls. The body is our own copy."""
    types = {} if resource.custom else TYPES.get(resource.storage, PLAIN)
    _check_fields(resource, body, {"metadata": METADATA, **types}, "")


def _check_fields(resource: Resource, body: Object, types: Mapping[str, Any], path: str) -> None:
    for key, wanted in types.items():
        if key not in body:
            continue
        if body[key] is None:
            del body[key]
        else:
            _check(resource, body[key], wanted, f"{path}.{key}" if path else key)


def _check(resource: Resource, value: Any, wanted: Any, path: str) -> None:
    kind = _kind(wanted)
    if not _is_a(value, kind):
        raise _mistyped(resource, path, value, NAMES[kind])
    if wanted is TEXTS:
        for item in value.values():
            _check(resource, item, str, path)
    elif kind is dict:
        _check_fields(resource, value, wanted, path)
    elif kind is list:
        for place, item in enumerate(value):
            _check(resource, item, wanted[0], f"{path}[{place}]")


def _is_a(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _kind(wanted: Any) -> type:
    if wanted is str or wanted is int:
        return str if wanted is str else int
    return list if isinstance(wanted, list) else dict


def _mistyped(resource: Resource, path: str, value: Any, wanted: str) -> StatusError:
    kind = resource.kind
    return bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: '
        f"json: cannot unmarshal {_found(value)} into field {path} of type {wanted}"
    )


def _found(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "bool"), (str, "string"), (dict, "object"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "number"
