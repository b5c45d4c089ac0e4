"""What the search found, as it is written into the status of a claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.model import NodeSelector, NodeSelectorTerm, Requirement
from berth.model.devices import DeviceResult, DeviceToleration, ResourceClaim

from .attempt import Taken
from .plans import AllocationFailed, RequestPlan


@dataclass(frozen=True, slots=True)
class AllocatedConfiguration:
    """Configuration for some requests; `source` is FromClass or FromClaim, `content` is as it was written."""

    source: str
    requests: tuple[str, ...]
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """The devices of a claim, their configuration, and the nodes from which they can be used (None: all)."""

    results: tuple[DeviceResult, ...]
    configuration: tuple[AllocatedConfiguration, ...]
    node_selector: NodeSelector | None


def make_allocation(
    claim: ResourceClaim,
    taken: Sequence[Taken],
    plans: Sequence[RequestPlan],
    node: str,
    new_share_id: Callable[[], str],
) -> ClaimAllocation:
    """The allocation of a claim; `plans` are what its requests became, one each."""
    results = tuple(_result(each, new_share_id) for each in taken)
    configuration = (*_of_classes(plans), *_of_claim(claim, plans))
    return ClaimAllocation(results, configuration, _node_selector(claim, taken, node))


def _result(taken: Taken, new_share_id: Callable[[], str]) -> DeviceResult:
    device, identity = taken.row.device, taken.row.id
    return DeviceResult(
        request=taken.plan.full_name,
        driver=identity.driver,
        pool=identity.pool,
        device=identity.device,
        admin_access=taken.plan.request.admin_access,
        tolerations=taken.plan.request.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=new_share_id() if device.shareable else "",
        consumed_capacity=taken.consumed or {},
    )


# --- configuration


def _of_classes(plans: Sequence[RequestPlan]) -> list[AllocatedConfiguration]:
    """The configuration of each class once, for all requests that have the class."""
    requests: dict[str, list[str]] = {}
    for plan in plans:
        requests.setdefault(plan.device_class.name, []).append(plan.full_name)
    classes = {plan.device_class.name: plan.device_class for plan in plans}
    return [
        AllocatedConfiguration("FromClass", tuple(names), content)
        for name, names in requests.items()
        for content in classes[name].configuration
    ]


def _of_claim(claim: ResourceClaim, plans: Sequence[RequestPlan]) -> list[AllocatedConfiguration]:
    """The claim's own configuration, if it is for no request in particular or for one of these.

    As in kube-scheduler it is repeated for each of its requests.
    """
    found: list[AllocatedConfiguration] = []
    for configuration in claim.configuration:
        names = configuration.requests
        times = sum(plan.base_name in names or plan.full_name in names for plan in plans) if names else 1
        found += [AllocatedConfiguration("FromClaim", names, configuration.content)] * times
    return found


# --- nodes


def _node_selector(claim: ResourceClaim, taken: Sequence[Taken], node: str) -> NodeSelector | None:
    """One device that is local to a node ties the claim to it; else all conditions of the devices together."""
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for each in taken:
        device, made = each.row.device, each.row.slice
        nodes = device.nodes if made.per_device_nodes else made.nodes
        if nodes.node_name or device.binds_to_node:
            return NodeSelector((NodeSelectorTerm((), (Requirement("metadata.name", "In", (node,)),)),))
        terms = nodes.selector.terms if nodes.selector is not None else ()
        if len(terms) > 1:
            problem = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationFailed(f"create NodeSelector for claim {claim.name}: {problem}")
        for term in terms:
            fields += [each for each in term.fields if each not in fields]
            expressions += [each for each in term.expressions if each not in expressions]
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


# --- the API's form


def allocation_body(allocation: ClaimAllocation) -> dict[str, Any]:
    """The allocation as the field `status.allocation` of a claim, without its timestamp."""
    devices: dict[str, Any] = {"results": [_result_body(result) for result in allocation.results]}
    if allocation.configuration:
        devices["config"] = [_configuration_body(each) for each in allocation.configuration]
    body: dict[str, Any] = {"devices": devices}
    if allocation.node_selector is not None:
        body["nodeSelector"] = {"nodeSelectorTerms": [_term_body(term) for term in allocation.node_selector.terms]}
    return body


def _result_body(result: DeviceResult) -> dict[str, Any]:
    body: dict[str, Any] = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    optional: dict[str, Any] = {
        "adminAccess": result.admin_access,
        "tolerations": [_toleration_body(each) for each in result.tolerations],
        "bindingConditions": list(result.binding_conditions),
        "bindingFailureConditions": list(result.binding_failure_conditions),
        "shareID": result.share_id,
        "consumedCapacity": {name: amount.text for name, amount in result.consumed_capacity.items()},
    }
    return body | {name: value for name, value in optional.items() if value}


def _toleration_body(toleration: DeviceToleration) -> dict[str, Any]:
    texts = {name: getattr(toleration, name) for name in ("key", "operator", "value", "effect")}
    body: dict[str, Any] = {name: text for name, text in texts.items() if text}
    return body if toleration.seconds is None else body | {"tolerationSeconds": toleration.seconds}


def _configuration_body(configuration: AllocatedConfiguration) -> dict[str, Any]:
    body: dict[str, Any] = {"source": configuration.source, **configuration.content}
    return body | {"requests": list(configuration.requests)} if configuration.requests else body


def _term_body(term: NodeSelectorTerm) -> dict[str, Any]:
    named = {"matchExpressions": term.expressions, "matchFields": term.fields}
    return {name: [_requirement_body(each) for each in found] for name, found in named.items() if found}


def _requirement_body(requirement: Requirement) -> dict[str, Any]:
    body: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    return body | {"values": list(requirement.values)} if requirement.values else body
