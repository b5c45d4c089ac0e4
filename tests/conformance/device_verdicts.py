"""What Berth's engine says of the cases of the theme `dra`, in the form of the oracle's answers, and what differs.

The plugin does not use the engine's allocator yet, so `berth judge` cannot answer these cases. Asked are the parts that
it will be made of: the claims of the pod, the nodes, the score, and the allocation that Reserve would write.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from berth.engine.devices import (
    Allocator,
    ClaimingPod,
    DeviceDecision,
    DeviceInventory,
    NodeAnswer,
    NodeCode,
    Refused,
    SelectorAnswers,
    allocation_body,
    check_classes,
    find_allocated,
    find_claims,
    normalised,
)
from berth.model import Node, parse_node, parse_quantity
from berth.model.devices import (
    DeviceClass,
    ResourceClaim,
    build_pod_claims,
    parse_device_class,
    parse_resource_claim,
    parse_resource_slice,
)
from devices.builders import evaluate

Json = dict[str, Any]

PLUGIN = "DynamicResources"
NOW = datetime(2026, 11, 1, tzinfo=UTC)  # after the allocations of the cases that are late, before the others
CODES = {NodeCode.REFUSED: "UnschedulableAndUnresolvable", NodeCode.FAILED: "Error"}


class Cluster:
    """The objects of a case that are about devices."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.inventory = DeviceInventory()
        for made in self._parsed(case, "ResourceSlice", parse_resource_slice):
            self.inventory.put(made)
        classes: Iterator[DeviceClass] = self._parsed(case, "DeviceClass", parse_device_class)
        claims: Iterator[ResourceClaim] = self._parsed(case, "ResourceClaim", parse_resource_claim)
        nodes: Iterator[Node] = self._parsed(case, "Node", parse_node)
        self.classes = {made.name: made for made in classes}
        self.claims = {made.key: made for made in claims}
        self.nodes = list(nodes)

    def _parsed(self, case: Mapping[str, Any], kind: str, parse: Callable[[object], Any]) -> Iterator[Any]:
        return (parse(body) for body in case["objects"] if body["kind"] == kind)

    def allocator(self) -> Allocator:
        answers = SelectorAnswers(self.inventory.shapes, evaluate)
        allocated = find_allocated(self.claims.values())
        return Allocator(self.inventory, allocated, self.classes, answers, lambda: "share")


def verdict(case: Mapping[str, Any]) -> Json:
    """The parts of a verdict that are the plugin's: preFilter, filter, scores of the feasible nodes, allocations."""
    cluster, metadata = Cluster(case), case["pod"]["metadata"]
    pod = ClaimingPod(metadata["namespace"], metadata["name"], metadata["uid"], build_pod_claims(case["pod"]))
    try:
        claims = find_claims(pod, cluster.claims)
        check_classes(claims, (), cluster.classes)
    except Refused as error:
        return {"preFilter": {"code": "UnschedulableAndUnresolvable", "reasons": [str(error)]}}
    decision = DeviceDecision(claims, cluster.allocator(), lambda: NOW)
    said = {node.name: decision.filter(node.name, node.labels) for node in cluster.nodes}
    fitting = {name: answer for name, answer in said.items() if answer.code is NodeCode.FITS}
    unallocated = [claim.key for claim in claims if claim.allocation is None]
    return {
        "filter": {name: _refusal(answer) for name, answer in said.items() if name not in fitting},
        "raw": {name: decision.score(answer) for name, answer in fitting.items()},
        "allocations": {name: _allocations(answer, unallocated) for name, answer in fitting.items()},
    }


def differences(case: Mapping[str, Any]) -> Iterator[str]:
    """What Berth says otherwise than the oracle (`expect` of the case)."""
    ours, theirs = verdict(case), case["expect"]
    expected = theirs.get("preFilter", {}).get(PLUGIN)
    if ours.get("preFilter") != expected:
        yield f"preFilter: the oracle says {expected}, Berth {ours.get('preFilter')}"
    if expected is not None or "preFilter" in ours:
        return
    for part, wanted in (
        ("filter", theirs.get("filter", {}).get(PLUGIN, {})),
        ("allocations", theirs.get("allocations", {})),
    ):
        said, meant = comparable(ours[part]), comparable(wanted)
        for name in sorted({*said, *meant}):
            if said.get(name) != meant.get(name):
                yield f"{part}, node {name}: the oracle says {meant.get(name)}, Berth {said.get(name)}"
    scores = theirs.get("score", {}).get(PLUGIN)
    if scores is not None and normalised({name: ours["raw"][name] for name in scores}) != scores:
        yield f"score: the oracle says {scores}, Berth {ours['raw']} before it is normalised"


def comparable(value: Any) -> Any:
    """Without what is empty, share IDs and timestamps, with amounts as numbers and values of selectors in order."""
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: comparable(item) for name, item in value.items() if item not in (None, {}, "", False)}
    kept.pop("allocationTimestamp", None)
    if "shareID" in kept:
        kept["shareID"] = "share"
    if "consumedCapacity" in kept:
        kept["consumedCapacity"] = {name: parse_quantity(text) for name, text in kept["consumedCapacity"].items()}
    if "operator" in kept and "values" in kept:
        kept["values"] = sorted(set(kept["values"]))
    return kept


def _refusal(answer: NodeAnswer) -> Json:
    """kube-scheduler's framework puts the plugin's name before errors."""
    prefix = f'running "{PLUGIN}" filter plugin: ' if answer.code is NodeCode.FAILED else ""
    return {"code": CODES[answer.code], "reasons": [prefix + answer.reason]}


def _allocations(answer: NodeAnswer, claims: list[str]) -> list[Json]:
    pairs = zip(claims, answer.allocations, strict=True)
    return [{"claim": claim, "allocation": allocation_body(allocation)} for claim, allocation in pairs]
