"""What happens in the demo: a cluster, waves of workloads, a change of policy and a pod that fits nowhere.

A plan is a function of the number of nodes, the number of pods and a seed; it holds API bodies and times, and knows
nothing of clusters, clocks or screens. Two acts:

1. *Spreading.* The first version of every service arrives in three waves, with a batch job among them, until about a
   third of the cluster's cpu is asked for. On the way comes a pod that fits nowhere, so that it can say why.
2. *Packing.* The policy has been changed. Service by service the first version leaves and the second arrives.

A pod asks for as much cpu as makes the sum come out at that third, whatever numbers are asked for. In the second act
pods leave a moment before others arrive: what is packed beside pods that are about to go leaves holes behind.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

SCHEDULER = "berth"
NAMESPACE = "demo"
POLICY = "default"
ZONES = ("zone-a", "zone-b", "zone-c")
ZONE_LABEL = "topology.kubernetes.io/zone"
APP_LABEL = "app"
DURATION_ANNOTATION = "berth.dev/sim-duration"
GIANT = "giant"

FEWEST_NODES, MOST_NODES = len(ZONES), 2_000
FEWEST_PODS, MOST_PODS_A_NODE = 20, 60
PODS_A_NODE = 110

LOAD_SHARE = 0.34
"""Of the cluster's cpu, what all services of one act ask for together."""
JOB_SHARE = 0.12
"""Of an act's pods, those that belong to its batch job."""
LEAVING_SHARE = 0.4
"""Of the time between two waves of the second act, what the leaving ones have before the others arrive."""

MACHINES = (("small", 8), ("medium", 12), ("large", 16))
GIB_A_CORE = 4
# One tuple a wave: service, its share of the pods, how much cpu one of its pods takes against the others, GiB a core.
SERVICES = (
    (("front", 4, 0.6, 2), ("cart", 2, 1.0, 3)),
    (("search", 3, 1.2, 4), ("orders", 2, 1.0, 3)),
    (("stock", 3, 0.8, 2), ("media", 2, 1.6, 4)),
)
JOB = "reports"
JOB_WAVE = 1
GIANT_WAVE = 1

Body = dict[str, Any]

PACKING: Body = {
    "spec": {
        "priorities": [
            {"name": "NodeResourcesFit", "weight": 20, "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            {"name": "NodeResourcesBalancedAllocation", "enabled": False},
        ]
    }
}
"""The merge patch that turns the default policy into a packing one."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast the story goes."""

    wave_seconds: float = 3.5
    job_seconds: int = 4
    hold_seconds: float = 1.5
    """How long the picture stands still at the end of an act, to be looked at."""


DEFAULT_TIMING = Timing()


@dataclass(frozen=True, slots=True)
class Machine:
    """One node to be."""

    name: str
    zone: str
    size: str
    cores: int

    def body(self) -> Body:
        room = {"cpu": str(self.cores), "memory": f"{self.cores * GIB_A_CORE}Gi", "pods": str(PODS_A_NODE)}
        labels = {
            "kubernetes.io/hostname": self.name,
            "node.kubernetes.io/instance-type": self.size,
            ZONE_LABEL: self.zone,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "status": {
                "capacity": room,
                "allocatable": room,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of one kind: a Deployment that stays, or a Job whose pods finish after `seconds`."""

    name: str
    replicas: int
    cpu_millicores: int
    memory_mib: int
    seconds: int | None = None

    @property
    def is_job(self) -> bool:
        return self.seconds is not None

    def body(self) -> Body:
        return self._job() if self.is_job else self._deployment()

    def _deployment(self) -> Body:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": NAMESPACE, "labels": self._labels()},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": self._labels()},
                "template": self._template({}, {}),
            },
        }

    def _job(self) -> Body:
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": NAMESPACE, "labels": self._labels()},
            "spec": {
                "completions": self.replicas,
                "parallelism": self.replicas,
                "template": self._template({DURATION_ANNOTATION: str(self.seconds)}, {"restartPolicy": "Never"}),
            },
        }

    def _template(self, annotations: Body, spec: Body) -> Body:
        metadata: Body = {"labels": self._labels()}
        if annotations:
            metadata["annotations"] = annotations
        return {"metadata": metadata, "spec": pod_spec(self.cpu_millicores, self.memory_mib) | spec}

    def _labels(self) -> dict[str, str]:
        return {APP_LABEL: self.name}


def pod_spec(cpu_millicores: int, memory_mib: int) -> Body:
    """Returns a pod of one container, for Berth; it ends at once when deleted, since nothing waits for it."""
    requests = {"cpu": f"{cpu_millicores}m", "memory": f"{memory_mib}Mi"}
    return {
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "example/app:v1", "resources": {"requests": requests}}],
    }


@dataclass(frozen=True, slots=True)
class Wave:
    """What happens `at_seconds` after its act has begun: `leave` are Deployments that go down to no pods at all."""

    at_seconds: float
    title: str
    arrive: tuple[Workload, ...]
    leave: tuple[str, ...] = ()
    giant: Body | None = None

    @property
    def pods(self) -> int:
        return sum(workload.replicas for workload in self.arrive)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that will happen in a demo."""

    machines: tuple[Machine, ...]
    spreading: tuple[Wave, ...]
    packing: tuple[Wave, ...]
    timing: Timing

    @property
    def pods(self) -> int:
        """How many pods will be made that fit."""
        return sum(wave.pods for wave in (*self.spreading, *self.packing))


def problem_with(nodes: int, pods: int) -> str | None:
    """Why there is no plan for these numbers; None when there is one."""
    if not FEWEST_NODES <= nodes <= MOST_NODES:
        return f"--nodes: {nodes} is not between {FEWEST_NODES} and {MOST_NODES:,}"
    most_pods = nodes * MOST_PODS_A_NODE
    if not FEWEST_PODS <= pods <= most_pods:
        return f"--pods: {pods} is not between {FEWEST_PODS} and {most_pods:,}, {MOST_PODS_A_NODE} for each node"
    return None


def make_plan(nodes: int, pods: int, seed: int, timing: Timing = DEFAULT_TIMING) -> Plan:
    """ValueError where `problem_with` sees a problem."""
    problem = problem_with(nodes, pods)
    if problem is not None:
        raise ValueError(problem)
    random = Random(seed)
    machines = tuple(_machines(nodes, random))
    millicores = round(LOAD_SHARE * 1000 * sum(machine.cores for machine in machines))
    first, second = pods - pods // 2, pods // 2
    old = _act("v1", first, millicores, random, timing)
    new = _act("v2", second, millicores, random, timing)
    spreading = _arriving(old, _giant(), timing.wave_seconds)
    return Plan(machines, spreading, _replacing(old, new, timing.wave_seconds), timing)


def _machines(nodes: int, random: Random) -> Iterator[Machine]:
    """Zones in turn, and as many machines of each size as of the others; which is which is up to the seed."""
    sizes = [MACHINES[number % len(MACHINES)] for number in range(nodes)]
    random.shuffle(sizes)
    for number, (size, cores) in enumerate(sizes):
        zone = ZONES[number % len(ZONES)]
        yield Machine(f"{zone}-{number // len(ZONES) + 1:03}", zone, size, cores)


def _act(version: str, pods: int, millicores: int, random: Random, timing: Timing) -> list[tuple[Workload, ...]]:
    """The workloads of each wave."""
    services = [service for wave in SERVICES for service in wave]
    job_pods = round(pods * JOB_SHARE)
    shares = [share * random.uniform(0.8, 1.2) for _, share, _, _ in services]
    replicas = divide(pods - job_pods, shares)
    weight = sum(count * scale for count, (_, _, scale, _) in zip(replicas, services, strict=True))
    unit = min(millicores / weight, _largest_unit())
    sized = {
        name: Workload(f"{name}-{version}", count, _round(unit * scale), _mib(_round(unit * scale), gib))
        for count, (name, _, scale, gib) in zip(replicas, services, strict=True)
    }
    waves = [[sized[name] for name, _, _, _ in wave if sized[name].replicas] for wave in SERVICES]
    job = Workload(f"{JOB}-{version}", job_pods, _round(unit), _mib(_round(unit), 2), timing.job_seconds)
    waves[JOB_WAVE].append(job)
    return [tuple(wave) for wave in waves]


def divide(total: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers in proportion to the shares that sum up to the total."""
    whole = sum(shares)
    ends, so_far = [0], 0.0
    for share in shares:
        so_far += share
        ends.append(round(total * so_far / whole))
    return [end - start for start, end in pairwise(ends)]


def _largest_unit() -> float:
    """The largest pod takes half of the smallest machine, so that few pods on many machines still fit."""
    smallest = min(cores for _, cores in MACHINES)
    return 500 * smallest / max(scale for wave in SERVICES for _, _, scale, _ in wave)


def _round(millicores: float) -> int:
    step = 50 if millicores >= 500 else 10
    return max(step, round(millicores / step) * step)


def _mib(millicores: int, gib_a_core: float) -> int:
    return max(16, round(millicores * gib_a_core * 1024 / 1000 / 16) * 16)


def _arriving(old: Sequence[tuple[Workload, ...]], giant: Body, wave_seconds: float) -> tuple[Wave, ...]:
    return tuple(
        Wave(number * wave_seconds, _title(workloads), workloads, giant=giant if number == GIANT_WAVE else None)
        for number, workloads in enumerate(old)
    )


def _replacing(
    old: Sequence[tuple[Workload, ...]], new: Sequence[tuple[Workload, ...]], wave_seconds: float
) -> tuple[Wave, ...]:
    waves = []
    for number, (leaving, arriving) in enumerate(zip(old, new, strict=True)):
        names = tuple(workload.name for workload in leaving if not workload.is_job)
        waves.append(Wave(number * wave_seconds, "", (), names))
        waves.append(Wave((number + LEAVING_SHARE) * wave_seconds, _title(arriving), arriving))
    return tuple(waves)


def _title(workloads: Sequence[Workload]) -> str:
    return ", ".join(f"{workload.name} {workload.replicas}" for workload in workloads)


def _giant() -> Body:
    """Wants one zone, and there twice the largest machine: the nodes of the two other zones refuse it for the zone."""
    cores = 2 * max(cores for _, cores in MACHINES)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": GIANT, "namespace": NAMESPACE, "labels": {APP_LABEL: GIANT}},
        "spec": pod_spec(cores * 1000, 16) | {"nodeSelector": {ZONE_LABEL: ZONES[0]}},
    }
