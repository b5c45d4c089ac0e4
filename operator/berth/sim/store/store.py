"""The embedded cluster's objects: every rule of the API server that Berth, kopf and kubectl rely on, without HTTP.

    store = Store(clock=lambda: datetime.now(UTC))
    pod = store.create(PODS, {...}, namespace="default")
    page = store.list(PODS, "default", label_selector="app=web")
    async for kind, body in store.watch(PODS, resource_version=page.resource_version): ...

One counter numbers all writes, as in etcd: it is the resourceVersion of what was written and of every list. A write
makes a new body and never touches one that was handed out, so lists, watches and the history share them; callers must
not change what they get. Refusals are StatusError with the real server's words.

The parts: history (objects, changes, watches), paging, selection, defaults, admission, validation, pods (binding,
eviction), removal, updates, patching, registry, crds and schema. Nothing here waits or does I/O, so every call is
atomic on its event loop.

What it does not do: managedFields, garbage collection of dependents, emptying of namespaces that are being deleted and
whatever else the controllers of a real cluster do; checking built-in kinds beyond what validation.py says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Final, Literal
from uuid import UUID

from berth.sim.builtin_kinds import admission, defaults, pods, validation
from berth.sim.custom_resources import crds
from berth.sim.errors import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    success,
)
from berth.sim.objects import Object, copied, key_of, mapping, timestamp, with_version
from berth.sim.resources import BUDGETS, CRDS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, Resource
from berth.sim.store import patching, removal, updates
from berth.sim.store.history import Contents, StoredCollection, Watch
from berth.sim.store.paging import Page, cut, entries, parse_version, start_of, version_problem
from berth.sim.store.registry import Registry, as_stored

__all__ = ["Backup", "Object", "Page", "PatchKind", "Store", "Watch"]

PatchKind = Literal["json", "merge", "strategic", "apply"]

SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5
GENERATED_LENGTH: Final = 63 - SUFFIX_LENGTH
MADE_BY_REPLACE: Final = frozenset({"leases.coordination.k8s.io", "events", "services"})
NOT_STRATEGIC: Final = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
)


@dataclass(frozen=True, slots=True)
class Backup:
    """What a store held at one version."""

    revision: int
    contents: Mapping[str, Contents]  # by storage
    applied: Mapping[tuple[str, str], dict[str, Object]]


class Store:
    """See the module's text. `history`: how many changes of each kind are remembered for watches and pages."""

    def __init__(self, clock: Callable[[], datetime], seed: int = 0, history: int = 10_000) -> None:
        self._clock = clock
        self._random = Random(seed)
        self._history = history
        self._revision = 0
        self._writes = 0
        self._collections: dict[str, StoredCollection] = {}
        self._registry = Registry()
        self._applied: dict[tuple[str, str], dict[str, Object]] = {}
        self._furnish()

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The version of the latest write."""
        return self._revision

    def resources(self) -> tuple[Resource, ...]:
        """Everything that is served: built-in kinds, then custom ones."""
        return self._registry.all()

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._registry.find(group, version, plural)

    def definition(self, resource: Resource) -> Object | None:
        """The CustomResourceDefinition behind a resource."""
        return self._collection(CRDS).get(self._registry.definition_of(resource))

    def unknown_fields(self, resource: Resource, body: Object) -> list[str]:
        """The fields of a custom resource that its schema does not know, for strict validation."""
        schema = self._registry.schema_of(resource)
        return [] if schema is None else schema.unknown_fields(body)

    def statistics(self) -> Mapping[str, int]:
        collections = self._collections.values()
        return {
            "revision": self._revision,
            "writes": self._writes,
            "objects": sum(map(len, collections)),
            "watches": sum(collection.watchers for collection in collections),
            "remembered_changes": sum(collection.remembered for collection in collections),
        }

    def compact(self) -> None:
        """Forgets all changes so far: a watch from an older version gets 410."""
        for resource in self._registry.all():
            self._collection(resource).compact(self._revision)

    def back_up(self) -> Backup:
        """Everything as it is now, for `restore`."""
        contents = {name: collection.contents() for name, collection in self._collections.items()}
        return Backup(self._revision, contents, dict(self._applied))

    def restore(self, backup: Backup) -> None:
        """Go back to a backup, as an etcd that is restored from one: versions too. All watches end.

        A watch that asks for changes after a version that has not been reached again gets none until it is.
        """
        self._revision = backup.revision
        self._applied = dict(backup.applied)
        for name, collection in self._collections.items():
            collection.put_back(backup.contents.get(name, {}), backup.revision)
        for name in {self._registry.definition_of(resource) for resource in self._registry.all()} - {""}:
            self._registry.unserve(name)
        for definition in backup.contents.get(CRDS.storage, {}).values():
            self._registry.serve(definition)

    # -- reading -----------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        return self._registry.view(resource)(self._required(resource, namespace, name))

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        match: str = "",
    ) -> Page:
        selection = self._registry.selection(resource, label_selector, field_selector)
        prefix = _prefix(resource, namespace)
        start = start_of(self._revision, resource_version, match, limit, continue_, prefix)
        found = entries(self._collection(resource), self._revision, start, prefix)
        items, token, remaining = cut(found, selection, limit, start, prefix)
        view = self._registry.view(resource)
        if view is not as_stored:
            items = [view(body) for body in items]
        return Page(items, str(start.revision), token, remaining)

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        send_initial_events: bool = False,
        bookmarks: bool = False,
    ) -> Watch:
        """Changes after a version; without one, or with 0 or initial events, what there is comes first, as ADDED."""
        selection = self._registry.selection(resource, label_selector, field_selector)
        collection, prefix = self._collection(resource), _prefix(resource, namespace)
        if resource_version and not resource_version.isdigit():
            raise StatusError(500, "", version_problem(resource_version))
        begins_whole = send_initial_events or resource_version in ("", "0")
        after = self._revision if begins_whole else parse_version(resource_version)
        bookmark = (lambda: self._bookmark(resource)) if bookmarks else None
        watch = Watch(collection, prefix, selection, self._registry.view(resource), bookmark, after)
        if begins_whole:
            for _, body in collection.scan(prefix):
                if selection.matches(body):
                    watch.begin_with(body)
        if send_initial_events:
            watch.bookmark(ends_initial_events=True)
        collection.attach(watch, after)
        return watch

    # -- writing -----------------------------------------------------------------------------------------------------

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> Object:
        fresh = updates.incoming(resource, body, namespace)
        if fresh["metadata"].get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        self._check_namespace(resource, fresh["metadata"])
        self._stamp(resource, fresh["metadata"])
        fresh = self._begun(resource, fresh)
        validation.check(resource, fresh)
        name = fresh["metadata"]["name"]
        key = key_of(namespace if resource.namespaced else "", name)
        if self._collection(resource).get(key) is not None:
            raise already_exists(resource.group_resource, name)
        if dry_run:
            return self._registry.view(resource)(fresh)
        return self._registry.view(resource)(self._put(resource, key, fresh))

    def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        fresh = updates.incoming(resource, body, namespace)
        updates.check_name(fresh["metadata"], name)
        before = self._collection(resource).get(_key(resource, namespace, name))
        if before is None:
            if resource.storage in MADE_BY_REPLACE and not subresource:
                return self.create(resource, fresh, namespace=namespace, dry_run=dry_run)
            raise not_found(resource.group_resource, name)
        updates.check_replaced(resource, fresh["metadata"], before["metadata"])
        return self._update(resource, before, fresh, subresource, dry_run)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: object,
        kind: PatchKind,
        *,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> tuple[Object, bool]:
        """The object, and whether it was made by this. `force` changes nothing: managers do not conflict here."""
        key = _key(resource, namespace, name)
        before = self._collection(resource).get(key)
        if kind == "apply":
            updates.check_apply(patch, field_manager)
            if before is None:
                return self._apply_new(resource, namespace, key, patch, field_manager, dry_run), True
        if before is None:
            raise not_found(resource.group_resource, name)
        served = self._registry.view(resource)(before)
        patched = self._patched(resource, key, served, patch, kind, field_manager)
        fresh = updates.incoming(resource, patched, namespace)
        updates.check_name(fresh["metadata"], name)
        if str(fresh["metadata"].get("resourceVersion", "")) not in ("", before["metadata"]["resourceVersion"]):
            raise conflict(resource.group_resource, name, updates.MODIFIED)
        after = self._update(resource, before, fresh, subresource, dry_run)
        if kind == "apply" and not dry_run and not subresource:
            self._applied.setdefault((resource.storage, key), {})[field_manager] = copied(mapping(patch))
        return after, False

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        grace_period_seconds: int | None = None,
        preconditions: Mapping[str, str] | None = None,
        propagation: str | None = None,
        dry_run: bool = False,
    ) -> tuple[Object, bool]:
        """What is left of the object, and whether it is gone."""
        before = self._required(resource, namespace, name)
        wanted = preconditions or {}
        removal.check_preconditions(resource, before, wanted.get("uid", ""), wanted.get("resourceVersion", ""))
        after, goes = removal.marked(resource, before, grace_period_seconds, propagation, self._now())
        key, view = _key(resource, namespace, name), self._registry.view(resource)
        if dry_run:
            return view(after), goes
        if after is not before:
            after = self._put(resource, key, updates.recounted(resource, before, after))
        if goes:
            after = self._drop(resource, key)
        return view(after), goes

    def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation: str | None = None,
        dry_run: bool = False,
    ) -> Page:
        """Delete what a list shows; returns it as it was."""
        found = self.list(resource, namespace, label_selector=label_selector, field_selector=field_selector)
        for body in found.items:
            metadata = body["metadata"]
            self.delete(
                resource,
                metadata.get("namespace", ""),
                metadata["name"],
                grace_period_seconds=grace_period_seconds,
                propagation=propagation,
                dry_run=dry_run,
            )
        return found

    def bind(self, namespace: str, name: str, binding: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Put a pod on a node, with PodScheduled=True; returns a Status."""
        node_name = pods.check_binding(name, binding)
        before = self._required(PODS, namespace, name)
        pods.check_preconditions(before, mapping(binding.get("metadata")))
        node = self._collection(NODES).get(node_name)
        after = pods.bound(before, node_name, binding, node, self._now())
        if not dry_run:
            self._put(PODS, _key(PODS, namespace, name), after)
        return success(code=201)

    def evict(self, namespace: str, name: str, eviction: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Delete a pod if its disruption budget allows it; returns a Status."""
        if mapping(eviction.get("metadata")).get("name") not in (None, "", name):
            raise bad_request("name in URL does not match name in Eviction object")
        options = mapping(eviction.get("deleteOptions"))
        dry_run = dry_run or bool(options.get("dryRun"))
        pod = self._required(PODS, namespace, name)
        wanted = mapping(options.get("preconditions"))
        removal.check_preconditions(PODS, pod, wanted.get("uid") or "", wanted.get("resourceVersion") or "")
        if not pods.is_free_of_budgets(pod):
            self._take_disruption(pod, dry_run)
        if not dry_run:
            marked = pods.evicted(pod, self._now())
            if marked != pod:
                self._put(PODS, _key(PODS, namespace, name), marked)
            self.delete(PODS, namespace, name, grace_period_seconds=options.get("gracePeriodSeconds"))
        return success(code=201)

    # -- one write ---------------------------------------------------------------------------------------------------

    def _put(self, resource: Resource, key: str, body: Object) -> Object:
        """Writes a body, which is shared from now on."""
        self._revision += 1
        self._writes += 1
        after = with_version(body, self._revision)
        self._collection(resource).write(self._revision, key, after)
        if resource is CRDS:
            self._registry.serve(after)
        return after

    def _drop(self, resource: Resource, key: str) -> Object:
        self._revision += 1
        self._writes += 1
        self._applied.pop((resource.storage, key), None)
        change = self._collection(resource).write(self._revision, key, None)
        if resource is CRDS:
            self._end_custom(key)
        return change.last

    def _end_custom(self, definition: str) -> None:
        """A definition takes its objects with it, and ends their watches."""
        for resource in self._registry.made_by(definition):
            collection = self._collection(resource)
            for key, _ in tuple(collection.scan("")):
                self._drop(resource, key)
            collection.end_watches()
        self._registry.unserve(definition)

    def _update(self, resource: Resource, before: Object, fresh: Object, subresource: str, dry_run: bool) -> Object:
        view = self._registry.view(resource)
        after = updates.merged(resource, before, fresh, subresource)
        after = self._completed(resource, after, subresource)
        validation.check(resource, after, before, is_resize=subresource == "resize")
        if after == before:
            return view(before)
        after = updates.recounted(resource, before, after)
        if dry_run:
            return view(after)
        key = _key(resource, before["metadata"].get("namespace", ""), before["metadata"]["name"])
        if removal.is_over(resource, after):
            self._drop(resource, key)
            return view(after)
        return view(self._put(resource, key, after))

    def _completed(self, resource: Resource, after: Object, subresource: str) -> Object:
        """With the defaults of what was written, and checked against the schema if there is one."""
        if resource.custom:
            return self._conforming(resource, after, subresource)
        if resource is CRDS:
            after = copied(after)
            crds.complete(after)
            crds.served_versions(after)
        elif not subresource:
            after = copied(after)
            defaults.complete(resource.storage, after)
            if resource is PODS:
                defaults.tolerate_absent_nodes(after["spec"])
        elif subresource == "status":
            after = {**after, "status": copied(after.get("status"))} if "status" in after else dict(after)
            defaults.complete_status(resource.storage, after)
        return after

    def _conforming(self, resource: Resource, body: Object, subresource: str = "") -> Object:
        schema = self._registry.schema_of(resource)
        if schema is None:
            raise not_found(resource.group_resource, str(body["metadata"].get("name", "")))
        body = schema.complete(body)
        if causes := schema.problems(body, subresource=subresource):
            raise invalid(resource.group, resource.kind, str(body["metadata"].get("name", "")), causes)
        return body

    # -- new objects -------------------------------------------------------------------------------------------------

    def _check_namespace(self, resource: Resource, metadata: Object) -> None:
        if not resource.namespaced:
            return
        name = metadata["namespace"]
        namespace = self._collection(NAMESPACES).get(name)
        if namespace is None:
            raise not_found("namespaces", name)
        if namespace["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {name} because it is being terminated"
            error = forbidden(resource.group_resource, str(metadata.get("name", "")), why)
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {name} is being terminated"}
            error.details = {**(error.details or {}), "causes": [{**cause, "field": "metadata.namespace"}]}
            raise error

    def _stamp(self, resource: Resource, metadata: Object) -> None:
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generated_name(resource, metadata)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"):
            metadata.pop(name, None)
        metadata["uid"] = str(UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self._now()
        if updates.is_counted(resource):
            metadata["generation"] = 1
        updates.drop_empty(metadata)

    def _generated_name(self, resource: Resource, metadata: Object) -> str:
        base = str(metadata["generateName"])[:GENERATED_LENGTH]
        while True:
            name = base + "".join(self._random.choices(SUFFIX_LETTERS, k=SUFFIX_LENGTH))
            if self._collection(resource).get(key_of(metadata.get("namespace", ""), name)) is None:
                return name

    def _begun(self, resource: Resource, body: Object) -> Object:
        """A new object with everything that the server adds."""
        if resource.custom:
            if resource.has_status:
                body.pop("status", None)
            return self._conforming(resource, body)
        if resource is CRDS:
            crds.complete(body)
            crds.served_versions(body)
            crds.establish(body, self._now())
            return body
        admission.admit(resource.storage, body, self._everything)
        defaults.complete(resource.storage, body)
        if body["metadata"].get("name"):  # without one it is refused in a moment
            defaults.begin(resource.storage, body, self._now())
        return body

    def _furnish(self) -> None:
        """What an empty cluster has."""
        for name in admission.SYSTEM_NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": name}})
        for name, value, words in admission.SYSTEM_PRIORITIES:
            self.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, "description": words})

    # -- patches -----------------------------------------------------------------------------------------------------

    def _patched(
        self, resource: Resource, key: str, served: Object, patch: object, kind: PatchKind, manager: str
    ) -> Object:
        if kind == "json":
            patched = patching.json_patch(served, patch)
        elif not isinstance(patch, Mapping):
            shown = "array" if isinstance(patch, list) else "value"
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {shown} into Go value of type map[string]interface {{}}"
            )
        elif kind == "merge":
            patched = patching.merge(served, patch)
        elif kind == "apply":
            previously = self._applied.get((resource.storage, key), {}).get(manager)
            patched = patching.apply(served, patch, previously, self._registry.list_keys(resource))
        elif resource.custom:
            raise StatusError(415, "UnsupportedMediaType", NOT_STRATEGIC)
        else:
            patched = patching.strategic(served, patch)
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise patching.rejected()
        return patched

    def _apply_new(
        self, resource: Resource, namespace: str, key: str, patch: object, manager: str, dry_run: bool
    ) -> Object:
        name = key.rpartition("/")[2]
        body = {**mapping(patch), "metadata": {"name": name, **mapping(mapping(patch).get("metadata"))}}
        updates.check_name(body["metadata"], name)
        made = self.create(resource, body, namespace=namespace, dry_run=dry_run)
        if not dry_run:
            self._applied[resource.storage, key] = {manager: copied(mapping(patch))}
        return made

    # -- small things ------------------------------------------------------------------------------------------------

    def _take_disruption(self, pod: Object, dry_run: bool) -> None:
        namespace = pod["metadata"]["namespace"]
        found = (body for _, body in self._collection(BUDGETS).scan(f"{namespace}/"))
        budget = pods.budget_of(pod, found)
        if budget is None or not pods.needs_disruption(pod, budget):
            return
        after = pods.disrupted(budget, pod["metadata"]["name"], self._now())
        if not dry_run:
            self._put(BUDGETS, key_of(namespace, budget["metadata"]["name"]), after)

    def _required(self, resource: Resource, namespace: str, name: str) -> Object:
        body = self._collection(resource).get(_key(resource, namespace, name))
        if body is None:
            raise not_found(resource.group_resource, name)
        return body

    def _collection(self, resource: Resource) -> StoredCollection:
        collection = self._collections.get(resource.storage)
        if collection is None:
            collection = self._collections[resource.storage] = StoredCollection(self._history)
        return collection

    def _everything(self, storage: str) -> Iterable[Object]:
        collection = self._collections.get(storage)
        return (body for _, body in collection.scan("")) if collection is not None else ()

    def _bookmark(self, resource: Resource) -> Object:
        metadata = {"resourceVersion": str(self._revision), "creationTimestamp": None}
        return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}

    def _now(self) -> str:
        return timestamp(self._clock())


def _prefix(resource: Resource, namespace: str) -> str:
    return f"{namespace}/" if resource.namespaced and namespace else ""


def _key(resource: Resource, namespace: str, name: str) -> str:
    return key_of(namespace if resource.namespaced else "", name)
