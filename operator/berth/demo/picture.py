"""What can be seen of the cluster: nodes and how full they are, pods that wait and why, decisions and their rate.

A picture is made from watch events of nodes, pods and scheduling policies, with the time at which each was seen. It
does no I/O and has no clock. A decision is a pod that has a node and had none before: what is counted here is what the
API server holds, not what the scheduler says about itself.

Not in it: colours and layout (`drawing`), lines for those without a terminal (`lines`), and what the numbers should
have been (`verdict`).
"""

import math
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from berth.demo.scenario import POLICY, SCHEDULER, ZONE_LABEL
from berth.model import parse_node, parse_pod

KEPT_DECISIONS = 50
RATE_SECONDS = 2.0
BUCKET_PERCENT = 20
ENDED = ("Succeeded", "Failed")
BUCKETS = ("empty", "to 20 %", "to 40 %", "to 60 %", "to 80 %", "to 100 %")


@dataclass(slots=True)
class DrawnNode:
    """A node and what the pods on it ask for."""

    name: str
    zone: str
    cpu_millicores: int
    cpu_used_millicores: int = 0
    pods: int = 0

    @property
    def percent(self) -> float:
        return 100.0 * self.cpu_used_millicores / self.cpu_millicores if self.cpu_millicores else 0.0


@dataclass(slots=True)
class DrawnPod:
    """A pod that has not ended. `refusal` is why it has no node yet, in the scheduler's words."""

    key: str
    cpu_millicores: int
    is_ours: bool
    node: str = ""
    refusal: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A pod that was given a node, and how full that made the node."""

    at_seconds: float
    pod: str
    node: str
    generation: int
    percent: float


@dataclass(frozen=True, slots=True)
class Fullness:
    """How nodes are filled, at one moment.

    `histogram` counts them by how full they are, one number a bucket; `deviation_percent` is how far they are from
    being equally full (the standard deviation).
    """

    nodes: int
    empty: int
    cpu_percent: float
    in_use_percent: float
    deviation_percent: float
    histogram: tuple[int, ...]

    @property
    def in_use(self) -> int:
        return self.nodes - self.empty


@dataclass(frozen=True, slots=True)
class DrawnPolicy:
    """The policy as its status tells of it; generation 0 where nothing is in force."""

    name: str
    generation: int
    active_generation: int
    is_packing: bool

    @property
    def in_force(self) -> bool:
        return self.active_generation == self.generation > 0


@dataclass(slots=True)
class GenerationCounts:
    """What was decided under one generation of the policy."""

    pods: int = 0
    nodes: set[str] = field(default_factory=set)


class Picture:
    """Everything that was seen so far."""

    def __init__(self) -> None:
        self._nodes: dict[str, DrawnNode] = {}
        self._pods: dict[str, DrawnPod] = {}
        self._placed_uids: set[str] = set()
        self._by_second: Counter[int] = Counter()
        self._recent: deque[float] = deque()
        self._waited: dict[int, int] = {}
        self.decisions: deque[Decision] = deque(maxlen=KEPT_DECISIONS)
        self.tallies: defaultdict[int, GenerationCounts] = defaultdict(GenerationCounts)
        self.policy: DrawnPolicy | None = None
        self.failed: list[str] = []
        """Pods that failed, such as those that a kubelet refused for lack of resources."""
        self.overfull: set[str] = set()
        """Nodes that were ever asked for more cpu than they have."""
        self._order: list[DrawnNode] | None = None

    # --- events ------------------------------------------------------------------------------------------------------

    def observe(self, kind: str, type_: str, body: Mapping[str, Any], now_seconds: float) -> None:
        """An event of a watch: ADDED, MODIFIED or DELETED. Other kinds and bookmarks are not for us."""
        if type_ not in ("ADDED", "MODIFIED", "DELETED"):
            return
        removed = type_ == "DELETED"
        if kind == "Pod":
            self._observe_pod(body, removed, now_seconds)
        elif kind == "Node":
            self._observe_node(body, removed)
        elif kind == "SchedulingPolicy":
            self._observe_policy(body, removed)

    def _observe_node(self, body: Mapping[str, Any], removed: bool) -> None:
        name = body["metadata"]["name"]
        self._order = None
        if removed:
            self._nodes.pop(name, None)
            return
        node = parse_node(body)
        view = DrawnNode(name, node.labels.get(ZONE_LABEL, ""), node.allocatable.get("cpu", 0))
        old = self._nodes.get(name)
        if old is not None:
            view.cpu_used_millicores, view.pods = old.cpu_used_millicores, old.pods
        self._nodes[name] = view

    def _observe_pod(self, body: Mapping[str, Any], removed: bool, now_seconds: float) -> None:
        uid = body["metadata"]["uid"]
        phase = body.get("status", {}).get("phase", "")
        pod = self._pods.get(uid)
        if removed or phase in ENDED:
            if phase == "Failed" and not removed and pod is not None:
                self.failed.append(f"{pod.key}: {body['status'].get('message') or body['status'].get('reason')}")
            self._leave(uid)
            return
        if pod is None:
            pod = self._pods[uid] = _read(body)
        pod.phase = phase
        node = body["spec"].get("nodeName", "")
        if node and not pod.node:
            self._settle(uid, pod, node, now_seconds)
        elif not node:
            pod.refusal = _refusal(body)

    def _leave(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        node = self._nodes.get(pod.node) if pod is not None else None
        if pod is not None and node is not None:
            node.cpu_used_millicores -= pod.cpu_millicores
            node.pods -= 1

    def _settle(self, uid: str, pod: DrawnPod, name: str, now_seconds: float) -> None:
        pod.node, pod.refusal = name, ""
        node = self._nodes.get(name)
        if node is not None:
            node.cpu_used_millicores += pod.cpu_millicores
            node.pods += 1
            if node.cpu_used_millicores > node.cpu_millicores:
                self.overfull.add(name)
        if pod.is_ours and uid not in self._placed_uids:
            self._placed_uids.add(uid)
            self._note(Decision(now_seconds, pod.key, name, self._generation(), node.percent if node else 0.0))

    def _note(self, decision: Decision) -> None:
        self.decisions.append(decision)
        tally = self.tallies[decision.generation]
        tally.pods += 1
        tally.nodes.add(decision.node)
        self._by_second[int(decision.at_seconds)] += 1
        self._recent.append(decision.at_seconds)

    def _generation(self) -> int:
        return 0 if self.policy is None else self.policy.active_generation

    def _observe_policy(self, body: Mapping[str, Any], removed: bool) -> None:
        if body["metadata"]["name"] != POLICY:
            return
        self.policy = None
        if not removed:
            metadata, status = body["metadata"], body.get("status") or {}
            self.policy = DrawnPolicy(
                metadata["name"],
                int(metadata.get("generation", 0)),
                int(status.get("activeGeneration", 0)),
                _packs(body["spec"]),
            )

    # --- what is seen ------------------------------------------------------------------------------------------------

    @property
    def placed(self) -> int:
        """How many pods of ours were ever given a node."""
        return len(self._placed_uids)

    @property
    def running(self) -> int:
        return sum(pod.phase == "Running" for pod in self._pods.values())

    @property
    def on_nodes(self) -> int:
        """Pods of ours that have a node and have not ended."""
        return sum(pod.is_ours and bool(pod.node) for pod in self._pods.values())

    def waiting(self) -> list[DrawnPod]:
        """Pods of ours without a node, those first that say why."""
        waiting = [pod for pod in self._pods.values() if pod.is_ours and not pod.node]
        return sorted(waiting, key=lambda pod: (not pod.refusal, pod.key))

    def rate(self, now_seconds: float) -> float:
        """Decisions a second, over the last two seconds."""
        while self._recent and self._recent[0] <= now_seconds - RATE_SECONDS:
            self._recent.popleft()
        return len(self._recent) / RATE_SECONDS

    def peak_rate(self) -> int:
        """The most decisions within one second."""
        return max(self._by_second.values(), default=0)

    def busy_seconds(self) -> int:
        """Seconds in which anything was decided."""
        return len(self._by_second)

    def note_waiting(self, now_seconds: float) -> None:
        """Remember how many pods wait now, for the curve."""
        second = int(now_seconds)
        self._waited[second] = max(self._waited.get(second, 0), len(self.waiting()))

    def rates(self, now_seconds: float, seconds: int) -> list[int]:
        """Decisions in each of the last full seconds, oldest first."""
        return [self._by_second[second] for second in _last(now_seconds, seconds)]

    def waits(self, now_seconds: float, seconds: int) -> list[int]:
        """Waiting pods in each of the last full seconds, oldest first."""
        return [self._waited.get(second, 0) for second in _last(now_seconds, seconds)]

    def nodes(self) -> Sequence[DrawnNode]:
        """All nodes, by name."""
        if self._order is None:
            self._order = sorted(self._nodes.values(), key=lambda node: node.name)
        return self._order

    def zones(self) -> dict[str, list[DrawnNode]]:
        """Nodes by zone, both by name."""
        zones: dict[str, list[DrawnNode]] = {}
        for node in sorted(self.nodes(), key=lambda node: node.zone):
            zones.setdefault(node.zone, []).append(node)
        return zones

    def fullness(self) -> Fullness:
        return fullness_of(self.nodes())


def fullness_of(nodes: Iterable[DrawnNode]) -> Fullness:
    """How these nodes are filled."""
    nodes = list(nodes)
    used = [node for node in nodes if node.pods]
    histogram = [0] * len(BUCKETS)
    for node in nodes:
        histogram[bucket(node.pods, node.percent)] += 1
    deviation = statistics.pstdev(node.percent for node in nodes) if nodes else 0.0
    return Fullness(len(nodes), len(nodes) - len(used), _mean(nodes), _mean(used), deviation, tuple(histogram))


def bucket(pods: int, percent: float) -> int:
    """Which bucket of the histogram nodes fall into: 0 when they have no pods."""
    if not pods:
        return 0
    return min(len(BUCKETS) - 1, max(1, math.ceil(percent / BUCKET_PERCENT)))


def _mean(nodes: Sequence[DrawnNode]) -> float:
    """Per cent of the cpu of all of them."""
    whole = sum(node.cpu_millicores for node in nodes)
    return 100.0 * sum(node.cpu_used_millicores for node in nodes) / whole if whole else 0.0


def _last(now_seconds: float, seconds: int) -> range:
    return range(int(now_seconds) - seconds, int(now_seconds))


def _read(body: Mapping[str, Any]) -> DrawnPod:
    pod = parse_pod(body)
    return DrawnPod(pod.key, pod.requests.get("cpu", 0), pod.scheduler_name == SCHEDULER)


def _refusal(body: Mapping[str, Any]) -> str:
    for condition in body.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def _packs(spec: Mapping[str, Any]) -> bool:
    """Whether the policy prefers full nodes."""
    for entry in spec.get("priorities") or ():
        if entry["name"] == "NodeResourcesFit":
            strategy = (entry.get("args") or {}).get("scoringStrategy") or {}
            return bool(strategy.get("type") == "MostAllocated")
    return False
