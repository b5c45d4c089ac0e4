"""Slices, claims, device classes and taint rules of resource.k8s.io."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from berth.model import InvalidObject, NodeSelector, NodeSelectorTerm, Requirement
from berth.model.devices import (
    Amount,
    Attribute,
    CapacityPolicy,
    CapacityRange,
    ClaimConsumer,
    Configuration,
    Constraint,
    CounterConsumption,
    CounterSet,
    DeviceCapacity,
    DeviceCondition,
    DeviceTaint,
    DeviceTaintSelector,
    DeviceToleration,
    Selector,
    parse_device_class,
    parse_device_taint_rule,
    parse_resource_claim,
    parse_resource_slice,
)
from mutated.mutating import mutate
from support.builders import make_object

Body = dict[str, Any]
GI = 1024**3 * 10**9
ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}
IN_ZONE = NodeSelector((NodeSelectorTerm((Requirement("zone", "In", ("z1",)),)),))


def make_slice(*devices: Body, **spec: Any) -> Body:
    pool = {"name": "p", "generation": 3, "resourceSliceCount": 2}
    whole = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": list(devices), **spec}
    return make_object("ResourceSlice", "s", spec=whole)


def make_device(name: str = "gpu-0", **fields: Any) -> Body:
    return {"name": name, **fields}


def make_claim(*requests: Body, status: Body | None = None, **devices: Any) -> Body:
    spec = {"devices": {"requests": list(requests), **devices}}
    return make_object("ResourceClaim", "c", namespace="default", spec=spec, status=status or {})


def make_request(name: str = "r", **exactly: Any) -> Body:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def make_class(**spec: Any) -> Body:
    return make_object("DeviceClass", "gpu", spec=spec)


# --- slices


def test_a_slice_is_read() -> None:
    read = parse_resource_slice(make_slice(make_device(), make_device("gpu-1")))
    assert (read.name, read.driver, read.pool) == ("s", "d.example.com", "p")
    assert (read.generation, read.slice_count, read.per_device_nodes) == (3, 2, False)
    assert [device.name for device in read.devices] == ["gpu-0", "gpu-1"]
    assert read.nodes.matches("n", {})
    assert not read.nodes.matches("m", {})


def test_a_slice_reaches_all_nodes_those_of_a_selector_or_none_that_is_known() -> None:
    everywhere = parse_resource_slice(make_slice(nodeName=None, allNodes=True)).nodes
    selected = parse_resource_slice(make_slice(nodeName=None, nodeSelector=ZONE)).nodes
    unknown = parse_resource_slice(make_slice(nodeName=None)).nodes
    assert everywhere.matches("any", {})
    assert selected.selector == IN_ZONE
    assert selected.matches("any", {"zone": "z1"})
    assert not selected.matches("any", {"zone": "z2"})
    assert not unknown.known
    assert not unknown.matches("any", {})


def test_attributes_keep_their_kind() -> None:
    given = {
        "a": {"int": 1},
        "b": {"bool": True},
        "c/d": {"string": "x"},
        "e": {"version": "1.0.0"},
        "f": {"ints": [1]},
    }
    [device] = parse_resource_slice(make_slice(make_device(attributes=given))).devices
    assert device.attributes == {
        "a": Attribute("int", 1),
        "b": Attribute("bool", True),
        "c/d": Attribute("string", "x"),
        "e": Attribute("version", "1.0.0"),
        "f": Attribute("", ""),
    }


def test_capacity_is_read_with_its_policy() -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    values = {"default": 1, "validValues": [1, "2"]}
    given = {
        "m": {"value": "8Gi", "requestPolicy": policy},
        "n": {"value": "8"},
        "o": {"value": 4, "requestPolicy": values},
    }
    [device] = parse_resource_slice(make_slice(make_device(capacity=given))).devices
    gi, eight = Amount(GI, "1Gi"), Amount(8 * GI, "8Gi")
    assert device.capacity["m"] == DeviceCapacity(eight, CapacityPolicy(gi, (), CapacityRange(gi, eight, gi)))
    assert device.capacity["n"] == DeviceCapacity(Amount(8 * 10**9, "8"), None)
    one, two = Amount(10**9, "1"), Amount(2 * 10**9, "2")
    assert device.capacity["o"].policy == CapacityPolicy(one, (one, two), None)


def test_shared_counters_and_their_consumption_are_read() -> None:
    counters = {"mem": {"value": "1Gi"}}
    shared = parse_resource_slice(make_slice(sharedCounters=[{"name": "set", "counters": counters}]))
    assert shared.counter_sets == (CounterSet("set", {"mem": Amount(GI, "1Gi")}),)
    consumes = [{"counterSet": "set", "counters": counters}]
    [device] = parse_resource_slice(make_slice(make_device(consumesCounters=consumes))).devices
    assert device.consumes == (CounterConsumption("set", {"mem": Amount(GI, "1Gi")}),)


def test_taints_binding_conditions_and_flags_of_a_device_are_read() -> None:
    body = make_device(
        taints=[{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "t"}],
        bindsToNode=True,
        bindingConditions=["ready"],
        bindingFailureConditions=["failed"],
        allowMultipleAllocations=True,
        nodeName="n",
    )
    [device] = parse_resource_slice(make_slice(body, nodeName=None, perDeviceNodeSelection=True)).devices
    assert device.taints == (DeviceTaint("k", "v", "NoSchedule", "t"),)
    assert device.binds_to_node
    assert device.shareable
    assert device.nodes.node_name == "n"
    assert (device.binding_conditions, device.binding_failure_conditions) == (("ready",), ("failed",))


def test_an_empty_list_of_binding_conditions_is_told_from_none() -> None:
    devices = parse_resource_slice(make_slice(make_device(bindingConditions=[]), make_device("b"))).devices
    assert [device.has_binding_conditions for device in devices] == [True, False]


# --- taints


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (("", "Exists", "", ""), True),
        (("k", "Equal", "v", ""), True),
        (("k", "", "v", "NoSchedule"), True),
        (("k", "Equal", "w", ""), False),
        (("other", "Exists", "", ""), False),
        (("k", "Exists", "", "NoExecute"), False),
        (("k", "Future", "v", ""), False),
    ],
)
def test_a_toleration_tolerates_taints_of_its_key_value_and_effect(
    toleration: tuple[str, str, str, str], tolerates: bool
) -> None:
    assert DeviceToleration(*toleration, None).tolerates(DeviceTaint("k", "v", "NoSchedule", "")) is tolerates


@pytest.mark.parametrize(
    ("effect", "repels"), [("NoSchedule", True), ("NoExecute", True), ("None", False), ("X", False)]
)
def test_only_known_effects_repel(effect: str, repels: bool) -> None:
    assert DeviceTaint("k", "", effect, "").repels is repels


def test_a_taint_rule_selects_devices_by_driver_pool_and_name() -> None:
    spec = {"deviceSelector": {"driver": "d", "pool": "p"}, "taint": {"key": "k", "effect": "NoExecute"}}
    rule = parse_device_taint_rule(make_object("DeviceTaintRule", "r", spec=spec))
    assert rule.selector == DeviceTaintSelector("d", "p", "")
    assert rule.taint == DeviceTaint("k", "", "NoExecute", "")
    assert rule.selector.selects("d", "p", "any")
    assert not rule.selector.selects("d", "q", "any")


# --- classes


def test_a_class_is_read() -> None:
    opaque = {"opaque": {"driver": "d", "parameters": {"a": 1}}}
    body = make_class(selectors=[{"cel": {"expression": "true"}}], config=[opaque], extendedResourceName="x.com/gpu")
    read = parse_device_class(body)
    assert (read.name, read.selectors, read.extended_resource) == ("gpu", (Selector("true"),), "x.com/gpu")
    assert read.configuration == (opaque,)


def test_an_unknown_kind_of_selector_is_told_apart() -> None:
    assert parse_device_class(make_class(selectors=[{"future": {}}])).selectors == (Selector(None),)


# --- claims


def test_a_request_has_defaults() -> None:
    [request] = parse_resource_claim(make_claim(make_request())).requests
    assert (request.name, request.device_class, request.mode, request.count) == ("r", "gpu", "ExactCount", 1)
    assert (request.admin_access, request.capacity, request.alternatives, request.known) == (False, {}, (), True)


def test_a_request_is_read() -> None:
    body = make_request(
        selectors=[{"cel": {"expression": "true"}}],
        allocationMode="All",
        adminAccess=True,
        tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
        capacity={"requests": {"mem": "1Gi"}},
    )
    [request] = parse_resource_claim(make_claim(body)).requests
    assert (request.selectors, request.mode, request.admin_access) == ((Selector("true"),), "All", True)
    assert request.tolerations == (DeviceToleration("k", "Exists", "", "", 5),)
    assert request.capacity == {"mem": Amount(GI, "1Gi")}


def test_alternatives_are_read_in_their_order() -> None:
    first, second = {"name": "a", "deviceClassName": "big", "count": 2}, {"name": "b", "deviceClassName": "small"}
    [request] = parse_resource_claim(make_claim({"name": "r", "firstAvailable": [first, second]})).requests
    assert [(sub.name, sub.device_class, sub.count) for sub in request.alternatives] == [
        ("a", "big", 2),
        ("b", "small", 1),
    ]


def test_an_unknown_kind_of_request_is_told_apart() -> None:
    [request] = parse_resource_claim(make_claim({"name": "r", "future": {}})).requests
    assert not request.known


def test_constraints_and_configuration_are_read() -> None:
    opaque = {"driver": "d", "parameters": {"a": 1}}
    claim = parse_resource_claim(
        make_claim(
            make_request(),
            constraints=[{"requests": ["r"], "matchAttribute": "d/a"}, {"distinctAttribute": "d/b"}, {}],
            config=[{"requests": ["r"], "opaque": opaque}],
        )
    )
    assert claim.constraints == (Constraint(("r",), "d/a", ""), Constraint((), "", "d/b"), Constraint((), "", ""))
    assert claim.configuration == (Configuration(("r",), {"opaque": opaque}),)


def test_the_status_of_a_claim_is_read() -> None:
    result = {
        "request": "r",
        "driver": "d",
        "pool": "p",
        "device": "x",
        "shareID": "s",
        "consumedCapacity": {"m": "1Gi"},
    }
    condition = {"type": "Ready", "status": "True", "reason": "r", "message": "m"}
    status = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": ZONE, "allocationTimestamp": "t"},
        "reservedFor": [{"resource": "pods", "name": "pod", "uid": "u"}],
        "devices": [{"driver": "d", "pool": "p", "device": "x", "conditions": [condition]}],
    }
    claim = parse_resource_claim(make_claim(make_request(), status=status))
    assert claim.allocation is not None
    [read] = claim.allocation.results
    assert (read.request, read.driver, read.pool, read.device, read.share_id) == ("r", "d", "p", "x", "s")
    assert read.consumed_capacity == {"m": Amount(GI, "1Gi")}
    assert (claim.allocation.node_selector, claim.allocation.timestamp) == (IN_ZONE, "t")
    assert claim.reserved_for == (ClaimConsumer("", "pods", "pod", "u"),)
    assert claim.device_statuses[0].conditions == (DeviceCondition("Ready", "True", "r", "m"),)


def test_a_claim_knows_the_owner_that_manages_it_and_its_finalizers() -> None:
    body = make_claim(make_request())
    body["metadata"]["ownerReferences"] = [{"uid": "a"}, {"uid": "b", "controller": True}]
    body["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    claim = parse_resource_claim(body)
    assert (claim.key, claim.controller_uid, claim.finalizers) == (
        "default/c",
        "b",
        (body["metadata"]["finalizers"][0],),
    )
    assert hash(claim) == hash(parse_resource_claim(body))


def test_more_results_than_a_claim_may_have_count_all_the_same() -> None:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": f"x{i}"} for i in range(40)]
    claim = parse_resource_claim(make_claim(make_request(), status={"allocation": {"devices": {"results": results}}}))
    assert claim.allocation is not None
    assert len(claim.allocation.results) == 40


# --- what is refused


def many(count: int, one: Callable[[int], Body]) -> list[Body]:
    return [one(index) for index in range(count)]


PORTIONS = {f"p{i}": {"value": 1} for i in range(13)}
COUNTERS = {f"c{i}": {"value": "1"} for i in range(33)}


@pytest.mark.parametrize(
    ("parse", "body", "path"),
    [
        (parse_resource_slice, make_slice(driver=""), "spec.driver"),
        (parse_resource_slice, make_slice(pool={"generation": 1}), "spec.pool.name"),
        (parse_resource_slice, make_slice(pool={"name": "p", "generation": -1}), "spec.pool.generation"),
        (parse_resource_slice, make_slice(*many(129, lambda i: make_device(f"d{i}"))), "spec.devices"),
        (
            parse_resource_slice,
            make_slice(*many(65, lambda i: make_device(f"d{i}", taints=[{"key": "k", "effect": "None"}]))),
            "spec.devices",
        ),
        (parse_resource_slice, make_slice({}), "spec.devices[0].name"),
        (
            parse_resource_slice,
            make_slice(make_device(attributes={"a": {"int": "1"}})),
            "spec.devices[0].attributes.a.int",
        ),
        (
            parse_resource_slice,
            make_slice(make_device(attributes={f"a{i}": {"int": 1} for i in range(33)})),
            "spec.devices[0].attributes",
        ),
        (parse_resource_slice, make_slice(make_device(capacity={"m": {}})), "spec.devices[0].capacity.m.value"),
        (
            parse_resource_slice,
            make_slice(make_device(capacity={"m": {"value": "1", "requestPolicy": {"validValues": [1, "x"]}}})),
            "spec.devices[0].capacity.m.requestPolicy.validValues[1]",
        ),
        (
            parse_resource_slice,
            make_slice(make_device(attributes={f"a{i}": {"int": 1} for i in range(20)}, capacity=PORTIONS)),
            "spec.devices[0].attributes",
        ),
        (
            parse_resource_slice,
            make_slice(make_device(bindingConditions=list("abcde"))),
            "spec.devices[0].bindingConditions",
        ),
        (
            parse_resource_slice,
            make_slice(sharedCounters=[{"name": "s", "counters": COUNTERS}]),
            "spec.sharedCounters[0].counters",
        ),
        (parse_resource_slice, make_slice(sharedCounters=many(9, lambda i: {"name": f"s{i}"})), "spec.sharedCounters"),
        (
            parse_device_class,
            make_class(selectors=[{"cel": {"expression": "x" * 10_241}}]),
            "spec.selectors[0].cel.expression",
        ),
        (parse_device_class, make_class(selectors=[{}] * 33), "spec.selectors"),
        (parse_device_class, make_class(config=[7]), "spec.config[0]"),
        (parse_resource_claim, make_claim(*many(33, lambda i: make_request(f"r{i}"))), "spec.devices.requests"),
        (parse_resource_claim, make_claim({}), "spec.devices.requests[0].name"),
        (parse_resource_claim, make_claim(make_request(count=-1)), "spec.devices.requests[0].exactly.count"),
        (
            parse_resource_claim,
            make_claim({"name": "r", "firstAvailable": [{"name": "s"}] * 9}),
            "spec.devices.requests[0].firstAvailable",
        ),
        (
            parse_resource_claim,
            make_claim(make_request(capacity={"requests": {"m": "lots"}})),
            "spec.devices.requests[0].exactly.capacity.requests.m",
        ),
        (
            parse_resource_claim,
            make_claim(status={"allocation": {"devices": {"results": [{}]}}}),
            "status.allocation.devices.results[0].driver",
        ),
        (parse_device_taint_rule, make_object("DeviceTaintRule", "r", spec={}), "spec.taint"),
        (
            parse_device_taint_rule,
            make_object("DeviceTaintRule", "r", spec={"taint": {"key": "k"}}),
            "spec.taint.effect",
        ),
    ],
)
def test_an_invalid_field_is_refused_with_its_path(parse: Callable[[object], object], body: Body, path: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        parse(body)
    assert refused.value.field == path


def test_whatever_is_wrong_with_an_object_only_invalid_object_is_raised() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}, "validValues": ["1"]}
    device = make_device(
        attributes={"a": {"int": 1}},
        capacity={"m": {"value": "8", "requestPolicy": policy}},
        consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
        taints=[{"key": "k", "effect": "NoSchedule"}],
        nodeSelector=ZONE,
    )
    toleration = {"key": "k", "operator": "Exists", "tolerationSeconds": 3}
    selector = {"cel": {"expression": "true"}}
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x", "consumedCapacity": {"m": "1"}}
    bodies: list[tuple[Callable[[object], object], Body]] = [
        (parse_resource_slice, make_slice(device, sharedCounters=[{"name": "s", "counters": {"c": {"value": 1}}}])),
        (parse_device_class, make_class(selectors=[selector], config=[{"opaque": {"driver": "d"}}])),
        (
            parse_resource_claim,
            make_claim(
                make_request(selectors=[selector], tolerations=[toleration], capacity={"requests": {"m": 1}}),
                {"name": "o", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]},
                constraints=[{"requests": ["r"], "matchAttribute": "d/a"}],
                config=[{"requests": ["r"], "opaque": {"driver": "d"}}],
                status={"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"uid": "u"}]},
            ),
        ),
        (
            parse_device_taint_rule,
            make_object("DeviceTaintRule", "r", spec={"taint": {"key": "k", "effect": "None"}, "deviceSelector": {}}),
        ),
    ]
    draw = random.Random(19)
    for parse, body in bodies:
        parse(body)
        for _ in range(1_000):
            with suppress(InvalidObject):
                parse(mutate(body, draw))
