"""What a workload does, step by step: the operations of scheduler_perf, with their parameters filled in.

`parse_operations` reads a workload template. An opcode or an option that is not interpreted is Unsupported, so that the
workload is skipped and not measured as something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Parameters = Mapping[str, Any]
Definition = Mapping[str, Any]
Labels = Mapping[str, str]

DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
CHURN_INTERVAL_MS = 500


class Unsupported(Exception):
    """A workload asks for something that is not interpreted here."""


@dataclass(frozen=True, slots=True)
class CreateNodes:
    """`label` is given to the nodes with `values` in turn; without values each node gets one of its own."""

    index: int
    count: int
    template: Path | None = None
    label: str | None = None
    values: Sequence[str] = ()
    allocatable: Labels = field(default_factory=dict)
    csi_drivers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    migrated_plugins: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CreateNamespaces:
    prefix: str
    count: int
    template: Path | None = None


@dataclass(frozen=True, slots=True)
class CreatePods:
    index: int
    count: int
    namespace: str
    template: Path | None = None
    measured: bool = False
    waits: bool = True
    volume_template: Path | None = None
    claim_template: Path | None = None


@dataclass(frozen=True, slots=True)
class CreateAny:
    template: Path
    count: int
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class UpdateAny:
    template: Path
    count: int
    namespace: str = ""
    per_second: int = 0
    subresources: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class DeletePods:
    namespace: str
    labels: Labels
    per_second: int
    waits: bool


@dataclass(frozen=True, slots=True)
class Churn:
    """`recreate`: `number` of each are made, then removed, in turn; otherwise made until there are `number` (0: always
    more).
    """

    recreate: bool
    number: int
    interval_seconds: float
    namespace: str
    templates: Sequence[Path]


@dataclass(frozen=True, slots=True)
class Barrier:
    """Until the pods that nobody waited for are bound, or at least attempted; of no namespaces: of all."""

    namespaces: Sequence[str]
    labels: Labels
    attempted: bool


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


@dataclass(frozen=True, slots=True)
class StartMeasuring:
    namespaces: Sequence[str]
    labels: Labels


@dataclass(frozen=True, slots=True)
class StopMeasuring:
    pass


Operation = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreateAny
    | UpdateAny
    | DeletePods
    | Churn
    | Barrier
    | Sleep
    | StartMeasuring
    | StopMeasuring
)


class Reader:
    """One operation's definition, read with the parameters of a workload; says which keys nobody read."""

    def __init__(self, definition: Definition, parameters: Parameters, folder: Path) -> None:
        self._definition = definition
        self._parameters = parameters
        self._folder = folder
        self._read = {"opcode"}

    def value(self, key: str, default: Any = None) -> Any:
        self._read.add(key)
        return self._definition.get(key, default)

    def resolved(self, key: str, default: Any = None) -> Any:
        """The value under `key`, or that of the parameter that `keyParam` names."""
        name = self.value(f"{key}Param")
        if not name:
            return self.value(key, default)
        self._read.add(key)
        if name[1:] not in self._parameters:
            raise Unsupported(f"parameter {name} is not set")
        return self._parameters[name[1:]]

    def path(self, key: str) -> Path | None:
        value = self.value(key)
        return (self._folder / value).resolve() if value else None

    def paths(self, key: str) -> list[Path]:
        return [(self._folder / path).resolve() for path in self.value(key, ())]

    def needed_path(self, key: str) -> Path:
        path = self.path(key)
        if path is None:
            raise Unsupported(f"{self._definition['opcode']} without {key}")
        return path

    def finish(self) -> None:
        unread = sorted(set(self._definition) - self._read)
        if unread:
            raise Unsupported(f"{self._definition['opcode']} with {', '.join(unread)}")


def parse_operations(
    definitions: Sequence[Definition], parameters: Parameters, folder: Path, pod_template: Path | None
) -> list[Operation]:
    """The operations of a workload; one that creates a set of pods in each namespace becomes several."""
    operations: list[Operation] = []
    for index, definition in enumerate(definitions):
        operations += _parse(index, definition, parameters, folder, pod_template)
    return operations


def _parse(
    index: int, definition: Definition, parameters: Parameters, folder: Path, pod_template: Path | None
) -> list[Operation]:
    opcode = definition["opcode"]
    reader = Reader(definition, parameters, folder)
    if opcode == "createPodSets":
        return _pod_sets(index, reader, parameters, folder, pod_template)
    if opcode == "createPods":
        operation: Operation = _create_pods(index, reader, pod_template)
    elif opcode in PARSERS:
        operation = PARSERS[opcode](index, reader)
    else:
        raise Unsupported(f"opcode {opcode}")
    reader.finish()
    return [operation]


def _pod_sets(
    index: int, reader: Reader, parameters: Parameters, folder: Path, pod_template: Path | None
) -> list[Operation]:
    count, prefix, inner = reader.resolved("count", 0), reader.value("namespacePrefix"), reader.value("createPodsOp")
    reader.finish()
    sets: list[Operation] = []
    for number in range(count):
        definition = {**inner, "namespace": f"{prefix}-{number}"}
        sets += _parse(index, definition, parameters, folder, pod_template)
    return sets


def _create_pods(index: int, reader: Reader, pod_template: Path | None) -> CreatePods:
    if reader.resolved("steadyState", False):
        raise Unsupported("createPods with steadyState")
    reader.resolved("duration")  # of the steady state
    return CreatePods(
        index,
        reader.resolved("count", 0),
        reader.value("namespace") or f"namespace-{index}",
        reader.path("podTemplatePath") or pod_template,
        reader.value("collectMetrics", False),
        not reader.value("skipWaitToCompletion", False),
        reader.path("persistentVolumeTemplatePath"),
        reader.path("persistentVolumeClaimTemplatePath"),
    )


def _create_nodes(index: int, reader: Reader) -> CreateNodes:
    label = reader.value("labelNodePrepareStrategy") or {}
    unique = reader.value("uniqueNodeLabelStrategy") or {}
    room = reader.value("nodeAllocatableStrategy") or {}
    return CreateNodes(
        index,
        reader.resolved("count", 0),
        reader.path("nodeTemplatePath"),
        label.get("labelKey") or unique.get("labelKey"),
        label.get("labelValues", ()),
        room.get("nodeAllocatable", {}),
        room.get("csiNodeAllocatable", {}),
        room.get("migratedPlugins", ()),
    )


def _create_namespaces(index: int, reader: Reader) -> CreateNamespaces:
    return CreateNamespaces(reader.value("prefix"), reader.resolved("count", 0), reader.path("namespaceTemplatePath"))


def _create_any(index: int, reader: Reader) -> CreateAny:
    return CreateAny(reader.needed_path("templatePath"), reader.resolved("count", 1), reader.value("namespace", ""))


def _update_any(index: int, reader: Reader) -> UpdateAny:
    return UpdateAny(
        reader.needed_path("templatePath"),
        reader.resolved("count", 1),
        reader.value("namespace", ""),
        reader.value("updatePerSecond", 0),
        reader.value("subresources", ()),
    )


def _delete_pods(index: int, reader: Reader) -> DeletePods:
    return DeletePods(
        reader.value("namespace"),
        reader.value("labelSelector", {}),
        reader.value("deletePodsPerSecond", 0),
        not reader.value("skipWaitToCompletion", False),
    )


def _churn(index: int, reader: Reader) -> Churn:
    mode, number = reader.value("mode"), reader.value("number", 0)
    if mode not in ("create", "recreate") or (mode == "recreate" and number == 0):
        raise Unsupported(f"churn with mode {mode} and number {number}")
    return Churn(
        mode == "recreate",
        number,
        (reader.value("intervalMilliseconds", 0) or CHURN_INTERVAL_MS) / 1000,
        reader.value("namespace") or f"namespace-{index}",
        reader.paths("templatePaths"),
    )


def _barrier(index: int, reader: Reader) -> Barrier:
    stage = reader.value("stageRequirement") or "Scheduled"
    if stage not in ("Scheduled", "Attempted"):
        raise Unsupported(f"barrier with stageRequirement {stage}")
    return Barrier(reader.value("namespaces", ()), reader.value("labelSelector", {}), stage == "Attempted")


def _sleep(index: int, reader: Reader) -> Sleep:
    return Sleep(parse_duration(reader.resolved("duration", "0s")))


def _start(index: int, reader: Reader) -> StartMeasuring:
    reader.value("name")  # of the result
    return StartMeasuring(reader.value("namespaces", ()), reader.value("labelSelector", {}))


def _stop(index: int, reader: Reader) -> StopMeasuring:
    return StopMeasuring()


PARSERS: Mapping[str, Callable[[int, Reader], Operation]] = {
    "createNodes": _create_nodes,
    "createNamespaces": _create_namespaces,
    "createAny": _create_any,
    "updateAny": _update_any,
    "deletePods": _delete_pods,
    "churn": _churn,
    "barrier": _barrier,
    "sleep": _sleep,
    "startCollectingMetrics": _start,
    "stopCollectingMetrics": _stop,
}


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it: 1m30s."""
    parts = DURATION.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        raise Unsupported(f"duration {text}")
    return float(sum(float(number) * UNIT_SECONDS[unit] for number, unit in parts))
