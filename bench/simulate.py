"""How long `berth simulate` takes: 10,000 pods on 5,000 nodes, from the command to the report.

    make bench-simulate ARGS='--nodes 5000 --pods 10000 --questions deploy drain --json FILE'

A snapshot of a cluster is written to a file: nodes of four sizes in three zones, and pods of Deployments that take a
third of them. Each question is one run of the command in a process of its own, on one core, reading the file included:

    deploy   100 Deployments with as many pods as asked for: plain ones, spread over zones, kept apart, with a selector,
             of higher priority
    full     the same on a cluster that has not room for all of them
    preempt  pods of high priority on a full cluster: each evicts others, whose controllers create new pods
    drain    a tenth of the nodes is drained
    fill     how many small pods fit

Figures are seconds of processor time and of the clock, pods that were placed and stay pending, and the most memory that
the process had. The budget is 30 s for `deploy`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.terminal import positive, say
from control_plane.berth_process import berth_command, berth_environment

Body = dict[str, Any]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("a", "b", "c")
CORES = (4, 8, 16, 32)
PODS_PER_NODE = 5
DEPLOYMENTS = 100
BUDGET_SECONDS = 30.0
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Figures:
    question: str
    seconds: float
    cpu_seconds: float
    peak_mb: float
    placed: int
    pending: int


def node(number: int) -> Body:
    name, cores = f"node-{number:05}", CORES[number % len(CORES)]
    room = {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110"}
    labels = {HOSTNAME: name, ZONE: ZONES[number % len(ZONES)], "pool": f"pool-{number % 10}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def cluster(nodes: int, share: float) -> Iterator[Body]:
    """The snapshot: nodes, and pods of a Deployment for every hundred nodes that take this share of their cpu."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": "uid-default"}}
    for deployment in range(nodes // 100 or 1):
        yield replica_set(f"there-{deployment}")
    for number in range(nodes):
        yield node(number)
        for place in range(PODS_PER_NODE):
            millicores = int(1000 * CORES[number % len(CORES)] * share / PODS_PER_NODE)
            yield placed(number, place, f"there-{(number + place) % (nodes // 100 or 1)}", millicores)


def replica_set(name: str) -> Body:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"uid-{name}", "controller": True}
    metadata = {"name": f"{name}-1", "namespace": "default", "uid": f"uid-{name}-1", "ownerReferences": [owner]}
    spec = {"selector": {"matchLabels": {"app": name}}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def placed(number: int, place: int, app: str, millicores: int) -> Body:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-1", "uid": f"uid-{app}-1"}
    name = f"{app}-1-{number}-{place}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": app},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {**pod_spec(millicores), "nodeName": f"node-{number:05}"},
        "status": {"phase": "Running"},
    }


def pod_spec(millicores: int, **more: Any) -> Body:
    resources = {"requests": {"cpu": f"{millicores}m", "memory": "64Mi"}}
    container = {"name": "main", "image": "example.com/app:v1", "resources": resources}
    return {"schedulerName": "berth", "containers": [container], **more}


def deployments(pods: int, millicores: int = 200, **more: Any) -> Iterator[Body]:
    """Deployments of five kinds in turns."""
    for number in range(DEPLOYMENTS):
        name = f"new-{number}"
        labels = {"app": name}
        spec = pod_spec(millicores + number % 7, **more, **_constraints(number, labels))
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": pods // DEPLOYMENTS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }


def _constraints(number: int, labels: dict[str, str]) -> Body:
    selector = {"labelSelector": {"matchLabels": labels}}
    match number % 5:
        case 1:
            spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **selector}
            return {"topologySpreadConstraints": [spread]}
        case 2:
            term = {"topologyKey": HOSTNAME, **selector}
            return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        case 3:
            return {"nodeSelector": {"pool": f"pool-{number % 10}"}}
        case 4:
            weighted = {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, **selector}}
            return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}
    return {}


def important(pods: int) -> Iterator[Body]:
    value = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    yield value
    yield from deployments(pods, priorityClassName="high")


@dataclass(frozen=True, slots=True)
class Case:
    """`share`: of the nodes' cpu that is taken before; `manifests`: for -f; `words`: further arguments."""

    share: float
    manifests: Sequence[Body] = ()
    words: Sequence[str] = ()


def cases(pods: int) -> dict[str, Case]:
    small = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "small"}, "spec": pod_spec(500)}
    return {
        "deploy": Case(0.33, list(deployments(pods))),
        "full": Case(0.98, list(deployments(pods))),
        "preempt": Case(1.0, list(important(pods // 10))),
        "drain": Case(0.33, words=("--drain", "pool=pool-3")),
        "fill": Case(0.33, [small], ("--fill",)),
    }


def measure(name: str, case: Case, nodes: int, folder: Path) -> Figures:
    snapshot, manifests = folder / f"{name}.json", folder / f"{name}-f.json"
    snapshot.write_text(json.dumps(_listed(cluster(nodes, case.share))))
    manifests.write_text(json.dumps(_listed(case.manifests)))
    words = ["simulate", "--snapshot", str(snapshot), "-o", "json", *case.words]
    words += ["-f", str(manifests)] if case.manifests else []
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, *berth_command()[-1:], *words],
        env={**berth_environment(), **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode not in (0, 3):
        raise SystemExit(f"bench: {name}: {run.stderr}")
    peak_mb = float(run.stderr.splitlines()[-1])
    found = json.loads(run.stdout)
    placed_pods = found["summary"]["placed"] if found["fill"] is None else found["fill"]["count"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Figures(name, seconds, cpu, peak_mb, placed_pods, found["summary"]["pending"])


# The command in this process, and the most memory that it had on the last line of standard error.
MEASURED = """
import resource, sys
from berth.cli import main
code = main(sys.argv[2:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
sys.exit(code)
"""


def _listed(bodies: Any) -> Body:
    return {"apiVersion": "v1", "kind": "List", "items": list(bodies)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-simulate", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=positive, default=5000)
    parser.add_argument("--pods", type=positive, default=10_000)
    parser.add_argument(
        "--questions",
        nargs="+",
        choices=tuple(cases(DEPLOYMENTS)),
        default=["deploy", "full", "preempt", "drain", "fill"],
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    print(f"{'':10}{'seconds':>10}{'cpu s':>10}{'MB':>8}{'placed':>10}{'pending':>10}")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.questions:
            say(f"{name}: {options.nodes:,} nodes")
            figures = measure(name, cases(options.pods)[name], options.nodes, Path(folder))
            found.append(figures)
            numbers = f"{figures.seconds:10.1f}{figures.cpu_seconds:10.1f}{figures.peak_mb:8.0f}"
            print(f"{name:10}{numbers}{figures.placed:10,}{figures.pending:10,}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n")
    return 0 if all(each.question != "deploy" or each.cpu_seconds <= BUDGET_SECONDS for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
