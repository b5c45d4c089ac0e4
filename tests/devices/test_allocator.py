"""Which devices claims get: kube-scheduler's order, conditions and errors."""

from typing import Any

import pytest

from berth.engine.devices import AllocationFailed, DeviceInventory, InvalidPools, allocation_body
from berth.model.devices import ResourceClaim, ResourceSlice

from .builders import (
    DRIVER,
    Body,
    device,
    devices,
    either,
    given,
    holding,
    make_allocator,
    make_claim,
    make_classes,
    make_slice,
    request,
)

ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}
Found = list[list[tuple[str, str]]] | None


def allocate(
    slices: list[ResourceSlice], *claims: ResourceClaim, held: tuple[ResourceClaim, ...] = (), **labels: str
) -> Found:
    return given(make_allocator(slices, held).allocate("n", labels, claims))


# --- order


def test_devices_are_taken_in_the_order_of_pools_slices_and_devices() -> None:
    slices = [
        make_slice(device("z"), device("a"), name="t", pool="q", count=2),
        make_slice(device("y"), name="s", pool="q", count=2),
        make_slice(device("x"), name="u", pool="b"),
    ]
    assert allocate(slices, make_claim(request(count=4))) == [[("r", "x"), ("r", "y"), ("r", "z"), ("r", "a")]]


def test_pools_with_binding_conditions_come_last() -> None:
    slices = [
        make_slice(device("late", bindingConditions=["ready"]), name="s", pool="a"),
        make_slice(device("soon"), name="t", pool="b"),
    ]
    assert allocate(slices, make_claim(request(count=2))) == [[("r", "soon"), ("r", "late")]]


def test_an_earlier_request_makes_room_for_a_later_one() -> None:
    slices = [make_slice(device("a", attributes={"big": True}), device("b", attributes={"big": False}))]
    big = f'device.attributes["{DRIVER}"].big'
    claim = make_claim(request("any"), request("big", selector=big))
    assert allocate(slices, claim) == [[("any", "b"), ("big", "a")]]


# --- pools


@pytest.mark.parametrize(("generations", "found"), [((1, 1), "old"), ((1, 2), "new"), ((2, 1), "old")])
def test_only_the_newest_generation_of_a_pool_counts(generations: tuple[int, int], found: str) -> None:
    old, new = generations
    count = 2 if old == new else 1
    slices = [
        make_slice(device("old"), name="a", generation=old, count=count),
        make_slice(device("new"), name="b", generation=new, count=count),
    ]
    assert allocate(slices, make_claim(request())) == [[("r", found)]]


def test_nothing_is_taken_from_a_pool_whose_slices_are_not_all_there() -> None:
    assert allocate([make_slice(device("a"), count=2)], make_claim(request())) is None


def test_a_pool_is_complete_with_slices_that_do_not_reach_the_node() -> None:
    slices = [make_slice(device("a"), count=2), make_slice(device("b"), name="t", count=2, nodeName="m")]
    assert allocate(slices, make_claim(request())) == [[("r", "a")]]


def test_a_pool_is_ignored_once_a_newer_generation_is_anywhere() -> None:
    slices = [make_slice(device("a"), count=2), make_slice(device("b"), name="t", generation=2, nodeName="m")]
    assert allocate(slices, make_claim(request())) is None


def test_a_pool_that_contradicts_itself_is_said_where_nothing_else_helps() -> None:
    broken = make_slice(device("a"), device("a"))
    with pytest.raises(InvalidPools, match="invalid resource pools were encountered"):
        allocate([broken], make_claim(request()))
    sound = make_slice(device("b"), name="t", pool="q")
    assert allocate([broken, sound], make_claim(request())) == [[("r", "b")]]


def test_a_slice_that_is_replaced_or_removed_is_forgotten() -> None:
    inventory = DeviceInventory()
    inventory.put(make_slice(device("a")))
    inventory.put(make_slice(device("b"), nodeName="m"))
    assert list(inventory.reachable("n")) == []
    assert [row.device.name for rows in inventory.reachable("m") for row in rows.rows] == ["b"]
    inventory.remove("s")
    inventory.remove("s")
    assert list(inventory.reachable("m")) == []
    assert not inventory.of_pool((DRIVER, "p"))


def test_devices_with_nodes_of_their_own_are_for_these_nodes() -> None:
    slices = [make_slice(device("a", nodeName="m"), device("b", nodeSelector=ZONE), perDeviceNodeSelection=True)]
    assert allocate(slices, make_claim(request()), zone="z1") == [[("r", "b")]]
    assert allocate(slices, make_claim(request()), zone="z2") is None


# --- what is in use


def test_a_device_of_another_claim_is_not_given_again() -> None:
    slices = [make_slice(*devices(2))]
    assert allocate(slices, make_claim(request()), held=(holding("gpu-00"),)) == [[("r", "gpu-01")]]
    assert allocate(slices, make_claim(request()), held=(holding("gpu-00", "gpu-01"),)) is None


def test_admin_access_gets_devices_that_are_in_use_and_uses_none() -> None:
    slices = [make_slice(*devices(1))]
    admin = make_claim(request(adminAccess=True))
    assert allocate(slices, admin, held=(holding("gpu-00"),)) == [[("r", "gpu-00")]]
    assert allocate(slices, make_claim(request()), held=(holding("gpu-00", adminAccess=True),)) == [[("r", "gpu-00")]]


def test_claims_of_one_pod_get_different_devices() -> None:
    slices = [make_slice(*devices(2))]
    claims = [make_claim(request(), name="a"), make_claim(request(), name="b")]
    assert allocate(slices, *claims) == [[("r", "gpu-00")], [("r", "gpu-01")]]


# --- requests


def test_the_first_alternative_counts_that_lets_everything_succeed() -> None:
    slices = [make_slice(*devices(3))]
    claim = make_claim(either("r", request("big", count=4), request("small", count=2)), request("t"))
    found = make_allocator(slices).allocate("n", {}, [claim])
    assert given(found) == [[("r/small", "gpu-00"), ("r/small", "gpu-01"), ("t", "gpu-02")]]


def test_all_devices_are_given_or_none() -> None:
    slices = [make_slice(*devices(3))]
    everything = make_claim(request(allocationMode="All"))
    assert allocate(slices, everything) == [[("r", "gpu-00"), ("r", "gpu-01"), ("r", "gpu-02")]]
    assert allocate(slices, everything, held=(holding("gpu-01"),)) is None
    assert allocate([], everything) is None


@pytest.mark.parametrize(
    ("slices", "state"),
    [([make_slice(device("a"), count=2)], "being updated"), ([make_slice(device("a"), device("a"))], "invalid")],
)
def test_all_devices_cannot_be_had_of_a_pool_that_is_not_known_in_full(slices: list[ResourceSlice], state: str) -> None:
    with pytest.raises(AllocationFailed) as failed:
        allocate(slices, make_claim(request(allocationMode="All")))
    expected = f"asks for all devices, but resource pool {DRIVER}/p is currently {state}"
    assert str(failed.value) == f"claim default/c, request r: {expected}"


def test_a_claim_has_at_most_32_devices() -> None:
    slices = [make_slice(*devices(40))]
    with pytest.raises(
        AllocationFailed, match="claim default/c: number of requested devices 33 exceeds the claim limit of 32"
    ):
        allocate(slices, make_claim(request(count=33)))
    claim = make_claim(request("a", count=20), either("b", request("x", count=13), request("y", count=12)))
    found = allocate(slices, claim)
    assert found is not None
    assert [name for name, _ in found[0]] == ["a"] * 20 + ["b/y"] * 12


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (make_claim(request(device_class="none")), "request r: could not retrieve device class none: "),
        (make_claim({"name": "r"}), "request r: missing device class name (unsupported request type?)"),
        (make_claim(request(allocationMode="Some")), "request r: unsupported count mode Some"),
        (make_claim(request(selectors=[{}])), "request r, selector #0: CEL expression empty"),
        (make_claim(request(), constraints=[{}]), "constraint #0: empty constraint (unsupported constraint type?)"),
    ],
)
def test_what_is_not_known_is_an_error(claim: ResourceClaim, words: str) -> None:
    with pytest.raises(AllocationFailed) as failed:
        allocate([make_slice(device("a"))], claim)
    assert str(failed.value).startswith(f"claim default/c, {words}")


# --- selectors


def test_a_selector_that_fails_ends_the_search_only_if_its_device_is_reached() -> None:
    slices = [make_slice(device("a", attributes={"ok": True}), device("b"))]
    claim = make_claim(request(selector=f'device.attributes["{DRIVER}"].ok'))
    assert allocate(slices, claim) == [[("r", "a")]]
    with pytest.raises(AllocationFailed, match="claim default/c: selector #0: CEL runtime error: no such key: ok"):
        allocate(slices, claim, held=(holding("a"),))


def test_the_selectors_of_a_class_count_before_those_of_a_request() -> None:
    slices = [make_slice(device("a"))]
    allocator = make_allocator(slices, classes=make_classes(broken="device.driver.size() / 0 == 1"))
    with pytest.raises(AllocationFailed, match="class broken: selector #0: CEL runtime error: division by zero"):
        allocator.allocate("n", {}, [make_claim(request(device_class="broken", selector="false"))])


# --- taints


def test_a_tainted_device_needs_a_toleration() -> None:
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    slices = [make_slice(device("a", taints=taints), device("b", taints=[{"key": "k", "effect": "None"}]))]
    assert allocate(slices, make_claim(request())) == [[("r", "b")]]
    tolerating = request(tolerations=[{"key": "k", "operator": "Exists"}])
    assert allocate(slices, make_claim(tolerating)) == [[("r", "a")]]


# --- constraints


def numa(*values: int) -> list[Body]:
    return [device(f"d{place}", attributes={"numa": value}) for place, value in enumerate(values)]


def test_devices_with_the_same_value_are_found_together() -> None:
    slices = [make_slice(*numa(0, 1, 1, 0))]
    claim = make_claim(request("a"), request("b"), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    assert allocate(slices, claim) == [[("a", "d0"), ("b", "d3")]]
    three = make_claim(request(count=3), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    assert allocate(slices, three) is None


def test_devices_with_different_values_are_found_together() -> None:
    slices = [make_slice(*numa(0, 0, 1))]
    claim = make_claim(request("a"), request("b"), constraints=[{"distinctAttribute": f"{DRIVER}/numa"}])
    assert allocate(slices, claim) == [[("a", "d0"), ("b", "d2")]]


def test_a_constraint_is_for_its_requests_only() -> None:
    slices = [make_slice(*numa(0, 1, 1))]
    constraint = {"requests": ["b", "c/x"], "matchAttribute": f"{DRIVER}/numa"}
    claim = make_claim(request("a"), request("b"), either("c", request("x")), constraints=[constraint])
    assert allocate(slices, claim) == [[("a", "d0"), ("b", "d1"), ("c/x", "d2")]]


def test_a_constraint_that_excludes_one_of_all_devices_is_an_error() -> None:
    claim = make_claim(request(allocationMode="All"), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    with pytest.raises(AllocationFailed) as failed:
        allocate([make_slice(*numa(0, 1))], claim)
    problem = f"cannot add device {DRIVER}/p/d1 because a claim constraint would not be satisfied"
    assert str(failed.value) == f"claim default/c, request r: {problem}"


# --- counters


def counting(name: str, memory: str) -> Body:
    return device(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": memory}}}])


def card(*parts: Body, memory: str = "8Gi") -> list[ResourceSlice]:
    shared = [{"name": "card", "counters": {"memory": {"value": memory}}}]
    return [make_slice(*parts, count=2), make_slice(name="t", count=2, sharedCounters=shared)]


def test_devices_that_share_counters_are_given_while_these_suffice() -> None:
    slices = card(counting("whole", "8Gi"), counting("half-0", "4Gi"), counting("half-1", "4Gi"))
    assert allocate(slices, make_claim(request(count=2))) == [[("r", "half-0"), ("r", "half-1")]]
    assert allocate(slices, make_claim(request(count=3))) is None
    assert allocate(slices, make_claim(request()), held=(holding("half-1"),)) == [[("r", "half-0")]]
    assert allocate(slices, make_claim(request()), held=(holding("whole"),)) is None


def test_a_candidate_that_is_rejected_gives_its_counters_back() -> None:
    tainted = counting("a", "8Gi") | {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    assert allocate(card(tainted, counting("b", "8Gi")), make_claim(request())) == [[("r", "b")]]


def test_a_pool_with_unknown_counters_is_invalid() -> None:
    with pytest.raises(InvalidPools):
        allocate([make_slice(counting("a", "1Gi"))], make_claim(request()))


# --- capacity


def shareable(name: str = "a", **policy: Any) -> Body:
    memory: Body = {"value": "8Gi"}
    if policy:
        memory["requestPolicy"] = policy
    return device(name, allowMultipleAllocations=True, capacity={"memory": memory})


def capacity(amount: str) -> Body:
    return {"requests": {"memory": amount}}


def consumed(policy: Body, amount: str | None) -> Any:
    wanted: Body = {} if amount is None else {"capacity": capacity(amount)}
    found = make_allocator([make_slice(shareable(**policy))]).allocate("n", {}, [make_claim(request(**wanted))])
    return None if found is None else found[0].results[0].consumed_capacity["memory"].text


@pytest.mark.parametrize(
    ("policy", "amount", "text"),
    [
        ({}, None, "8Gi"),
        ({}, "3Gi", "3Gi"),
        ({}, "9Gi", None),
        ({"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}, None, "1Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}, "1500Mi", "2Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}, "5Gi", None),
        ({"default": "1Gi", "validRange": {"min": "1Gi"}}, "1Mi", "1Gi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}, "2500Mi", "3Gi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "max": "2Gi"}}, "3Gi", None),
    ],
)
def test_a_request_consumes_a_portion_that_the_policy_allows(
    policy: Body, amount: str | None, text: str | None
) -> None:
    assert consumed(policy, amount) == text


def test_a_device_is_shared_until_its_capacity_is_consumed() -> None:
    slices = [make_slice(shareable())]
    three = request(capacity=capacity("3Gi"))
    claims = [make_claim(three, name=name) for name in "abc"]
    assert allocate(slices, *claims[:2]) == [[("r", "a")], [("r", "a")]]
    assert allocate(slices, *claims) is None
    held = (holding("a", shareID="s", consumedCapacity={"memory": "6Gi"}),)
    assert allocate(slices, claims[0], held=held) is None


def test_a_capacity_that_the_device_lacks_excludes_it() -> None:
    slices = [make_slice(device("a"), shareable("b"))]
    assert allocate(slices, make_claim(request(capacity=capacity("1Gi")))) == [[("r", "b")]]


def test_every_share_gets_an_id_of_its_own() -> None:
    one, two = (make_claim(request(capacity=capacity("1Gi")), name=name) for name in "ab")
    found = make_allocator([make_slice(shareable())]).allocate("n", {}, [one, two])
    assert found is not None
    assert [each.results[0].share_id for each in found] == ["share-0", "share-1"]


# --- results


def body_of(slices: list[ResourceSlice], claim: ResourceClaim, **labels: str) -> Body:
    found = make_allocator(slices).allocate("n", labels, [claim])
    assert found is not None
    return allocation_body(found[0])


def test_a_local_device_ties_the_claim_to_its_node() -> None:
    requirement = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    assert body_of([make_slice(device("a"))], make_claim(request())) == {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "p", "device": "a"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [requirement]}]},
    }


def test_a_device_for_some_nodes_ties_the_claim_to_these() -> None:
    slices = [
        make_slice(device("a"), nodeSelector=ZONE),
        make_slice(device("b"), name="t", pool="q", nodeSelector=ZONE),
    ]
    assert body_of(slices, make_claim(request(count=2)), zone="z1")["nodeSelector"] == ZONE


def test_a_device_for_all_nodes_ties_the_claim_to_none_unless_it_binds() -> None:
    assert "nodeSelector" not in body_of([make_slice(device("a"), allNodes=True)], make_claim(request()))
    assert "nodeSelector" in body_of([make_slice(device("a", bindsToNode=True), allNodes=True)], make_claim(request()))


def test_configuration_of_classes_comes_once_and_that_of_the_claim_for_its_requests() -> None:
    classes = make_classes()
    opaque: Body = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    from dataclasses import replace

    classes["gpu"] = replace(classes["gpu"], configuration=(opaque,))
    claim = make_claim(
        request("a"),
        either("b", request("x"), request("y")),
        config=[opaque, {"requests": ["b/x"], **opaque}, {"requests": ["b/y"], **opaque}],
    )
    found = make_allocator([make_slice(*devices(2))], classes=classes).allocate("n", {}, [claim])
    assert found is not None
    assert allocation_body(found[0])["devices"]["config"] == [
        {"source": "FromClass", "requests": ["a", "b/x"], **opaque},
        {"source": "FromClaim", **opaque},
        {"source": "FromClaim", "requests": ["b/x"], **opaque},
    ]


def test_tolerations_and_binding_conditions_are_copied_into_the_result() -> None:
    toleration = {"key": "k", "operator": "Exists", "tolerationSeconds": 5}
    made = device("a", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    [result] = body_of([make_slice(made)], make_claim(request(tolerations=[toleration], adminAccess=True)))["devices"][
        "results"
    ]
    assert result["tolerations"] == [toleration]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["ready"], ["failed"])
    assert result["adminAccess"] is True
