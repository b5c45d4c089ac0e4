"""The workloads of scheduler_perf: where they are, which are chosen, and how they are rescaled.

They are read from the Go module of Kubernetes that `make control-plane` builds from, in the version of
tests/control_plane/go.mod, and never copied.

    read_cases(folder)              every test case, with its workloads
    choose(cases, patterns, gates)  those that are meant, and those that cannot be run, with the reason

A pattern is the name of a test case, with globs, and optionally a slash and the name of one of its workloads:
`SchedulingBasic`, `*NSSelector`, `SchedulingBasic/500Nodes`. Without the second part, the workload is the one that
Kubernetes tests the performance by: it has the label `performance` and asks for no feature gate other than the default;
of several, one with a threshold, and of these the one with the fewest measured pods.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from bench.perf.operations import CreateNodes, Operation, Unsupported, parse_operations
from control_plane.programs import MODULE_FOLDER, MissingPrograms, kubernetes_version

PERFORMANCE = "performance"
MEASURED = "measurePods"
# Parameters that are rescaled with the nodes and with the measured pods. Others stay as they are.
NODES = ("initNodes", "normalNodes", "taintNodes", "nodesWithExtendedResource", "nodesWithoutExtendedResource")
WITH_NODES = ("initPods", "initPodsPerNamespace")
WITH_PODS = ("deletingPods",)
# Where numbers depend on each other in ways that only the file's comments say.
FIXED = ("blockerPods", "nodes")
DYNAMIC_RESOURCES = "dra"  # the folder of their test cases

Gates = Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Workload:
    case: str
    name: str
    parameters: Mapping[str, Any]
    definitions: Sequence[Mapping[str, Any]]
    folder: Path
    pod_template: Path | None = None
    gates: Gates = field(default_factory=dict)
    labels: Sequence[str] = ()
    threshold: float | None = None
    changed: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.case}/{self.name}"

    @property
    def nodes(self) -> int:
        """How many nodes there are before anything is measured."""
        return sum(one.count for one in self.operations() if isinstance(one, CreateNodes))

    def operations(self) -> list[Operation]:
        """Raises Unsupported."""
        return parse_operations(self.definitions, self.parameters, self.folder, self.pod_template)

    def rescaled(self, nodes: int | None, pods: int | None) -> Workload:
        """The same with so many nodes, and at most so many measured pods; `changed` says what is not as in the file."""
        if any(name in self.parameters for name in FIXED):
            return self
        parameters = dict(self.parameters)
        total = sum(parameters.get(name, 0) for name in NODES)
        if nodes is not None and total:
            _scale(parameters, (*NODES, *WITH_NODES), nodes / total)
        measured = parameters.get(MEASURED, 0)
        if pods is not None and measured > pods:
            _scale(parameters, (MEASURED, *WITH_PODS), pods / measured)
        before = self.parameters
        changed = {name: (before[name], parameters[name]) for name in before if before[name] != parameters[name]}
        return Workload(
            self.case,
            self.name,
            parameters,
            self.definitions,
            self.folder,
            self.pod_template,
            self.gates,
            self.labels,
            self.threshold,
            changed,
        )


def _scale(parameters: dict[str, Any], names: Sequence[str], factor: float) -> None:
    for name in names:
        if parameters.get(name):
            parameters[name] = max(1, round(parameters[name] * factor))


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    workloads: Sequence[Workload]


@dataclass(frozen=True, slots=True)
class Skipped:
    title: str
    reason: str


def find_folder() -> Path:
    """The folder of scheduler_perf; raises MissingPrograms."""
    version = kubernetes_version()
    folder = _module_cache() / f"k8s.io/kubernetes@{version}" / "test/integration/scheduler_perf"
    if not folder.is_dir():
        raise MissingPrograms(
            f"the sources of Kubernetes {version} are not in Go's module cache: "
            f"run `go mod download k8s.io/kubernetes` in {MODULE_FOLDER.relative_to(MODULE_FOLDER.parents[1])}"
        )
    return folder


def _module_cache() -> Path:
    if cache := os.environ.get("GOMODCACHE"):
        return Path(cache)
    if shutil.which("go"):
        said = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True)
        if said.returncode == 0 and said.stdout.strip():
            return Path(said.stdout.strip())
    return Path.home() / "go/pkg/mod"


def read_cases(folder: Path) -> list[Case]:
    """Every test case of every performance-config.yaml below the folder, in the order of files and lines."""
    return [case for path in sorted(folder.rglob("performance-config.yaml")) for case in _read_file(path)]


def _read_file(path: Path) -> Iterator[Case]:
    for definition in yaml.safe_load(path.read_text()):
        template = definition.get("defaultPodTemplatePath")
        workloads = [
            Workload(
                definition["name"],
                workload["name"],
                workload.get("params", {}),
                definition["workloadTemplate"],
                path.parent,
                (path.parent / template).resolve() if template else None,
                {**definition.get("featureGates", {}), **workload.get("featureGates", {})},
                workload.get("labels", ()),
                workload.get("threshold"),
            )
            for workload in definition["workloads"]
        ]
        yield Case(definition["name"], workloads)


def choose(cases: Sequence[Case], patterns: Sequence[str], defaults: Gates) -> tuple[list[Workload], list[Skipped]]:
    """The workloads that the patterns mean, each once, and those of them that cannot be run."""
    chosen: dict[str, Workload] = {}
    skipped: dict[str, Skipped] = {}
    for pattern in patterns:
        name, _, size = pattern.partition("/")
        found = [case for case in cases if fnmatchcase(case.name, name)]
        if not found:
            raise Unsupported(f"no test case is called {name}: --list shows them")
        for case in found:
            for workload in _of_case(case, size, defaults):
                reason = why_not(workload, defaults)
                if reason:
                    skipped[workload.title] = Skipped(workload.title, reason)
                else:
                    chosen[workload.title] = workload
    return list(chosen.values()), list(skipped.values())


def _of_case(case: Case, size: str, defaults: Gates) -> list[Workload]:
    if size:
        found = [workload for workload in case.workloads if fnmatchcase(workload.name, size)]
        if not found:
            raise Unsupported(f"{case.name} has no workload {size}: {', '.join(one.name for one in case.workloads)}")
        return found
    return [default_workload(case, defaults)]


def default_workload(case: Case, defaults: Gates) -> Workload:
    """The one that stands for the test case; see the module's text."""

    def order(workload: Workload) -> tuple[bool, bool, bool, bool, int]:
        return (
            why_not(workload, defaults) != "",
            PERFORMANCE not in workload.labels,
            any(defaults.get(gate, value) != value for gate, value in workload.gates.items()),
            workload.threshold is None,
            workload.parameters.get(MEASURED, 0),
        )

    return min(case.workloads, key=order)


def why_not(workload: Workload, defaults: Gates) -> str:
    """Why the workload cannot be run here, or nothing. A gate that kube-scheduler does not list is locked to on."""
    if DYNAMIC_RESOURCES in workload.folder.parts:
        return "dynamic resources are not interpreted"
    off = [gate for gate, value in workload.gates.items() if not value and gate not in defaults]
    if off:
        return f"kube-scheduler {kubernetes_version()} cannot switch off {', '.join(off)}"
    try:
        workload.operations()
    except Unsupported as error:
        return f"{error} is not interpreted"
    if "numNodeDeclaredFeatures" in workload.parameters:
        return "features that nodes declare are set by code of scheduler_perf, not by its files"
    return ""


def read_gates(program: Path) -> dict[str, bool]:
    """The feature gates that a program of Kubernetes knows, with their defaults, as its help says."""
    said = subprocess.run([str(program), "--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"kube:(\w+)=true\|false \(.*default=(\w+)\)", said)
    return {name: default == "true" for name, default in found}
