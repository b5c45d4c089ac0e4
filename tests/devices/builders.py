"""Builders of devices, claims and classes, and an allocator over them."""

from collections.abc import Mapping, Sequence
from typing import Any

from berth.engine.devices import (
    AllocatedDevices,
    Allocator,
    ClaimAllocation,
    DeviceInventory,
    SelectorAnswers,
    SelectorFailed,
    find_allocated,
)
from berth.model.devices import (
    Device,
    ResourceClaim,
    ResourceSlice,
    parse_device_class,
    parse_resource_claim,
    parse_resource_slice,
)
from berth.policy.device_selectors import CompileError, EvaluationError, compile_selector
from support.builders import make_object

Body = dict[str, Any]

DRIVER = "gpu.example.com"


def evaluate(text: str, driver: str, device: Device) -> bool:
    """What the selector says of a device, with the words that the allocator's errors have."""
    try:
        return compile_selector(text).matches(driver, device)
    except CompileError as error:
        raise SelectorFailed(f"CEL compile error: {error}") from None
    except EvaluationError as error:
        raise SelectorFailed(f"CEL runtime error: {error}") from None


def device(name: str, *, attributes: Mapping[str, Any] | None = None, **fields: Any) -> Body:
    """A device; attributes are given as their values."""
    kinds = {bool: "bool", int: "int", str: "string"}
    made = {key: {kinds[type(value)]: value} for key, value in (attributes or {}).items()}
    return {"name": name, "attributes": made, **fields}


def devices(count: int, **fields: Any) -> list[Body]:
    return [device(f"gpu-{number:02d}", **fields) for number in range(count)]


def make_slice(
    *found: Body,
    name: str = "s",
    pool: str = "p",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> ResourceSlice:
    where = {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection", "nodeName"} & set(spec) else {"nodeName": "n"}
    head = {"driver": driver, "pool": {"name": pool, "generation": generation, "resourceSliceCount": count}}
    return parse_resource_slice(
        make_object("ResourceSlice", name, spec={**head, **where, "devices": list(found), **spec})
    )


def request(name: str = "r", *, selector: str | None = None, device_class: str = "gpu", **exactly: Any) -> Body:
    selectors = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    return {"name": name, "exactly": {"deviceClassName": device_class, **selectors, **exactly}}


def either(name: str, *alternatives: Body) -> Body:
    """A request with alternatives, each given as a request."""
    return {"name": name, "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in alternatives]}


def make_claim(*requests: Body, name: str = "c", status: Body | None = None, **found: Any) -> ResourceClaim:
    spec = {"devices": {"requests": list(requests), **found}}
    return parse_resource_claim(make_object("ResourceClaim", name, namespace="default", spec=spec, status=status or {}))


def make_classes(**selectors: str) -> dict[str, Any]:
    """Device classes by name, each with one selector; "gpu" selects everything."""
    made = {"gpu": "true", **selectors}
    return {
        name: parse_device_class(make_object("DeviceClass", name, spec={"selectors": [{"cel": {"expression": text}}]}))
        for name, text in made.items()
    }


def make_allocator(
    slices: Sequence[ResourceSlice], claims: Sequence[ResourceClaim] = (), classes: Mapping[str, Any] | None = None
) -> Allocator:
    """An allocator for these slices; `claims` are those that have devices already."""
    inventory = DeviceInventory()
    for made in slices:
        inventory.put(made)
    numbers = iter(range(1000))
    answers = SelectorAnswers(inventory.shapes, evaluate)
    allocated = find_allocated(claims) if claims else AllocatedDevices()
    return Allocator(inventory, allocated, classes or make_classes(), answers, lambda: f"share-{next(numbers)}")


def given(found: list[ClaimAllocation] | None) -> list[list[tuple[str, str]]] | None:
    """The devices of each claim, as (request, device)."""
    return None if found is None else [[(each.request, each.device) for each in one.results] for one in found]


def holding(*names: str, pool: str = "p", **fields: Any) -> ResourceClaim:
    """A claim that has these devices."""
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": name, **fields} for name in names]
    return make_claim(request(), name="holder", status={"allocation": {"devices": {"results": results}}})
