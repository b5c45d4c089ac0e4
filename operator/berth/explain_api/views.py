"""Views of nodes and of the cluster: room, pods by policy, queue, rates and policies."""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Final

from berth.explain.quantities import quantity
from berth.explain_api.collecting import Slices
from berth.explain_api.port import Body
from berth.explain_api.resources import API_VERSION, CURRENT
from berth.explain_api.sources import Sources, metadata
from berth.explain_api.summaries import reason_of
from berth.model import Node, Pod
from berth.policy.status import PolicyStanding
from berth.policy.usage import ShadowOutcome
from berth.scheduler.queue.queue import Part

ZONE: Final = "topology.kubernetes.io/zone"
RATE_SECONDS: Final = 60.0
MOST_REASONS: Final = 20
PODS: Final = "pods"

Amounts = Counter[str]


class NodeViews:
    """Makes the views of nodes, without the pods that a node rejects: these have to be judged."""

    def __init__(self, sources: Sources) -> None:
        self._of = sources

    def body(self, name: str) -> Body | None:
        """Returns the view of the node; None if there is no such node."""
        table = self._of.cache.state.table
        node, row = table.node(name), table.row(name)
        if node is None or row is None:
            return None
        pods = list(table.pods_on(name).values())
        assumed = self._of.cache.assumed()
        nominated = self._of.cache.state.nominated.get(name, {})
        status: dict[str, Any] = {
            "zone": node.labels.get(ZONE, ""),
            "unschedulable": node.unschedulable,
            "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints],
            "resources": rooms(node.allocatable, requested(self._of, node, pods)),
            "podCount": len(pods),
            "assumedPods": sum(pod.uid in assumed for pod in pods),
            "pods": self._by_policy(pods),
            "nominatedPods": sorted(pod.key for pod in nominated.values()),
            "leads": self._of.leads(),
        }
        shown = {key: value for key, value in status.items() if value not in ("", [])}
        return {
            "apiVersion": API_VERSION,
            "kind": "NodeView",
            "metadata": metadata(name, uid=node.uid, labels=node.labels),
            "status": shown,
        }

    def _by_policy(self, pods: Iterable[Pod]) -> list[dict[str, Any]]:
        counts = Counter(self._decider(pod) for pod in pods)
        return [{"policy": policy, "count": count} for policy, count in sorted(counts.items())]

    def _decider(self, pod: Pod) -> str:
        active = self._of.policy_for(pod)
        return active.policy.name if active is not None else f"({pod.scheduler_name})"


def requested(of: Sources, node: Node, pods: Iterable[Pod]) -> Amounts:
    """Returns what the node's pods request, by resource; pods themselves are a resource, too."""
    table = of.cache.state.table
    row = table.row(node.name)
    names = dict.fromkeys((*node.allocatable, *(name for pod in pods for name in pod.usage)))
    return Counter({name: table.used_of(name, row) for name in names}) if row is not None else Counter()


def rooms(allocatable: Mapping[str, int], used: Mapping[str, int]) -> list[dict[str, Any]]:
    """Returns allocatable, requested and free amounts by resource, those that matter most first."""
    names = [name for name in dict.fromkeys((*_FIRST, *allocatable, *used)) if allocatable.get(name) or used.get(name)]
    return [_room(name, allocatable.get(name, 0), used.get(name, 0)) for name in names]


_FIRST: Final = ("cpu", "memory", PODS)


def _room(name: str, there: int, used: int) -> dict[str, Any]:
    return {
        "name": name,
        "allocatable": quantity(name, there),
        "requested": quantity(name, used),
        "free": quantity(name, max(0, there - used)),
        "percent": 100 * used // there if there else 100,
    }


class ClusterViews:
    """Makes the view of the cluster, in short steps."""

    def __init__(self, sources: Sources) -> None:
        self._of = sources

    async def body(self, slices: Slices) -> Body:
        of = self._of
        zones, counts = await self._zones(slices)
        totals = _Zone()
        for zone in zones.values():
            totals.nodes += zone.nodes
            totals.allocatable += zone.allocatable
            totals.used += zone.used
        states, reasons = await self._queue(slices)
        problems = list(of.problems())
        status = {
            "replica": of.replica,
            "leads": of.leads(),
            "healthy": not problems,
            "problems": problems,
            "nodes": totals.nodes,
            "unschedulableNodes": counts["unschedulable"],
            "pods": counts["pods"],
            "assumedPods": len(of.cache.assumed()),
            "pending": sum(states.values()),
            "resources": rooms(totals.allocatable, totals.used),
            "zones": [
                {"zone": name, "nodes": zone.nodes, "resources": rooms(zone.allocatable, zone.used)}
                for name, zone in sorted(zones.items())
            ],
            "queue": [{"state": state, "pods": count} for state, count in sorted(states.items())],
            "reasons": [{"reason": reason, "pods": count} for reason, count in reasons.most_common(MOST_REASONS)],
            "rates": self._rates(),
            "attempts": self._attempts(),
            "policies": self._policies(),
        }
        return {"apiVersion": API_VERSION, "kind": "ClusterView", "metadata": metadata(CURRENT), "status": status}

    async def _zones(self, slices: Slices) -> tuple[dict[str, "_Zone"], Counter[str]]:
        table = self._of.cache.state.table
        zones: dict[str, _Zone] = {}
        counts: Counter[str] = Counter()
        for name in table.names():
            node = table.node(name)
            if node is None:
                continue  # removed meanwhile, or never seen: pods are bound to it
            pods = table.pods_on(name)
            zone = zones.setdefault(node.labels.get(ZONE, ""), _Zone())
            zone.nodes += 1
            zone.allocatable.update(node.allocatable)
            zone.used.update(requested(self._of, node, ()))
            counts["unschedulable"] += node.unschedulable
            counts["pods"] += len(pods)
            await slices.breathe()
        return zones, counts

    async def _queue(self, slices: Slices) -> tuple[Counter[str], Counter[str]]:
        states: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for item in self._of.queue.items():
            if item.part is not None:
                states[_STATES[item.part]] += 1
                if item.part in (Part.UNSCHEDULABLE, Part.BACKOFF) and (reason := reason_of(item.pod)[0]):
                    reasons[reason] += 1
            await slices.breathe()
        return states, reasons

    def _rates(self) -> dict[str, Any]:
        of = self._of
        now, decisions = of.clock.now(), of.decisions
        latest = decisions.since(now - RATE_SECONDS)
        is_whole = len(latest) < len(decisions) or decisions.total == len(latest)
        seconds = RATE_SECONDS if is_whole or not latest else max(0.001, now - latest[-1].seconds)
        rates = {"seconds": round(seconds, 3), "decisionsPerSecond": round(len(latest) / seconds, 2)}
        if latest:
            rates["medianWaitSeconds"] = round(median(decision.waited_seconds for decision in latest), 3)
        return rates

    def _attempts(self) -> list[dict[str, Any]]:
        return [{"result": result, "count": count} for result, count in sorted(self._of.attempts.items())]

    def _policies(self) -> list[dict[str, Any]]:
        return [self._policy(standing) for standing in self._of.policies.standings()]

    def _policy(self, standing: PolicyStanding) -> dict[str, Any]:
        counts = self._of.policies.usage.counts(standing.name, standing.uid)
        shadow = {outcome.value: counts.outcomes.get(outcome, 0) for outcome in ShadowOutcome}
        return {
            "name": standing.name,
            "generation": standing.generation,
            "activeGeneration": standing.active_generation,
            "schedulerName": standing.scheduler_name,
            "mode": standing.mode.value,
            "state": standing.state,
            **({"problem": standing.problem} if standing.problem else {}),
            "placed": counts.placed,
            "pending": counts.pending,
            **({"shadow": shadow} if any(shadow.values()) else {}),
        }


class _Zone:
    """What the nodes of a zone have together."""

    def __init__(self) -> None:
        self.nodes = 0
        self.allocatable: Amounts = Counter()
        self.used: Amounts = Counter()


_STATES: Final[Mapping[Part, str]] = {
    Part.ACTIVE: "Active",
    Part.IN_FLIGHT: "InFlight",
    Part.HELD: "Held",
    Part.BACKOFF: "Backoff",
    Part.UNSCHEDULABLE: "Unschedulable",
    Part.GATED: "Gated",
}
