"""Whether a node suits a pod's nodeSelector, required node affinity and tolerations: one node, one pod spec."""

from collections.abc import Iterable, Mapping
from typing import Any

from berth.sim.actors.api import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REPELLING = ("NoSchedule", "NoExecute")


def matches_node(spec: Mapping[str, Any], node: Object) -> bool:
    """Whether nodeSelector and required node affinity admit the node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if not required:
        return True
    return any(_matches_term(term, labels, node) for term in required.get("nodeSelectorTerms") or ())


def _matches_term(term: Mapping[str, Any], labels: Mapping[str, str], node: Object) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, names) for one in fields)


def _holds(requirement: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    value, wanted = values.get(requirement["key"]), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(value, wanted, greater=operator == "Gt")
    return False


def _compares(value: str | None, wanted: Any, *, greater: bool) -> bool:
    try:
        have, limit = int(value or ""), int(wanted[0])
    except (ValueError, IndexError):
        return False
    return have > limit if greater else have < limit


def tolerates_taints(tolerations: Iterable[Mapping[str, Any]], node: Object) -> bool:
    """Whether every taint that keeps pods away is tolerated."""
    given = list(tolerations)
    taints = (node.get("spec") or {}).get("taints") or ()
    return all(
        any(_tolerates(toleration, taint) for toleration in given)
        for taint in taints
        if taint.get("effect") in REPELLING
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")
