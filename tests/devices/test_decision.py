"""What is said of a pod with claims: whether it can be tried, of each node, and the score."""

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.engine.devices import (
    ClaimingPod,
    DeviceDecision,
    NodeCode,
    Refused,
    check_classes,
    find_claims,
    normalised,
)
from berth.engine.devices.decision import is_ready_to_bind
from berth.model.devices import ResourceClaim, ResourceSlice, build_pod_claims, parse_resource_claim
from support.builders import make_object, make_pod

from .builders import (
    DRIVER,
    Body,
    device,
    devices,
    either,
    make_allocator,
    make_claim,
    make_classes,
    make_slice,
    request,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}


def claiming(*entries: Body, status: list[Body] | None = None) -> ClaimingPod:
    body = make_pod("p", resourceClaims=list(entries))
    body.setdefault("status", {})["resourceClaimStatuses"] = status or []
    return ClaimingPod("default", "p", "uid-p", build_pod_claims(body))


def owned(name: str, owner: str) -> ResourceClaim:
    body = make_object("ResourceClaim", name, namespace="default", spec={})
    body["metadata"]["ownerReferences"] = [{"uid": owner, "controller": True}]
    return parse_resource_claim(body)


BY_NAME = {"name": "gpu", "resourceClaimName": "c"}
BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}


def test_claims_are_found_by_name_and_by_the_name_that_the_status_gives() -> None:
    by_name, made = make_claim(request()), owned("made", "uid-p")
    pod = claiming(BY_NAME, BY_TEMPLATE | {"name": "other"}, status=[{"name": "other", "resourceClaimName": "made"}])
    assert find_claims(pod, {by_name.key: by_name, made.key: made}) == [by_name, made]


def test_a_claim_that_the_status_says_is_not_needed_is_left_out() -> None:
    assert find_claims(claiming(BY_TEMPLATE, status=[{"name": "gpu"}]), {}) == []


@pytest.mark.parametrize(
    ("pod", "claims", "reason"),
    [
        (claiming(BY_NAME), [], 'could not find ResourceClaim "default/c"'),
        (claiming(BY_TEMPLATE), [], 'pod "default/p": ResourceClaim not created yet'),
        (claiming({"name": "x"}), [], 'pod "default/p", spec.resourceClaim "x": none of the supported fields are set'),
        (
            claiming(BY_TEMPLATE, status=[{"name": "gpu", "resourceClaimName": "made"}]),
            [owned("made", "another")],
            "ResourceClaim default/made was not created for Pod default/p (Pod is not owner)",
        ),
    ],
)
def test_a_pod_whose_claims_are_not_there_is_refused(
    pod: ClaimingPod, claims: list[ResourceClaim], reason: str
) -> None:
    with pytest.raises(Refused) as refused:
        find_claims(pod, {claim.key: claim for claim in claims})
    assert str(refused.value) == reason


def test_a_claim_that_is_being_deleted_is_refused() -> None:
    body = make_object("ResourceClaim", "c", namespace="default", spec={})
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    claim = parse_resource_claim(body)
    with pytest.raises(Refused, match='resourceclaim "c" is being deleted'):
        find_claims(claiming(BY_NAME), {claim.key: claim})


@pytest.mark.parametrize(
    ("claim", "in_flight", "reason"),
    [
        (make_claim(request(device_class="x")), (), "request r: device class x does not exist"),
        (make_claim(either("r", request("s", device_class="x"))), (), "request r/s: device class x does not exist"),
        (make_claim({"name": "r"}), (), "resource claim default/c, request r: unknown request type"),
        (make_claim(request()), ("uid",), "resource claim default/c is in the process of being allocated"),
    ],
)
def test_a_claim_that_cannot_be_allocated_now_is_refused(
    claim: ResourceClaim, in_flight: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(Refused) as refused:
        check_classes([claim], tuple(claim.uid for _ in in_flight), make_classes())
    assert str(refused.value) == reason


# --- nodes


def decide(claims: list[ResourceClaim], *slices: ResourceSlice, now: datetime = NOON) -> DeviceDecision:
    return DeviceDecision(claims, make_allocator(slices), lambda: now)


def allocated(result: Body | None = None, **fields: Any) -> ResourceClaim:
    """A claim that has a device."""
    found = {"request": "r", "driver": DRIVER, "pool": "p", "device": "a", **(result or {})}
    statuses = fields.pop("devices", [])
    allocation = {"devices": {"results": [found]}, **fields}
    return make_claim(request(), name="held", status={"allocation": allocation, "devices": statuses})


def test_a_node_fits_where_the_claims_can_be_satisfied() -> None:
    decision = decide([make_claim(request())], make_slice(device("a")))
    answer = decision.filter("n", {})
    assert answer.code is NodeCode.FITS
    assert [each.results[0].device for each in answer.allocations] == ["a"]
    refused = decision.filter("m", {})
    assert (refused.code, refused.reason) == (NodeCode.REFUSED, "cannot allocate all claims")


def test_an_allocated_claim_is_available_where_its_devices_are() -> None:
    claim = allocated(nodeSelector=HERE)
    assert decide([claim]).filter("n", {}).code is NodeCode.FITS
    elsewhere = decide([claim]).filter("m", {})
    assert (elsewhere.code, elsewhere.reason) == (NodeCode.REFUSED, "resourceclaim not available on the node")
    assert elsewhere.unavailable == (claim,)


def test_what_cannot_be_allocated_hides_what_is_not_available() -> None:
    answer = decide([allocated(nodeSelector=HERE), make_claim(request())]).filter("m", {})
    assert (answer.reason, answer.unavailable) == ("cannot allocate all claims", ())


def test_invalid_pools_refuse_the_node_and_broken_selectors_fail_the_pod() -> None:
    invalid = decide([make_claim(request())], make_slice(device("a"), device("a"))).filter("n", {})
    assert (invalid.code, invalid.reason) == (NodeCode.REFUSED, "invalid resource pools were encountered")
    broken = decide([make_claim(request(selector="1 / 0 == 1"))], make_slice(device("a"))).filter("n", {})
    assert broken.code is NodeCode.FAILED
    assert broken.reason == "claim default/c: selector #0: CEL runtime error: division by zero"


# --- binding conditions

CONDITIONS = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}


def saying(**conditions: str) -> list[Body]:
    listed = [{"type": name, "status": status} for name, status in conditions.items()]
    return [{"driver": DRIVER, "pool": "p", "device": "a", "conditions": listed}]


@pytest.mark.parametrize(
    ("devices_said", "ready"),
    [
        ([], False),
        (saying(), False),
        (saying(ready="False"), False),
        (saying(ready="True"), True),
        (saying(ready="True", failed="False"), True),
        (saying(ready="True", failed="True"), None),
    ],
)
def test_a_claim_is_ready_once_the_conditions_of_its_devices_are_true(
    devices_said: list[Body], ready: bool | None
) -> None:
    assert is_ready_to_bind(allocated(CONDITIONS, devices=devices_said)) is ready


@pytest.mark.parametrize(
    ("stamp", "devices_said", "fits"),
    [
        ("2026-01-01T11:55:00Z", [], True),
        ("2026-01-01T11:45:00Z", [], False),
        ("2026-01-01T11:45:00Z", saying(ready="True"), True),
        ("2026-01-01T11:55:00Z", saying(failed="True"), False),
        ("", [], True),
    ],
)
def test_a_claim_whose_binding_failed_or_is_late_is_not_available(
    stamp: str, devices_said: list[Body], fits: bool
) -> None:
    claim = allocated(CONDITIONS, devices=devices_said, allocationTimestamp=stamp)
    assert (decide([claim]).filter("n", {}).code is NodeCode.FITS) is fits


# --- score


def test_earlier_alternatives_score_higher() -> None:
    claim = make_claim(either("r", request("a", count=3), request("b", count=1)))
    plenty, little = (decide([claim], make_slice(*devices(count))) for count in (3, 1))
    assert plenty.score(plenty.filter("n", {})) == 8
    assert little.score(little.filter("n", {})) == 7


def test_a_claim_that_is_allocated_scores_only_beside_one_that_is_not() -> None:
    held = make_claim(
        either("r", request("a"), request("b")),
        name="held",
        status={
            "allocation": {"devices": {"results": [{"request": "r/b", "driver": "d", "pool": "p", "device": "x"}]}}
        },
    )
    alone, beside = decide([held]), decide([held, make_claim(request())], make_slice(device("a")))
    assert alone.score(alone.filter("n", {})) == 0
    assert beside.score(beside.filter("n", {})) == 7


def test_scores_are_normalised_to_the_highest() -> None:
    assert normalised({"a": 8, "b": 7, "c": 0}) == {"a": 100, "b": 87, "c": 0}
    assert normalised({"a": 0}) == {"a": 0}
