"""What the API server makes of new objects: defaults, priorities, default classes; and what it refuses.

The embedded API server's store does it, with the classes and namespaces of the simulated cluster, so a manifest is
refused here in the words in which the real API server refuses it. Limit ranges and runtime classes are applied before.

What it does not do: quotas, webhooks, and the rules that the store does not know (`berth.sim.builtin_kinds`).
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from berth.model import object_key
from berth.sim.errors import StatusError
from berth.sim.objects import Object, copied, items, mapping
from berth.sim.resources import BUILT_IN, NAMESPACES, PRIORITY_CLASSES, STORAGE_CLASSES, Resource
from berth.sim.store import Store
from berth.whatif.cluster_objects import Body, ClusterObjects
from berth.whatif.errors import CannotSimulate

# Set by the API server: a manifest may be a copy of an object that is there.
SET_BY_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
NOW: Final = datetime(2000, 1, 1, tzinfo=UTC)  # no decision reads when a new object was created
# Kinds whose status decisions read: a manifest of one says what it has, as no controller is there to find out.
STATUS_KEPT: Final = frozenset({"Node", "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget"})
RESOURCES: Final[Mapping[tuple[str, str], Resource]] = {(each.kind, each.group): each for each in BUILT_IN}


class Admission:
    """Creates objects as the API server of the simulated cluster would."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._store: Store | None = None

    def admit(self, body: Body) -> Object:
        """Returns the object as it would be stored, or raises CannotSimulate. An unknown kind is returned as it is."""
        group = str(body["apiVersion"]).rpartition("/")[0]
        resource = RESOURCES.get((str(body["kind"]), group))
        if resource is None:
            return copied(dict(body))
        namespace = str(body["metadata"].get("namespace") or "default") if resource.namespaced else ""
        fresh = _fresh(body)
        if resource.kind == "Pod":
            self._apply_runtime_class(fresh)
            self._apply_limit_ranges(fresh, namespace)
        self._check_namespace(body, namespace)
        try:
            stored = self._opened().create(resource, fresh, namespace=namespace, dry_run=True)
        except StatusError as refusal:
            said = f"{refusal.message}{self._hint(refusal)}"
            raise CannotSimulate(f"{resource.kind} {object_key(body)}: {said}") from None
        return {**stored, "status": body["status"]} if resource.kind in STATUS_KEPT and "status" in body else stored

    def _opened(self) -> Store:
        if self._store is None:
            self._store = Store(lambda: NOW)
            for resource in (NAMESPACES, PRIORITY_CLASSES, STORAGE_CLASSES):
                for body in self._objects.admission[resource.kind].values():
                    _furnish(self._store, resource, body)
        return self._store

    def _check_namespace(self, body: Body, namespace: str) -> None:
        if not namespace:
            return
        known = self._objects.admission["Namespace"]
        if not known:  # manifests of a few nodes and pods: every namespace is taken to exist
            _furnish(self._opened(), NAMESPACES, {"metadata": {"name": namespace}})
        elif namespace not in known:
            where = f"{body['kind']} {object_key(body)}: metadata.namespace"
            raise CannotSimulate(f'{where}: there is no namespace "{namespace}": add it with -f, or choose one (-n)')

    def _hint(self, refusal: StatusError) -> str:
        if "no PriorityClass" not in refusal.message:
            return ""
        if "PriorityClass" in self._objects.not_allowed:
            return "; you may not list priorityclasses, so add the class with -f"
        return "; add the class with -f"

    # --- what the store does not do -----------------------------------------------------------------------------------

    def _apply_runtime_class(self, pod: Object) -> None:
        spec = mapping(pod.get("spec"))
        name = spec.get("runtimeClassName")
        if not name:
            return
        found = self._objects.admission["RuntimeClass"].get(str(name))
        if found is None:
            where = f"Pod {object_key(pod)}: spec.runtimeClassName"
            raise CannotSimulate(f'{where}: there is no RuntimeClass "{name}": add it with -f, as it may add overhead')
        overhead, scheduling = mapping(found.get("overhead")), mapping(found.get("scheduling"))
        if overhead.get("podFixed"):
            spec["overhead"] = overhead["podFixed"]
        if scheduling.get("nodeSelector"):
            spec["nodeSelector"] = {**mapping(spec.get("nodeSelector")), **scheduling["nodeSelector"]}
        spec["tolerations"] = [*items(spec.get("tolerations")), *items(scheduling.get("tolerations"))]

    def _apply_limit_ranges(self, pod: Object, namespace: str) -> None:
        for limit in self._container_limits(namespace):
            spec = mapping(pod.get("spec"))
            for container in (*items(spec.get("initContainers")), *items(spec.get("containers"))):
                resources = mapping(mapping(container).get("resources"))
                limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
                requests = {**mapping(limit.get("defaultRequest")), **limits, **requests}
                limits = {**mapping(limit.get("default")), **limits}
                container["resources"] = {**resources, "limits": limits, "requests": requests}

    def _container_limits(self, namespace: str) -> Iterator[Mapping[str, Any]]:
        for key, body in self._objects.admission["LimitRange"].items():
            if key.partition("/")[0] == namespace:
                limits = items(mapping(body.get("spec")).get("limits"))
                yield from (limit for limit in limits if mapping(limit).get("type") == "Container")


def _fresh(body: Body) -> Object:
    """Returns a copy without what the API server sets."""
    fresh = copied(dict(body))
    fresh.pop("status", None)
    fresh["metadata"] = {name: value for name, value in fresh["metadata"].items() if name not in SET_BY_SERVER}
    return fresh


def _furnish(store: Store, resource: Resource, body: Body) -> None:
    """Puts an object of the cluster into the store; those that every API server has are there already."""
    fresh = {**_fresh(body), "apiVersion": resource.api_version, "kind": resource.kind}
    try:
        store.create(resource, fresh)
    except StatusError as refusal:
        if refusal.reason != "AlreadyExists":
            raise CannotSimulate(f"{resource.kind} {object_key(body)}: {refusal.message}") from None
