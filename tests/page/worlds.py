"""Clusters to look at: what the API answers about them, made from a few numbers and a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from berth.explain_api.port import Body
from berth.explain_api.resources import API_VERSION
from explain_api.fakes import FakeExplanations, decision, explanation, node_view

ZONES = ("europe-a", "europe-b", "europe-c")
SHAPES = ((16, 64), (32, 128), (8, 32))
REASONS = ("InsufficientResource", "UntoleratedTaint", "NodeAffinityMismatch", "TopologySpread")
NODE_PREFIX = "node"


def moment(seconds_ago: float = 0.0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def room(name: str, there: int, used: int, unit: str = "") -> dict[str, Any]:
    amounts = {"allocatable": there, "requested": used, "free": max(0, there - used)}
    return {"name": name, "percent": 100 * used // there, **{key: f"{value}{unit}" for key, value in amounts.items()}}


def node(number: int, random: Random, zone: str = "", *, fullness: float = 0.6, **status: Any) -> Body:
    cpu, memory = SHAPES[number % len(SHAPES)]
    share = min(1.0, max(0.0, random.gauss(fullness, 0.22)))
    pods = round(110 * share * 0.5)
    resources = [
        room("cpu", cpu * 1000, int(cpu * 1000 * share), "m"),
        room("memory", memory, int(memory * min(1.0, max(0.0, share * random.uniform(0.5, 1.1)))), "Gi"),
        room("pods", 110, pods),
    ]
    if number % 8 == 0:
        resources.append(room("nvidia.com/gpu", 8, random.randint(0, 8)))
    said = {
        "zone": zone or ZONES[number % len(ZONES)],
        "resources": resources,
        "podCount": pods,
        "pods": [{"policy": "default", "count": pods}],
        "unschedulable": number % 67 == 13,
        "leads": True,
        **status,
    }
    body = node_view(f"{NODE_PREFIX}-{number:04}", **said)
    body["metadata"]["labels"] = {
        "kubernetes.io/hostname": body["metadata"]["name"],
        "topology.kubernetes.io/zone": said["zone"],
        "node.kubernetes.io/instance-type": "m7.4xlarge",
        "kubernetes.io/os": "linux",
    }
    return body


def made(number: int, seconds_ago: float = 0.0, evaluated: int = 60, **status: Any) -> Body:
    """The decision of this number, among so many nodes."""
    app = ("web", "cart", "search", "batch")[number % 4]
    said = {
        "nodeName": f"{NODE_PREFIX}-{number * 7 % evaluated:04}",
        "schedulerName": "berth",
        "policy": {"name": "default", "generation": 3},
        "time": moment(seconds_ago),
        "nodesEvaluated": evaluated,
        "nodesFeasible": evaluated // 3 + number % (evaluated // 2),
        "total": 640 + number % 50,
        "runnerUpNodeName": f"{NODE_PREFIX}-{number * 3 % evaluated:04}",
        "runnerUpTotal": 631,
        "waitedSeconds": 0.004 + number % 7 / 100,
        "attempts": 1,
        **status,
    }
    return decision(f"{app}-{number:x}.{number:x}", **said)


def cluster_view(nodes: Sequence[Body], pods: Sequence[Body], **status: Any) -> Body:
    """The view of the cluster that belongs to these nodes and pods."""
    zones: dict[str, list[Body]] = {}
    for one in nodes:
        zones.setdefault(one["status"]["zone"], []).append(one)
    reasons = Counter(one["status"]["reason"] for one in pods if one["status"].get("reason"))
    states = Counter(one["status"]["state"] for one in pods)
    said = {
        "replica": "berth-5d9c7b6f4-x2x7q",
        "leads": True,
        "nodes": len(nodes),
        "unschedulableNodes": sum(one["status"].get("unschedulable", False) for one in nodes),
        "pods": sum(one["status"].get("podCount", 0) for one in nodes),
        "assumedPods": 0,
        "pending": len(pods),
        "resources": _sums(nodes),
        "zones": [
            {"zone": name, "nodes": len(members), "resources": _sums(members)}
            for name, members in sorted(zones.items())
        ],
        "queue": [{"state": state, "pods": count} for state, count in sorted(states.items())],
        "reasons": [{"reason": reason, "pods": count} for reason, count in reasons.most_common()],
        "rates": {"seconds": 60.0, "decisionsPerSecond": 12.4, "medianWaitSeconds": 0.021},
        "attempts": [{"result": "scheduled", "count": 1024}],
        "policies": POLICIES,
        **status,
    }
    return {"apiVersion": API_VERSION, "kind": "ClusterView", "metadata": {"name": "current"}, "status": said}


POLICIES = [
    {"name": "default", "generation": 3, "schedulerName": "berth", "mode": "Active", "placed": 18214, "pending": 24},
    {"name": "batch", "generation": 1, "schedulerName": "berth-batch", "mode": "Active", "placed": 912, "pending": 7},
    {
        "name": "binpack-trial",
        "generation": 5,
        "schedulerName": "berth",
        "mode": "Shadow",
        "placed": 0,
        "pending": 0,
        "shadow": {"same": 14020, "different": 3710, "unplaced": 12, "gained": 0, "skipped": 460},
    },
]


def _sums(nodes: Sequence[Body]) -> list[dict[str, Any]]:
    totals: dict[str, tuple[int, int, str]] = {}
    for one in nodes:
        for entry in one["status"]["resources"]:
            unit = entry["requested"].lstrip("0123456789")
            there, used, _ = totals.get(entry["name"], (0, 0, ""))
            there += int(entry["allocatable"].removesuffix(unit))
            totals[entry["name"]] = there, used + int(entry["requested"].removesuffix(unit)), unit
    return [room(name, there, used, unit) for name, (there, used, unit) in totals.items()]


def pending_pods(count: int, random: Random) -> list[Body]:
    apps = ("web", "cart", "train", "report")
    found = []
    for number in range(count):
        reason = random.choices(REASONS, (12, 5, 2, 1))[0]
        name = f"{apps[number % 4]}-{random.getrandbits(20):05x}"
        since, attempts = moment(random.randint(5, 4000)), random.randint(1, 30)
        found.append(explanation(name, ("shop", "research")[number % 2], reason=reason, since=since, attempts=attempts))
    return found


def fill(port: FakeExplanations, nodes: int = 60, pods: int = 12, decisions: int = 20, seed: int = 7) -> None:
    """Makes a cluster of this size what the API answers about."""
    random = Random(seed)
    port.nodes = {body["metadata"]["name"]: body for body in (node(number, random) for number in range(nodes))}
    port.pods.clear()
    port.put(*pending_pods(pods, random), stuck(), placed())
    for number in range(decisions):
        put_decision(port, made(number + 1, decisions - number, nodes))
    refresh(port)


def refresh(port: FakeExplanations) -> None:
    """Makes the view of the cluster anew, after nodes or pods have changed."""
    waiting = [body for body in port.pods.values() if body["status"]["state"] != "Bound"]
    port.cluster = cluster_view(list(port.nodes.values()), waiting)


def put_decision(port: FakeExplanations, body: Body) -> None:
    port.decided[body["metadata"]["namespace"], body["metadata"]["name"]] = body


def stuck() -> Body:
    """A pending pod with everything that an explanation can say."""
    return explanation(
        "train-7d",
        "research",
        message="no node fits: 40 of 60 nodes lack cpu, 12 have a taint that it does not tolerate, 8 lack a GPU",
        reason="InsufficientResource",
        since=moment(312),
        attempts=9,
        placeInQueue=3,
        nextTry=moment(-95),
        nodes=60,
        schedulerMessage="0/60 nodes are available: 40 Insufficient cpu, 12 node(s) had untolerated taint(s), "
        "8 Insufficient nvidia.com/gpu. preemption: 0/60 nodes are available: 60 Preemption is not helpful.",
        reasons=[
            {
                "code": "InsufficientResource",
                "plugin": "NodeResourcesFit",
                "message": "Insufficient cpu",
                "nodes": 40,
                "nodesRejectedByNothingElse": 31,
                "help": "request less of it, or make room on a node",
                "nearestMisses": [
                    {"node": "node-0036", "message": "lacks 240m cpu: 1200m asked for, 960m free"},
                    {"node": "node-0012", "message": "lacks 410m cpu: 1200m asked for, 790m free"},
                ],
            },
            {
                "code": "UntoleratedTaint",
                "plugin": "TaintToleration",
                "message": "node(s) had untolerated taint(s)",
                "nodes": 12,
                "nodesRejectedByNothingElse": 4,
                "help": "tolerate the taint, or remove it from a node",
                "nearestMisses": [{"node": "node-0004", "message": "dedicated=gpu:NoSchedule is not tolerated"}],
            },
            {
                "code": "InsufficientResource",
                "plugin": "NodeResourcesFit",
                "message": "Insufficient nvidia.com/gpu",
                "nodes": 8,
                "nodesRejectedByNothingElse": 0,
                "help": "request less of it, or make room on a node",
            },
        ],
        prospect={
            "outlook": "NotNow",
            "message": "31 nodes would take it if pods left",
            "nodes": 31,
            "examples": ["node-0036", "node-0012"],
        },
        preemption={"code": "NoLowerPriority", "helps": False, "message": "no pod there has a lower priority"},
        advice=[
            {
                "code": "LowerRequest",
                "kind": "Pod",
                "name": "train-7d",
                "message": "request 960m cpu instead of 1200m: it fits on node-0036",
                "changes": [{"field": "spec.containers[0].resources.requests.cpu", "before": "1200m", "after": "960m"}],
                "nodeName": "node-0036",
                "nodes": 1,
            },
            {
                "code": "AddToleration",
                "kind": "Pod",
                "name": "train-7d",
                "message": "tolerate the taint dedicated=gpu:NoSchedule: it fits on 4 nodes, such as node-0004",
                "changes": [{"field": "spec.tolerations", "after": "dedicated=gpu:NoSchedule"}],
                "nodeName": "node-0004",
                "nodes": 4,
            },
        ],
        retriedOn=["Pod/Delete", "Node/Add", "Node/UpdateTaint", "Node/UpdateAllocatable"],
        leads=True,
    )


def placed() -> Body:
    """A bound pod with its scores."""
    weights = {"NodeResourcesFit": 1, "PodTopologySpread": 2, "TaintToleration": 3, "ImageLocality": 1}

    def scored(name: str, *scores: int) -> dict[str, Any]:
        found = [
            {"plugin": plugin, "weight": weight, "score": score, "points": weight * score}
            for (plugin, weight), score in zip(weights.items(), scores, strict=True)
        ]
        return {"nodeName": name, "total": sum(entry["points"] for entry in found), "scores": found}

    return explanation(
        "web-5f",
        "shop",
        state="Bound",
        message="it is on node-0010, which had the highest score of 41 feasible nodes",
        reason="",
        since=moment(4000),
        attempts=1,
        nodeName="node-0010",
        choice={
            "nodeName": "node-0010",
            "evidence": "Recorded",
            "message": "node-0010 had the highest score",
            "evaluated": 60,
            "feasible": 41,
            "chosen": scored("node-0010", 87, 100, 100, 12),
            "others": [scored("node-0044", 71, 100, 100, 0), scored("node-0003", 93, 50, 100, 0)],
        },
        leads=True,
    )
