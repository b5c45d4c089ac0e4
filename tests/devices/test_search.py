"""The search finds what a search without shortcuts finds, and ends where that one does not."""

from random import Random

import pytest

from berth.engine.devices import AllocationFailed, Allocator, InvalidPools, allocation_body, allocator
from berth.engine.devices.inventory import DeviceRow
from berth.engine.devices.plans import RequestPlan
from berth.engine.devices.search import Search
from berth.model.devices import ResourceClaim, ResourceSlice
from support.examples import examples

from .builders import DRIVER, Body, device, either, given, make_allocator, make_claim, make_slice, request

CASES = examples(2_000)


class NaiveSearch(Search):
    """Tries every combination, as kube-scheduler does."""

    def _has_candidates(self, plan: RequestPlan) -> bool:
        return True

    def _signature(self, row: DeviceRow) -> tuple[object, ...]:
        return (id(row),)


def answer(made: Allocator, claims: list[ResourceClaim]) -> object:
    try:
        found = made.allocate("n", {}, claims)
    except (AllocationFailed, InvalidPools) as error:
        return str(error)
    return None if found is None else [allocation_body(each) for each in found]


class Cluster:
    """A few slices and claims of a seed: small, so that a naive search ends, and crowded, so that it has to search."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)
        self.has_counters = self._draw.random() < 0.3
        self.slices = self._slices()
        self.claims = [self._claim(name) for name in "ab"[: self._draw.choice((1, 1, 2))]]

    def _slices(self) -> list[ResourceSlice]:
        made = [
            make_slice(*(self._device(place) for place in range(self._draw.randint(1, 6))), count=1 + self.has_counters)
        ]
        if self.has_counters:
            counters = {name: {"value": str(self._draw.randint(1, 6))} for name in ("x", "y")}
            shared = [{"name": "set", "counters": counters}]
            made.append(make_slice(name="t", count=2, sharedCounters=shared))
        if self._draw.random() < 0.3:
            made.append(make_slice(device("other", attributes={"numa": 1}), name="u", pool="q", allNodes=True))
        return made

    def _device(self, place: int) -> Body:
        draw = self._draw
        made = device(
            f"d{place}", attributes={"numa": draw.randint(0, 1), "kind": draw.choice(("a", "b")), "id": place}
        )
        if draw.random() < 0.1:
            del made["attributes"]["kind"]
        if draw.random() < 0.15:
            made["taints"] = [{"key": "k", "effect": "NoSchedule"}]
        if draw.random() < 0.3:
            made["capacity"] = {"m": {"value": str(draw.randint(1, 4))}}
            made["allowMultipleAllocations"] = draw.random() < 0.7
        if self.has_counters and draw.random() < 0.7:
            counters = {draw.choice("xy"): {"value": str(draw.randint(1, 3))}}
            made["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
        return made

    def _claim(self, name: str) -> ResourceClaim:
        draw = self._draw
        requests = [self._request(f"r{place}") for place in range(draw.randint(1, 3))]
        constraints = []
        if draw.random() < 0.4:
            kind = draw.choice(("matchAttribute", "distinctAttribute"))
            constraints.append({kind: f"{DRIVER}/{draw.choice(('numa', 'kind'))}"})
        return make_claim(*requests, name=name, constraints=constraints)

    def _request(self, name: str) -> Body:
        if self._draw.random() < 0.25:
            return either(name, self._exactly("x"), self._exactly("y"))
        return self._exactly(name)

    def _exactly(self, name: str) -> Body:
        draw = self._draw
        made = request(name, count=draw.randint(1, 3))
        if draw.random() < 0.4:
            text = f'device.attributes["{DRIVER}"].{draw.choice(("numa == 0", "kind == " + repr("a"), "id > 1"))}'
            made["exactly"]["selectors"] = [{"cel": {"expression": text}}]
        if draw.random() < 0.3:
            made["exactly"]["capacity"] = {"requests": {"m": str(draw.randint(1, 3))}}
        if draw.random() < 0.3:
            made["exactly"]["tolerations"] = [{"operator": "Exists"}]
        if draw.random() < 0.2:
            made["exactly"] |= {"allocationMode": "All"}
            del made["exactly"]["count"]
        elif draw.random() < 0.1:
            made["exactly"]["adminAccess"] = True
        return made


def test_the_shortcuts_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    different = []
    kinds = {"found": 0, "none": 0, "error": 0}
    for seed in range(CASES):
        cluster = Cluster(seed)
        ours = answer(make_allocator(cluster.slices), cluster.claims)
        with monkeypatch.context() as patched:
            patched.setattr(allocator, "Search", NaiveSearch)
            naive = answer(make_allocator(cluster.slices), cluster.claims)
        kinds["none" if ours is None else "error" if isinstance(ours, str) else "found"] += 1
        if ours != naive:
            different.append(seed)
    assert different == []
    assert all(count > CASES // 50 for count in kinds.values()), kinds


def alike(count: int) -> list[ResourceSlice]:
    return [
        make_slice(
            *(device(f"d{place:02d}", attributes={"uuid": f"u{place}", "numa": place % 2}) for place in range(count))
        )
    ]


def test_more_devices_than_there_are_is_answered_at_once() -> None:
    assert make_allocator(alike(30)).allocate("n", {}, [make_claim(request(count=31))]) is None


def test_two_requests_that_need_more_together_than_there_is_are_answered_at_once() -> None:
    claim = make_claim(request("a", count=12), request("b", count=13))
    assert make_allocator(alike(24)).allocate("n", {}, [claim]) is None


def test_a_constraint_that_cannot_hold_is_answered_at_once() -> None:
    claim = make_claim(request("a", count=8), request("b", count=8), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    assert make_allocator(alike(30)).allocate("n", {}, [claim]) is None
    fits = make_claim(request("a", count=8), request("b", count=7), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    found = given(make_allocator(alike(30)).allocate("n", {}, [fits]))
    assert found is not None
    assert {int(name[1:]) % 2 for _, name in found[0]} == {0}


def test_the_error_of_a_constraint_on_all_devices_is_not_skipped() -> None:
    """The first and the last device look the same; only with the last in use does the second come into play."""
    found = [device(name, attributes={"numa": numa}) for name, numa in (("a", 0), ("b", 1), ("c", 0))]
    constraint = {"requests": ["all"], "matchAttribute": f"{DRIVER}/numa"}
    claim = make_claim(request("one"), request("all", allocationMode="All"), constraints=[constraint])
    with pytest.raises(AllocationFailed, match="p/b because a claim constraint would not be"):
        make_allocator([make_slice(*found)]).allocate("n", {}, [claim])
