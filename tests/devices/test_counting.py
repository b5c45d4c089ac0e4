"""Counting says of nodes what the search says, wherever it says anything."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from berth.engine.devices import (
    AllocationFailed,
    Allocator,
    DeviceInventory,
    InvalidPools,
    find_allocated,
)
from berth.engine.devices.columns import DeviceColumns
from berth.engine.devices.counting import FITS, REFUSED, SEARCH, Counted, count_devices, countable
from berth.engine.devices.selection import SelectorAnswers
from berth.model.devices import ResourceClaim, ResourceSlice
from conformance.device_verdicts import Cluster
from conformance.oracle.generator import device_cases
from support.examples import examples

from .builders import DRIVER, device, devices, evaluate, holding, make_claim, make_classes, make_slice, request

Node = tuple[str, Mapping[str, str]]
CLUSTERS = examples(400)


def counted(
    slices: Sequence[ResourceSlice],
    nodes: Sequence[str],
    *claims: ResourceClaim,
    held: Sequence[ResourceClaim] = (),
) -> tuple[Counted, DeviceColumns]:
    inventory = DeviceInventory()
    for made in slices:
        inventory.put(made)
    columns = DeviceColumns(inventory)
    columns.refresh([(name, {}) for name in nodes])
    in_use = columns.in_use(find_allocated(held))
    answers = SelectorAnswers(inventory.shapes, evaluate)
    return count_devices(columns, in_use, claims, make_classes(), answers), columns


def on(*nodes: str, count: int = 2) -> list[ResourceSlice]:
    return [make_slice(*devices(count), name=f"s-{node}", pool=node, nodeName=node) for node in nodes]


def codes(found: tuple[Counted, DeviceColumns]) -> list[int]:
    return [int(code) for code in found[0].codes]


def test_nodes_fit_that_have_enough_free_devices() -> None:
    slices = [*on("a", count=3), *on("b", count=1)]
    claim = make_claim(request(count=2))
    assert codes(counted(slices, ["a", "b", "c"], claim)) == [FITS, REFUSED, REFUSED]
    held = holding("gpu-00", "gpu-01", pool="a")
    assert codes(counted(slices, ["a", "b"], claim, held=[held])) == [REFUSED, REFUSED]


def test_later_requests_take_what_is_left_or_need_a_search() -> None:
    claim = make_claim(request("x"), request("y"))
    assert codes(counted([*on("a"), *on("b", count=1)], ["a", "b"], claim)) == [FITS, SEARCH]


def test_a_selector_that_fails_and_special_devices_need_a_search() -> None:
    slices = [
        make_slice(device("x", attributes={"ok": True}), name="a", pool="a", nodeName="a"),
        make_slice(device("x"), name="b", pool="b", nodeName="b"),
        make_slice(device("x", allowMultipleAllocations=True), name="c", pool="c", nodeName="c"),
        make_slice(device("x"), name="d", pool="d", nodeName="d", count=2),
    ]
    picky = make_claim(request(selector=f'device.attributes["{DRIVER}"].ok'))
    assert codes(counted(slices[:2], ["a", "b"], picky)) == [FITS, SEARCH]
    assert codes(counted(slices, ["a", "b", "c", "d"], make_claim(request()))) == [FITS, FITS, SEARCH, SEARCH]


@pytest.mark.parametrize(
    ("claim", "is_countable"),
    [
        (make_claim(request(count=3), request("s")), True),
        (make_claim(request(allocationMode="All")), False),
        (make_claim(request(adminAccess=True)), False),
        (make_claim(request(capacity={"requests": {"m": "1"}})), False),
        (make_claim(request(), constraints=[{"matchAttribute": "a/b"}]), False),
        (make_claim({"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}), False),
        (make_claim(request(device_class="none")), False),
        (make_claim(request("a", count=20), request("b", count=13)), False),
    ],
)
def test_only_plain_claims_are_counted(claim: ResourceClaim, is_countable: bool) -> None:
    assert countable([claim], make_classes()) is is_countable


def test_columns_follow_slices_and_labels() -> None:
    inventory = DeviceInventory()
    columns = DeviceColumns(inventory)
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}

    def names(**labels: str) -> list[list[str]]:
        columns.refresh([("a", {}), ("b", labels)])
        return [
            [row.device.name for row, node in zip(columns.rows, columns.node, strict=True) if node == at]
            for at in (0, 1)
        ]

    assert names() == [[], []]
    inventory.put(make_slice(device("x"), name="s", nodeName="a"))
    inventory.put(make_slice(device("y"), name="t", pool="q", nodeSelector=zone))
    assert names() == [["x"], []]
    assert names(zone="z") == [["x"], ["y"]]
    inventory.put(make_slice(device("z"), name="s", nodeName="b", generation=2))
    assert names(zone="z") == [[], ["z", "y"]]
    inventory.remove("s")
    inventory.remove("t")
    assert names(zone="z") == [[], []]


def search(allocator: Allocator, node: Node, claims: Sequence[ResourceClaim]) -> object:
    try:
        found = allocator.allocate(node[0], node[1], claims)
    except (AllocationFailed, InvalidPools) as error:
        return str(error)
    return None if found is None else [(each.request, each.pool, each.device) for one in found for each in one.results]


def test_counting_agrees_with_the_search_on_random_clusters() -> None:
    said = {FITS: 0, REFUSED: 0, SEARCH: 0}
    for case in device_cases("counting", CLUSTERS, 6):
        cluster = Cluster(case)
        claims = [c for c in cluster.claims.values() if c.namespace == "default" and c.allocation is None]
        if not claims or not countable(claims, cluster.classes):
            continue
        nodes: list[Node] = [(node.name, node.labels) for node in cluster.nodes]
        columns, allocated = DeviceColumns(cluster.inventory), find_allocated(cluster.claims.values())
        columns.refresh(nodes)
        answers = SelectorAnswers(cluster.inventory.shapes, evaluate)
        found = count_devices(columns, columns.in_use(allocated), claims, cluster.classes, answers)
        for place, node in enumerate(nodes):
            code = int(found.codes[place])
            said[code] += 1
            if code != SEARCH:
                assert search(cluster.allocator(), node, claims) == taken(found, columns, place, claims), case["id"]
    assert min(said.values()) > CLUSTERS // 40, said


def taken(found: Counted, columns: DeviceColumns, place: int, claims: Sequence[ResourceClaim]) -> object:
    if found.codes[place] == REFUSED:
        return None
    requests = [each for claim in claims for each in claim.requests]
    return [
        (each.name, columns.rows[row].id.pool, columns.rows[row].id.device)
        for each, rows in zip(requests, found.taken, strict=True)
        for row in np.flatnonzero(rows & (columns.node == place)).tolist()
    ]


def test_nothing_is_counted_without_nodes_or_devices() -> None:
    claim = make_claim(request())
    assert codes(counted([], [], claim)) == []
    assert codes(counted([], ["a"], claim)) == [REFUSED]
