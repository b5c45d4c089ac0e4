"""Upstream's own table of allocations, run through Berth: the same devices in the same order, the same errors."""

import copy
from typing import Any

import pytest

from berth.engine.devices import (
    AllocatedDevices,
    AllocationFailed,
    Allocator,
    DeviceID,
    DeviceInventory,
    InvalidPools,
    SelectorAnswers,
    allocation_body,
)
from berth.model import parse_quantity
from berth.model.devices import parse_device_class, parse_resource_claim, parse_resource_slice
from conformance.oracle.tables import require_tables, table
from control_plane.programs import MissingPrograms
from devices.builders import evaluate

Json = dict[str, Any]

# What the names of the table's own lister and its cancelled contexts add: neither is the allocator's answer.
CANCELLED = frozenset({"timeout", "deadline", "cancel"})


@pytest.fixture(scope="session")
def tables() -> None:
    try:
        require_tables()
    except MissingPrograms as error:
        pytest.skip(str(error))


def answer_of(case: Json) -> tuple[list[Json] | None, str]:
    """The allocations, or none and the error."""
    claims = [parse_resource_claim(_named(body, namespace="-")) for body in case["claims"]]
    node = case["node"]["metadata"]
    try:
        found = _allocator(case).allocate(node["name"], node.get("labels") or {}, claims)
    except (AllocationFailed, InvalidPools) as error:
        return None, str(error).replace("claim -/", "claim ")
    return None if found is None else [allocation_body(each) for each in found], ""


def _allocator(case: Json) -> Allocator:
    inventory = DeviceInventory()
    for place, body in enumerate(case["slices"] or ()):
        named = _named(body)
        named["metadata"]["name"] += f"-{place:03d}"  # in the table several have the same name
        inventory.put(parse_resource_slice(named))
    classes = {body["metadata"]["name"]: parse_device_class(_named(body)) for body in case["classes"] or ()}
    answers = SelectorAnswers(inventory.shapes, evaluate)
    return Allocator(inventory, _allocated(case), classes, answers, lambda: "share")


def _allocated(case: Json) -> AllocatedDevices:
    whole, shared = set[DeviceID](), set[DeviceID]()
    capacity: dict[DeviceID, dict[str, int]] = {}
    for each in case["allocated"]:
        device = DeviceID(each["driver"], each["pool"], each["device"])
        if each["capacity"] is not None:
            capacity[device] = {name: parse_quantity(text) for name, text in each["capacity"].items()}
        else:
            (shared if each["share"] else whole).add(device)
    return AllocatedDevices(frozenset(whole), frozenset(shared), capacity)


def _named(body: Json, namespace: str = "") -> Json:
    """As an API server would serve it: with a UID, and a namespace if there are any."""
    served = copy.deepcopy(body)
    served["metadata"] = {"uid": body["metadata"]["name"], **served["metadata"]}
    if namespace:
        served["metadata"]["namespace"] = served["metadata"].get("namespace") or namespace
    return served


def comparable(value: Any) -> Any:
    """Without what is empty, with amounts as numbers and the values of a selector in order."""
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: comparable(item) for name, item in value.items() if item not in (None, [], {}, "", False)}
    if "shareID" in kept:
        kept["shareID"] = "share"
    if "consumedCapacity" in kept:
        kept["consumedCapacity"] = {name: parse_quantity(text) for name, text in kept["consumedCapacity"].items()}
    if "operator" in kept and "values" in kept:
        kept["values"] = sorted(set(kept["values"]))
    return kept


def same_error(ours: str, theirs: str) -> bool:
    """Equal, but for where in a text a compile error is, and for what the table's own lister of classes says."""
    if "CEL compile error" in theirs:
        return ours.partition("CEL compile error")[0] == theirs.partition("CEL compile error")[0]
    if "could not retrieve device class" in theirs:
        return ours.rpartition(": ")[0] == theirs.rpartition(": ")[0]
    return ours == theirs


@pytest.mark.cluster
def test_every_allocation_of_upstreams_table_is_upstreams(tables: None) -> None:
    cases = [case for case in table("allocations") if case["name"].rpartition("/")[2] not in CANCELLED]
    assert len(cases) > 200
    different = {}
    for case in cases:
        found, error = answer_of(case)
        if not same_error(error, case["error"]) or comparable(found) != comparable(case["results"]):
            different[case["name"]] = (error, found), (case["error"], case["results"])
    assert different == {}
