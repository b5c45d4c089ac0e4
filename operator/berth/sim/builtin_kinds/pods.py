"""The API server's rules for pods: binding, eviction under disruption budgets, and how long a deleted one stays.

Pure functions on bodies; the store calls them and writes what they return.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from berth.sim.builtin_kinds.defaults import scheduled_condition
from berth.sim.errors import StatusError, bad_request, conflict, forbidden, too_many_requests
from berth.sim.objects import Object, items, mapping, read, without

BINDING: Final = "pods/binding"
TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
FINISHED: Final = ("Succeeded", "Failed")
MAX_DISRUPTED_PODS: Final = 2000
BUDGET_WORDS: Final = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL_BUDGETS: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


# -- binding -----------------------------------------------------------------------------------------------------------


def check_binding(name: str, binding: Mapping[str, Any]) -> str:
    """The node that a Binding names."""
    metadata = mapping(binding.get("metadata"))
    if metadata.get("name") not in (None, "", name):
        raise bad_request("name in URL does not match name in Binding object")
    target = mapping(binding.get("target"))
    if target.get("kind") not in (None, "", "Node"):
        raise StatusError(
            500, "", f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        )
    if not target.get("name"):
        raise StatusError(500, "", "target.name: Required value")
    return str(target["name"])


def check_preconditions(pod: Object, metadata: Mapping[str, Any]) -> None:
    """Refuse if the request means another pod of that name, or an older state of it."""
    record = pod["metadata"]
    for field, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = metadata.get(field)
        if wanted and wanted != record[field]:
            raise storage_conflict(
                "pods", record, f"{words} in precondition: {wanted}, {words} in object meta: {record[field]}"
            )


def storage_conflict(group_resource: str, record: Mapping[str, Any], why: str) -> StatusError:
    path = f"{record['namespace']}/{record['name']}" if record.get("namespace") else record["name"]
    plural, _, group = group_resource.partition(".")
    registry = f"/registry/{group}/{plural}" if group else f"/registry/{plural}"
    return conflict(
        group_resource,
        record["name"],
        f"StorageError: invalid object, Code: 4, Key: {registry}/{path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {why}",
    )


def bound(pod: Object, node_name: str, binding: Mapping[str, Any], node: Object | None, now: str) -> Object:
    """The pod on its node; 409 if it may not be bound."""
    metadata, spec, name = pod["metadata"], pod["spec"], pod["metadata"]["name"]
    if metadata.get("deletionTimestamp"):
        raise conflict(BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict(BINDING, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict(BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
    status = without(pod.get("status", {}), "nominatedNodeName")
    conditions = with_condition(items(status.get("conditions")), scheduled_condition("True", now))
    return {
        **pod,
        "metadata": _bound_metadata(metadata, mapping(binding.get("metadata")), node),
        "spec": {**spec, "nodeName": node_name},
        "status": {**status, "conditions": conditions},
    }


def _bound_metadata(metadata: Object, given: Object, node: Object | None) -> Object:
    """With what the Binding carries, and the node's place in the topology."""
    place: Object = mapping(node["metadata"].get("labels")) if node is not None else {}
    labels = mapping(given.get("labels")) | {str(key): place[key] for key in TOPOLOGY_LABELS if key in place}
    annotations = mapping(given.get("annotations"))
    result = dict(metadata)
    if labels:
        result["labels"] = {**mapping(metadata.get("labels")), **labels}
    if annotations:
        result["annotations"] = {**mapping(metadata.get("annotations")), **annotations}
    return result


def with_condition(conditions: list[Any], condition: Object) -> list[Any]:
    """Conditions with one of them set; its time is kept if its status does not change."""
    for place, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            same = old.get("status") == condition["status"]
            kept = {"lastTransitionTime": old.get("lastTransitionTime")} if same else {}
            return [*conditions[:place], {**condition, **kept}, *conditions[place + 1 :]]
    return [*conditions, condition]


# -- deletion ----------------------------------------------------------------------------------------------------------


def grace_seconds(pod: Object, asked: int | None) -> int:
    """Returns how long a pod may take to end: the request's period, or its spec's; 0 for a pod that does not run."""
    spec = mapping(pod.get("spec"))
    grace = asked if asked is not None else spec.get("terminationGracePeriodSeconds")
    if not spec.get("nodeName") or read(pod, "status.phase") in FINISHED:
        return 0
    seconds = 30 if grace is None else int(grace)
    return 1 if seconds < 0 else seconds


# -- eviction ----------------------------------------------------------------------------------------------------------


def is_free_of_budgets(pod: Object) -> bool:
    """Whether an eviction needs no budget: the pod does not run, or is being deleted already."""
    return read(pod, "status.phase") in (*FINISHED, "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def budget_of(pod: Object, budgets: Iterable[Object]) -> Object | None:
    labels = mapping(pod["metadata"].get("labels"))
    found = [budget for budget in budgets if selector_matches(read(budget, "spec.selector"), labels)]
    if len(found) > 1:
        raise StatusError(500, "", SEVERAL_BUDGETS)
    return found[0] if found else None


def selector_matches(selector: object, labels: Mapping[str, str]) -> bool:
    """A LabelSelector; absent it matches nothing, empty everything."""
    if not isinstance(selector, dict):
        return False
    if any(labels.get(key) != value for key, value in mapping(selector.get("matchLabels")).items()):
        return False
    return all(_expression_matches(expression, labels) for expression in items(selector.get("matchExpressions")))


def _expression_matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(str(expression.get("key"))), items(expression.get("values"))
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def needs_disruption(pod: Object, budget: Object) -> bool:
    """Whether the eviction counts: that of a pod that is not ready often does not."""
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in items(read(pod, "status.conditions"))
    )
    status = mapping(budget.get("status"))
    if ready:
        return True
    if read(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return False
    desired = status.get("desiredHealthy", 0)
    return not (desired > 0 and status.get("currentHealthy", 0) >= desired)


def disrupted(budget: Object, pod_name: str, now: str) -> Object:
    """The budget after one more disruption; 429 if it allows none."""
    name, status = budget["metadata"]["name"], mapping(budget.get("status"))
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", retry_seconds=10)
    allowed = status.get("disruptionsAllowed", 0)
    pods = mapping(status.get("disruptedPods"))
    if allowed < 0:
        raise forbidden("poddisruptionbudget.policy", name, "pdb disruptions allowed is negative")
    if len(pods) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("poddisruptionbudget.policy", name, why)
    if allowed == 0:
        raise _refused(_exhausted(name, status))
    after = {**status, "disruptedPods": {**pods, pod_name: now}, "disruptionsAllowed": allowed - 1}
    if allowed == 1:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": now,
            "reason": "InsufficientPods",
            "message": "",
        }
        after["conditions"] = with_condition(items(status.get("conditions")), condition)
    return {**budget, "status": after}


def _exhausted(name: str, status: Object) -> str:
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _refused(message: str, *, retry_seconds: int = 0) -> StatusError:
    error = too_many_requests(BUDGET_WORDS, [{"reason": "DisruptionBudget", "message": message}])
    if retry_seconds and error.details is not None:
        error.details["retryAfterSeconds"] = retry_seconds
    return error


def evicted(pod: Object, now: str) -> Object:
    """The pod with the condition that says why it ends."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = mapping(pod.get("status"))
    conditions = with_condition(items(status.get("conditions")), condition)
    return {**pod, "status": {**status, "conditions": conditions}}
