"""The verbs: each takes a request that has been understood, asks the store, and says what to answer.

Nothing here waits: a request is carried out in one step of the event loop, so no other comes in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from berth.sim.errors import Cause, StatusError, bad_request, invalid, success
from berth.sim.faults import StaleList
from berth.sim.server.field_validation import check_fields
from berth.sim.server.negotiation import JSON, decode_body, patch_kind
from berth.sim.server.routes import Target
from berth.sim.server.scale import scale_of, wanted_replicas
from berth.sim.store import Object, Page, PatchKind, Store


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request about objects, with its body as it came."""

    target: Target
    query: Mapping[str, str]
    raw: bytes = b""
    content_type: str = ""
    stale: StaleList | None = None

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    def body(self) -> Object:
        decoded = decode_body(self.raw, self.content_type)
        if not isinstance(decoded, dict):
            raise bad_request("the body of the request is not an object")
        return decoded


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The result of a verb: a page, an object of the target's kind (`is_stored`: as it is stored), or any other."""

    status: int
    body: Object | None = None
    page: Page | None = None
    is_stored: bool = False
    warning: str = ""


def carry_out(store: Store, call: ApiCall) -> OperationResult:
    """Everything but watches; raises StatusError."""
    target = call.target
    if target.subresource == "scale":
        return _scale(store, call)
    if target.subresource in ("binding", "eviction"):
        return _post(store, call)
    return _VERBS[target.verb](store, call)


def number(query: Mapping[str, str], key: str) -> int:
    """Returns an integer of the query, 0 if it is missing."""
    text = query.get(key) or "0"
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f'{key}: "{text}" is not a whole number') from error


def _get(store: Store, call: ApiCall) -> OperationResult:
    target = call.target
    if call.stale is not None:
        page = _stale(store, call, f"metadata.name={target.name}")
        if page is not None and page.items:
            return OperationResult(200, page.items[0], is_stored=True)
    return OperationResult(200, store.get(target.resource, target.namespace, target.name), is_stored=True)


def _list(store: Store, call: ApiCall) -> OperationResult:
    if call.stale is not None and not call.query.get("continue"):
        page = _stale(store, call, call.query.get("fieldSelector", ""))
        if page is not None:
            return OperationResult(200, page=page)
    query = call.query
    page = store.list(
        call.target.resource,
        call.target.namespace,
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=number(query, "limit"),
        continue_=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
    )
    return OperationResult(200, page=page)


def _stale(store: Store, call: ApiCall, field_selector: str) -> Page | None:
    """The list as it was some versions ago; None if that is not known any more."""
    assert call.stale is not None
    try:
        return store.list(
            call.target.resource,
            call.target.namespace,
            label_selector=call.query.get("labelSelector", ""),
            field_selector=field_selector,
            limit=number(call.query, "limit"),
            resource_version=str(max(store.revision - call.stale.versions, 1)),
            match="Exact",
        )
    except StatusError as error:
        if error.code not in (400, 410):
            raise
        return None


def _create(store: Store, call: ApiCall) -> OperationResult:
    target, body = call.target, call.body()
    warning = _check(store, call, body)
    created = store.create(target.resource, body, namespace=target.namespace, dry_run=call.dry_run)
    return OperationResult(201, created, is_stored=not call.dry_run, warning=warning)


def _post(store: Store, call: ApiCall) -> OperationResult:
    target = call.target
    act = store.bind if target.subresource == "binding" else store.evict
    return OperationResult(201, act(target.namespace, target.name, call.body(), dry_run=call.dry_run))


def _update(store: Store, call: ApiCall) -> OperationResult:
    target, body = call.target, call.body()
    warning = _check(store, call, body)
    replaced = store.replace(
        target.resource, target.namespace, target.name, body, subresource=target.subresource, dry_run=call.dry_run
    )
    return OperationResult(200, replaced, is_stored=not call.dry_run, warning=warning)


def _patch(store: Store, call: ApiCall) -> OperationResult:
    target, query = call.target, call.query
    kind = patch_kind(call.content_type, custom=target.resource.custom)
    patch = decode_body(call.raw, "application/yaml" if kind == "apply" else "application/json")
    _check_patch(patch, kind, query)
    warning = "" if kind == "json" else _check(store, call, patch, is_patch=True)
    body, created = store.patch(
        target.resource,
        target.namespace,
        target.name,
        patch,
        kind,
        subresource=target.subresource,
        field_manager=query.get("fieldManager", ""),
        force=query.get("force") == "true",
        dry_run=call.dry_run,
    )
    return OperationResult(201 if created else 200, body, is_stored=not call.dry_run, warning=warning)


def _check_patch(patch: object, kind: PatchKind, query: Mapping[str, str]) -> None:
    if not isinstance(patch, list if kind == "json" else dict):
        wanted = "a list of operations" if kind == "json" else "an object"
        raise bad_request(f"the body of the patch is not {wanted}")
    if kind == "apply" and not query.get("fieldManager"):
        cause = Cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])


def _check(store: Store, call: ApiCall, sent: Any, *, is_patch: bool = False) -> str:
    wish = call.query.get("fieldValidation", "")
    return check_fields(store, call.target.resource, sent, wish, is_patch=is_patch)


def _delete(store: Store, call: ApiCall) -> OperationResult:
    target, options = call.target, _delete_options(call)
    body, deleted = store.delete(
        target.resource,
        target.namespace,
        target.name,
        grace_period_seconds=options["grace_period_seconds"],
        preconditions=options["preconditions"],
        propagation=options["propagation"],
        dry_run=options["dry_run"],
    )
    if deleted and not target.resource.returns_deleted:
        return OperationResult(200, _deleted(call, body))
    return OperationResult(200, body)


def _deleted(call: ApiCall, body: Object) -> Object:
    resource = call.target.resource
    details = {"name": call.target.name, "kind": resource.plural, "uid": body.get("metadata", {}).get("uid", "")}
    return success({**details, "group": resource.group} if resource.group else details)


def _delete_collection(store: Store, call: ApiCall) -> OperationResult:
    options = _delete_options(call)
    page = store.delete_collection(
        call.target.resource,
        call.target.namespace,
        label_selector=call.query.get("labelSelector", ""),
        field_selector=call.query.get("fieldSelector", ""),
        grace_period_seconds=options["grace_period_seconds"],
        propagation=options["propagation"],
        dry_run=options["dry_run"],
    )
    return OperationResult(200, page=page)


def _delete_options(call: ApiCall) -> dict[str, Any]:
    """From the body (DeleteOptions) and the query, which may say the same things."""
    body = call.body() if call.raw.strip() else {}
    grace = body.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in call.query:
        grace = number(call.query, "gracePeriodSeconds")
    propagation = body.get("propagationPolicy") or call.query.get("propagationPolicy")
    return {
        "grace_period_seconds": grace,
        "preconditions": body.get("preconditions"),
        "propagation": propagation,
        "dry_run": call.dry_run or "All" in (body.get("dryRun") or ()),
    }


def _scale(store: Store, call: ApiCall) -> OperationResult:
    target = call.target
    if target.verb == "get":
        return OperationResult(200, scale_of(store.get(target.resource, target.namespace, target.name)))
    if target.verb == "patch" and patch_kind(call.content_type, custom=False) == "json":
        raise bad_request("a JSON patch of a scale is not served: send a merge patch")
    replicas = wanted_replicas(call.body() if target.verb == "update" else decode_body(call.raw, JSON))
    body, _ = store.patch(
        target.resource,
        target.namespace,
        target.name,
        {"spec": {"replicas": replicas}},
        "merge",
        dry_run=call.dry_run,
    )
    return OperationResult(200, scale_of(body))


_VERBS = {
    "get": _get,
    "list": _list,
    "create": _create,
    "update": _update,
    "patch": _patch,
    "delete": _delete,
    "deletecollection": _delete_collection,
}
