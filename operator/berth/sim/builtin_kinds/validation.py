"""What the API server refuses in a body: names and labels of every kind, and the rules of built-in kinds we rely on.

Custom resources have their schema (schema.py). Of the built-in kinds only this is checked; a real API server checks
much more, and what it would refuse beyond this is taken as it is:

    every kind      name, namespace, labels, annotations' keys, finalizers
    pods            containers with names and images, quantities, gates; what an update may change
    nodes           quantities
    priority class  its value does not change
    workloads       a selector that matches the template, and does not change
    API services    a name made of version and group, priorities, a caBundle or none at all
    cron job        its schedule
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.model import parse_quantity
from berth.model.label_selectors import SUBDOMAIN, label_key_problem, label_value_problem
from berth.sim.cron_schedule import CronSchedule
from berth.sim.errors import Cause, bad_request, invalid
from berth.sim.objects import Object, items, mapping, read, without
from berth.sim.resources import Resource

REQUIRED: Final = "FieldValueRequired"
WRONG: Final = "FieldValueInvalid"
FORBIDDEN: Final = "FieldValueForbidden"

SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
FINALIZER_WORDS: Final = "name is neither a standard finalizer name nor is it fully qualified"
QUANTITY_WORDS: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
POD_UPDATE_WORDS: Final = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_NAMED: Final = frozenset({"namespaces", "services"})
STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
SELECTED: Final = frozenset({"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"})


def check(resource: Resource, body: Object, before: Object | None = None, *, is_resize: bool = False) -> None:
    """Raise 422 if a body must not be stored; `before` is what it replaces.

    `is_resize`: it comes through pods/resize, by which nothing else can change (`updates.merged`).
    """
    causes = [*_metadata(resource, body), *_kind(resource, body)]
    if before is not None:
        causes += _metadata_update(body, before)
        causes += [] if is_resize else _kind_update(resource, body, before)
    if causes:
        group = "" if resource.storage == "events" else resource.group  # both APIs for events speak of one kind
        raise invalid(group, resource.kind, str(body["metadata"].get("name", "")), causes)


# -- metadata ----------------------------------------------------------------------------------------------------------


def _metadata(resource: Resource, body: Object) -> Iterator[Cause]:
    metadata = body["metadata"]
    name = str(metadata.get("name", ""))
    if not name:
        yield Cause("metadata.name", REQUIRED, "Required value: name or generateName is required")
    elif resource.storage in LABEL_NAMED:
        if "." in name:
            yield Cause("metadata.name", WRONG, f'Invalid value: "{name}": must not contain dots')
        elif not LABEL.fullmatch(name):
            yield Cause("metadata.name", WRONG, f'Invalid value: "{name}": {LABEL_WORDS}')
    elif len(name) > 253:
        yield Cause("metadata.name", WRONG, f'Invalid value: "{name}": must be no more than 253 bytes')
    elif not SUBDOMAIN.fullmatch(name):
        yield Cause("metadata.name", WRONG, f'Invalid value: "{name}": {SUBDOMAIN_WORDS}')
    yield from _labels(mapping(metadata.get("labels")))
    yield from _annotations(mapping(metadata.get("annotations")))
    yield from _finalizers(items(metadata.get("finalizers")))


def _labels(labels: Mapping[str, Any]) -> Iterator[Cause]:
    for key, value in labels.items():
        if problem := label_key_problem(key):
            yield Cause("metadata.labels", WRONG, f'Invalid value: "{key}": {problem}')
        if problem := label_value_problem(str(value)):
            yield Cause("metadata.labels", WRONG, f'Invalid value: "{value}": {problem}')


def _annotations(annotations: Mapping[str, Any]) -> Iterator[Cause]:
    for key in annotations:
        if problem := label_key_problem(key.lower()):
            yield Cause("metadata.annotations", WRONG, f'Invalid value: "{key}": {problem}')


def _finalizers(finalizers: list[Any]) -> Iterator[Cause]:
    for place, finalizer in enumerate(finalizers):
        if "/" not in str(finalizer) and finalizer not in STANDARD_FINALIZERS:
            yield Cause(f"metadata.finalizers[{place}]", WRONG, f'Invalid value: "{finalizer}": {FINALIZER_WORDS}')


def _metadata_update(body: Object, before: Object) -> Iterator[Cause]:
    metadata, old = body["metadata"], before["metadata"]
    if metadata.get("uid") != old["uid"]:
        yield Cause("metadata.uid", WRONG, f'Invalid value: "{metadata.get("uid")}": field is immutable')
    if old.get("deletionTimestamp"):
        added = [name for name in items(metadata.get("finalizers")) if name not in items(old.get("finalizers"))]
        if added:
            shown = ", ".join(f'"{name}"' for name in sorted(added))
            problem = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            yield Cause("metadata.finalizers", FORBIDDEN, problem)


# -- kinds -------------------------------------------------------------------------------------------------------------


def _kind(resource: Resource, body: Object) -> Iterator[Cause]:
    match resource.storage:
        case "pods":
            yield from _pod(resource, body)
        case "nodes":
            for amounts in ("capacity", "allocatable"):
                _quantities(resource, mapping(mapping(body.get("status")).get(amounts)))
        case "events":
            yield from _event(resource, body)
        case "apiservices.apiregistration.k8s.io":
            yield from _api_service(body)
        case "cronjobs.batch":
            yield from _schedule(mapping(body.get("spec")))
        case storage if storage in SELECTED:
            yield from _workload(body)


def _pod(resource: Resource, body: Object) -> Iterator[Cause]:
    spec = mapping(body.get("spec"))
    if not items(spec.get("containers")):
        yield Cause("spec.containers", REQUIRED, "Required value")
    for field in ("initContainers", "containers"):
        for place, container in enumerate(items(spec.get(field))):
            yield from _container(resource, mapping(container), f"spec.{field}[{place}]")
    yield from _repeated_names(spec)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        problem = "Forbidden: cannot be set until all schedulingGates have been cleared"
        yield Cause("spec.nodeName", FORBIDDEN, problem)


def _repeated_names(spec: Object) -> Iterator[Cause]:
    seen: set[object] = set()
    for field in ("initContainers", "containers"):
        for place, container in enumerate(items(spec.get(field))):
            name = mapping(container).get("name")
            if name in seen:
                yield Cause(f"spec.{field}[{place}].name", "FieldValueDuplicate", f'Duplicate value: "{name}"')
            seen.add(name or object())


def _container(resource: Resource, container: Object, path: str) -> Iterator[Cause]:
    for field in ("name", "image"):
        if not container.get(field):
            yield Cause(f"{path}.{field}", REQUIRED, "Required value")
    for amounts in ("requests", "limits"):
        _quantities(resource, mapping(mapping(container.get("resources")).get(amounts)))


def _quantities(resource: Resource, amounts: Mapping[str, Any]) -> None:
    """Refused while decoding, and therefore without the name of the field, by the real server."""
    for amount in amounts.values():
        try:
            parse_quantity(amount)
        except ValueError as error:
            kind = resource.kind
            raise bad_request(
                f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {QUANTITY_WORDS}'
            ) from error


def _event(resource: Resource, body: Object) -> Iterator[Cause]:
    about = read(body, "involvedObject.namespace") or "default"
    if about != body["metadata"].get("namespace"):
        path = "involvedObject.namespace"
        yield Cause(path, WRONG, f'Invalid value: "{about}": does not match event.namespace')
    if resource.group and not body.get("eventTime"):
        yield Cause("eventTime", REQUIRED, "Required value")
    if resource.group and body.get("type") not in ("Normal", "Warning"):
        kind = body.get("type") or ""
        yield Cause("type", WRONG, f'Invalid value: "{kind}": has invalid value: {kind}')


def _workload(body: Object) -> Iterator[Cause]:
    wanted = read(body, "spec.selector.matchLabels")
    labels = mapping(read(body, "spec.template.metadata.labels"))
    if not read(body, "spec.selector"):
        yield Cause("spec.selector", REQUIRED, "Required value")
    elif any(labels.get(key) != value for key, value in mapping(wanted).items()):
        problem = (
            f"Invalid value: {json.dumps(labels, separators=(',', ':'))}: `selector` does not match template `labels`"
        )
        yield Cause("spec.template.metadata.labels", WRONG, problem)


def _api_service(body: Object) -> Iterator[Cause]:
    spec, name = mapping(body.get("spec")), str(body["metadata"].get("name", ""))
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name != wanted:
        problem = f'Invalid value: "{name}": must be `spec.version+"."+spec.group`: "{wanted}"'
        yield Cause("metadata.name", WRONG, problem)
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(field, 0)
        if not 0 < value <= most:
            problem = f"Invalid value: {value}: must be positive and less than {most}"
            yield Cause(f"spec.{field}", WRONG, problem)
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        problem = "Invalid value: true: may not be true if caBundle is present"
        yield Cause("spec.insecureSkipTLSVerify", WRONG, problem)


def _schedule(spec: Object) -> Iterator[Cause]:
    schedule = str(spec.get("schedule") or "")
    if not schedule:
        yield Cause("spec.schedule", REQUIRED, 'Required value: ""')
        return
    try:
        CronSchedule.parse(schedule)
    except ValueError as error:
        yield Cause("spec.schedule", WRONG, f'Invalid value: "{schedule}": {error}')


def _kind_update(resource: Resource, body: Object, before: Object) -> Iterator[Cause]:
    match resource.storage:
        case "pods":
            yield from _pod_update(mapping(body.get("spec")), mapping(before.get("spec")))
            yield from _nomination(body, before)
        case "priorityclasses.scheduling.k8s.io":
            for field in ("value", "preemptionPolicy"):
                if body.get(field) != before.get(field):
                    yield Cause(field, FORBIDDEN, "Forbidden: may not be changed in an update.")
        case storage if storage in SELECTED and storage != "statefulsets.apps":
            if read(body, "spec.selector") != read(before, "spec.selector"):
                shown = json.dumps(read(body, "spec.selector"), separators=(",", ":"))
                yield Cause("spec.selector", WRONG, f"Invalid value: {shown}: field is immutable")


def _pod_update(spec: Object, before: Object) -> Iterator[Cause]:
    gates = {gate.get("name") for gate in items(before.get("schedulingGates"))}
    for place, gate in enumerate(items(spec.get("schedulingGates"))):
        if gate.get("name") not in gates:
            problem = f"Forbidden: only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield Cause(f"spec.schedulingGates[{place}].name", FORBIDDEN, problem)
            return
    loose = ("affinity", "nodeSelector") if gates else ()  # a gated pod may still be narrowed down
    if _fixed(spec, loose) != _fixed(before, loose) or not _keeps(spec, before, "tolerations"):
        yield Cause("spec", FORBIDDEN, POD_UPDATE_WORDS)


def _nomination(body: Object, before: Object) -> Iterator[Cause]:
    """A bound pod has no nominated node: the bind clears the field, and an update may not set it again."""
    nominated = read(body, "status.nominatedNodeName")
    if nominated and read(before, "spec.nodeName") and nominated != read(before, "status.nominatedNodeName"):
        problem = "Forbidden: may not be set on pods that are already bound to a node"
        yield Cause("status.nominatedNodeName", FORBIDDEN, problem)


def _fixed(spec: Object, loose: tuple[str, ...]) -> Object:
    """What no update of a pod changes."""
    changeable = ("schedulingGates", "activeDeadlineSeconds", "tolerations", "containers", "initContainers", *loose)
    grace = spec.get("terminationGracePeriodSeconds") or 0
    return {
        **without(spec, *changeable, "terminationGracePeriodSeconds"),
        "containers": [without(mapping(container), "image") for container in items(spec.get("containers"))],
        "initContainers": [without(mapping(container), "image") for container in items(spec.get("initContainers"))],
        "grace": max(grace, 1),
    }


def _keeps(spec: Object, before: Object, field: str) -> bool:
    return all(item in items(spec.get(field)) for item in items(before.get(field)))
