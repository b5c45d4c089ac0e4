"""The theme of devices: slices, classes and claims of resource.k8s.io, and a pod that claims some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .case import ZONE, Body, Case

VERSION: Final = "resource.k8s.io/v1"
DRIVERS: Final = ("gpu.example.com", "nic.example.com")
GPU: Final = DRIVERS[0]
MODELS: Final = ("a100", "h100", "l4")
MEMORY: Final = ("8Gi", "16Gi", "40Gi", "80Gi")
TAINT: Final = {"key": "example.com/broken", "value": "x", "effect": "NoSchedule"}
SELECTORS: Final = (
    f'device.attributes["{GPU}"].model == "a100"',
    f'device.attributes["{GPU}"].model in ["a100", "h100"]',
    f'device.attributes["{GPU}"].numa == 0',
    f'device.attributes["{GPU}"].mig',
    f'device.capacity["{GPU}"].memory.compareTo(quantity("16Gi")) >= 0',
    f'has(device.attributes["{GPU}"].version) && device.attributes["{GPU}"].version.isGreaterThan(semver("1.5.0"))',
    'device.attributes["common.example.com"].rack == "r1"',
    '"common.example.com" in device.attributes',
    "!device.allowMultipleAllocations",
    'device.driver.startsWith("gpu")',
)
CLASSES: Final = {
    "gpu": f'device.driver == "{GPU}"',
    "nic": f'device.driver == "{DRIVERS[1]}"',
    "big": f'device.driver == "{GPU}" && device.capacity["{GPU}"].memory.isGreaterThan(quantity("16Gi"))',
    "any": "true",
    "fragile": f'device.attributes["{GPU}"].version.major() > 0',
}


def dra(case: Case) -> Body:
    case.make_nodes()
    for name, selector in CLASSES.items():
        spec: Body = {"selectors": [{"cel": {"expression": selector}}]}
        if case.chance(0.4):
            spec["config"] = [_opaque(f"of-{name}")]
        case.add(VERSION, "DeviceClass", name, None, spec=spec)
    drawn = _Slices(case)
    drawn.add()
    _hold_some(case, drawn.devices)
    pod = case.pod(namespace="default", requests={"cpu": "10m"})
    _want_claims(case, pod)
    return pod


# --- devices


class _Slices:
    """The slices of a case; `devices` are all devices that can be held, with their pool."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._serial = 0
        self.devices: list[tuple[str, str, Body]] = []

    def add(self) -> None:
        case = self._case
        for node in case.nodes:
            name = node["metadata"]["name"]
            if case.chance(0.85):
                self._add_pool(name, GPU, {"nodeName": name})
            if case.chance(0.3):
                self._add_pool(f"{name}-nic", DRIVERS[1], {"nodeName": name})
        if case.chance(0.35):
            self._add_pool("fabric", GPU, {"allNodes": True})
        if case.chance(0.35):
            term = {
                "matchExpressions": [{"key": ZONE, "operator": "In", "values": case.some(["z1", "z2", "z3"], 1, 2)}]
            }
            self._add_pool("zonal", case.pick(DRIVERS), {"nodeSelector": {"nodeSelectorTerms": [term]}})
        if case.chance(0.25):
            self._add_pool("mixed", GPU, {"perDeviceNodeSelection": True})

    def _add_pool(self, pool: str, driver: str, where: Body) -> None:
        case = self._case
        partitioned = case.chance(0.2)
        devices = [self._device(driver, place, partitioned) for place in range(case.number(1, 5))]
        if "perDeviceNodeSelection" in where:
            for device in devices:
                device |= case.pick([{"allNodes": True}, {"nodeName": case.node_name()}])
        if case.chance(0.04):
            devices.append(dict(devices[0]))
        generation, count = case.number(1, 3), 1 + partitioned
        parts = [devices[:2], devices[2:]] if len(devices) > 2 and case.chance(0.3) else [devices]
        count += len(parts) - 1 + (1 if case.chance(0.05) else 0)
        for part in parts:
            self._add(driver, pool, generation, count, where | {"devices": part})
        if partitioned:
            counters = {name: {"value": str(case.number(2, 6))} for name in ("slots", "engines")}
            shared = [{"name": "card", "counters": counters}]
            if case.chance(0.2):
                shared.append({"name": "spare", "counters": {"slots": {"value": "1"}}})
            self._add(driver, pool, generation, count, where | {"sharedCounters": shared})
        if case.chance(0.1):
            self._add(driver, pool, generation + case.pick([-1, 1]), 1, where | {"devices": devices[:1]})
        self.devices += [(driver, pool, device) for device in devices]

    def _add(self, driver: str, pool: str, generation: int, count: int, spec: Body) -> None:
        self._serial += 1
        name = f"{self._case.pick('abc')}-{self._serial:02d}"
        head = {"driver": driver, "pool": {"name": pool, "generation": generation, "resourceSliceCount": count}}
        self._case.add(VERSION, "ResourceSlice", name, None, spec=head | spec)

    def _device(self, driver: str, place: int, partitioned: bool) -> Body:
        case = self._case
        attributes: Body = {
            "model": {"string": case.pick(MODELS)},
            "numa": {"int": case.number(0, 1)},
            "mig": {"bool": case.chance(0.5)},
        }
        if case.chance(0.8):
            attributes["version"] = {"version": f"{case.number(1, 2)}.{case.number(0, 9)}.0"}
        if case.chance(0.7):
            attributes["common.example.com/rack"] = {"string": case.pick(["r1", "r2"])}
        device: Body = {"name": f"{driver[:3]}-{place}", "attributes": attributes}
        self._add_capacity(device)
        if case.chance(0.12):
            device["taints"] = [TAINT | {"effect": case.pick(["NoSchedule", "NoExecute", "None"])}]
        if case.chance(0.06):
            device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        if case.chance(0.08):
            device["bindsToNode"] = True
        if partitioned and case.chance(0.8):
            counters = {case.pick(["slots", "engines"]): {"value": str(case.number(1, 3))}}
            device["consumesCounters"] = [{"counterSet": "card", "counters": counters}]
        return device

    def _add_capacity(self, device: Body) -> None:
        case = self._case
        memory: Body = {"value": case.pick(MEMORY)}
        device["capacity"] = {"memory": memory}
        if not case.chance(0.2):
            return
        device["allowMultipleAllocations"] = True
        if case.chance(0.6):
            steps = {"min": "1Gi", **({"step": "2Gi"} if case.chance(0.5) else {"max": "6Gi"})}
            values = {"default": "1Gi", "validValues": ["1Gi", "4Gi", "8Gi"]}
            memory["requestPolicy"] = case.pick([{"default": "1Gi", "validRange": steps}, values])


def _hold_some(case: Case, devices: Sequence[tuple[str, str, Body]]) -> None:
    """Claims of others that have devices already."""
    for place, (driver, pool, device) in enumerate(devices):
        if not case.chance(0.2):
            continue
        result: Body = {"request": "r", "driver": driver, "pool": pool, "device": device["name"]}
        if device.get("allowMultipleAllocations"):
            result |= {"shareID": f"share-{place}", "consumedCapacity": {"memory": case.pick(["1Gi", "4Gi"])}}
        elif case.chance(0.1):
            result["adminAccess"] = True
        spec = {"devices": {"requests": [{"name": "r", "exactly": _exactly("any")}]}}
        status = {"allocation": {"devices": {"results": [result]}}}
        case.add(VERSION, "ResourceClaim", f"held-{place:03d}", "team-a", spec=spec, status=status)


# --- claims


def _want_claims(case: Case, pod: Body) -> None:
    pod["spec"]["resourceClaims"] = []
    for place in range(case.pick([1, 1, 1, 2, 2, 3])):
        name = f"claim-{place}"
        if case.chance(0.2):
            _want_template(case, pod, name)
        else:
            pod["spec"]["resourceClaims"].append({"name": name, "resourceClaimName": name})
            if case.chance(0.97):
                _add_claim(case, name)


def _want_template(case: Case, pod: Body, name: str) -> None:
    """A claim that was made for the pod; or will be, or need not be."""
    pod["spec"]["resourceClaims"].append({"name": name, "resourceClaimTemplateName": "template"})
    said = case.random.random()
    if said < 0.05:
        return
    status: Body = {"name": name}
    pod["status"].setdefault("resourceClaimStatuses", []).append(status)
    if said < 0.15:
        return
    status["resourceClaimName"] = name
    claim = _add_claim(case, name)
    uid = pod["metadata"]["uid"] if said < 0.95 else "another"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid, "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]


def _add_claim(case: Case, name: str) -> Body:
    requests = [_request(case, f"r{place}") for place in range(case.pick([1, 1, 2, 2, 3]))]
    devices: Body = {"requests": requests}
    if case.chance(0.35):
        devices["constraints"] = [_constraint(case, requests)]
    if case.chance(0.3):
        names = [] if case.chance(0.4) else [case.pick(requests)["name"]]
        devices["config"] = [_opaque("of-claim") | ({"requests": names} if names else {})]
    status = _allocated(case, requests) if case.chance(0.12) else {}
    claim = case.add(VERSION, "ResourceClaim", name, "default", spec={"devices": devices}, status=status)
    if case.chance(0.02):
        claim["metadata"] |= {"deletionTimestamp": "2026-01-01T02:00:00Z", "finalizers": ["example.com/wait"]}
    return claim


def _request(case: Case, name: str) -> Body:
    if case.chance(0.25):
        return {
            "name": name,
            "firstAvailable": [{"name": f"s{place}", **_wish(case)} for place in range(case.number(1, 3))],
        }
    exactly = _wish(case)
    if case.chance(0.08):
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _wish(case: Case) -> Body:
    classes = ["gpu"] * 6 + ["any", "nic", "big", "big"] + (["fragile"] if case.chance(0.3) else [])
    made = _exactly(case.pick(classes) if case.chance(0.98) else "missing")
    if case.chance(0.4):
        made["selectors"] = [{"cel": {"expression": text}} for text in case.some(SELECTORS, 1, 2)]
    if case.chance(0.08):
        made["allocationMode"] = "All"
        del made["count"]
    else:
        made["count"] = case.pick([1, 1, 1, 2, 2, 3])
    if case.chance(0.25):
        made["tolerations"] = [
            case.pick([{"operator": "Exists"}, {"key": TAINT["key"], "operator": "Equal", "value": "x"}])
        ]
    if case.chance(0.15):
        made["capacity"] = {"requests": {"memory": case.pick(["1Gi", "3Gi", "5Gi", "20Gi"])}}
    return made


def _exactly(device_class: str) -> Body:
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}


def _constraint(case: Case, requests: Sequence[Body]) -> Body:
    kind = case.pick(["matchAttribute", "matchAttribute", "distinctAttribute"])
    made: Body = {kind: case.pick([f"{GPU}/numa", f"{GPU}/model", "common.example.com/rack"])}
    if case.chance(0.4):
        made["requests"] = [case.pick(requests)["name"]]
    return made


def _allocated(case: Case, requests: Sequence[Body]) -> Body:
    """The status of a claim that has a device already, perhaps of one node only, perhaps with conditions."""
    first: Any = requests[0]
    name = first["name"] + (f"/{first['firstAvailable'][-1]['name']}" if "firstAvailable" in first else "")
    result: Body = {"request": name, "driver": GPU, "pool": "elsewhere", "device": "d"}
    allocation: Body = {"devices": {"results": [result]}}
    if case.chance(0.6):
        fields = [{"key": "metadata.name", "operator": "In", "values": [case.node_name()]}]
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
    status: Body = {"allocation": allocation}
    if case.chance(0.3):
        result |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        conditions = [{"type": case.pick(["ready", "failed"]), "status": case.pick(["True", "False"])}]
        stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Because", "message": "so"}
        entry = {"driver": GPU, "pool": "elsewhere", "device": "d", "conditions": [conditions[0] | stamp]}
        status["devices"] = [entry]
        allocation["allocationTimestamp"] = case.pick(["2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z"])
    return status


def _opaque(text: str) -> Body:
    return {
        "opaque": {"driver": GPU, "parameters": {"apiVersion": "gpu.example.com/v1", "kind": "Setup", "text": text}}
    }
